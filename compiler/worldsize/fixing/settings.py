"""Sets values of a spec in its text, and changes no other byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from worldsize.documents import yaml
from worldsize.documents.yaml import Document, Mapping, Node, Scalar
from worldsize.documents.yaml.edit import insert_entry


class Setting(NamedTuple):
    """A value and the keys that lead to it: ``("steps", "train", "instance_count")``."""

    path: tuple[str, ...]
    value: int | str

    def shown(self) -> str:
        """``steps.train.instance_count: 2``."""
        return f"{'.'.join(self.path)}: {self.value}"


class SettingError(ValueError):
    """A value cannot be set in the text: it is computed, shared or no single value; the text says which."""


def set_values(document: Document, settings: Sequence[Setting]) -> str:
    """The text with every value set; keys that are missing are added.

    Raises:
        SettingError: One of them cannot be set.
    """
    for setting in settings:
        document = yaml.load(document.path, _set_value(document, setting))
    return document.text


def _set_value(document: Document, setting: Setting) -> str:
    text, node = document.text, document.root
    for depth, key in enumerate(setting.path):
        if not isinstance(node, Mapping):
            raise SettingError(f"`{'.'.join(setting.path[:depth])}` is not a mapping in the file")
        child = node.get(key)
        if child is None:
            return insert_entry(text, node, _write_entry(setting.path[depth:], setting.value))
        if not _lies_in(child, node):
            raise SettingError(f"`{'.'.join(setting.path[: depth + 1])}` is shared by an alias")
        node = child
    if not isinstance(node, Scalar) or "${{" in node.text:
        raise SettingError(f"`{'.'.join(setting.path)}` is not a plain value in the file")
    if node.value == setting.value:
        return text
    return f"{text[: node.start]}{setting.value}{text[node.end :]}"


def _write_entry(path: tuple[str, ...], value: int | str) -> str:
    """``parallelism: {tensor: 2}``."""
    inner = str(value)
    for key in reversed(path[1:]):
        inner = f"{{{key}: {inner}}}"
    return f"{path[0]}: {inner}"


def _lies_in(node: Node, outer: Node) -> bool:
    return outer.start <= node.start and node.end <= outer.end
