"""The schemas by the path of a key: what is allowed there, and what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from worldsize.azureml.shape.catalog import load_catalog
from worldsize.azureml.shape.recognise import CHECKED
from worldsize.documents.shape import Schema, Shape, load_schema
from worldsize.lsp.outline import Outline, Path

_SHOWN = 20  # words of a key


class SchemaView(Struct, frozen=True):
    """One schema with the document that it is asked about, whose ``type:`` decides between alternatives."""

    schema: Schema
    outline: Outline

    def list_shapes(self, path: Path) -> list[Shape]:
        """The shapes that the value at a path may have."""
        shapes = list(self._expand(self.schema.root, ()))
        for depth, part in enumerate(path):
            below = path[: depth + 1]
            shapes = [
                schema
                for shape in shapes
                for child in _children(shape, part)
                for schema in self._expand(child, below)
            ]
        return shapes

    def list_keys(self, path: Path) -> dict[str, Shape]:
        """The keys of the mapping at a path."""
        keys: dict[str, Shape] = {}
        for shape in self.list_shapes(path):
            for name, child in self.schema.list_properties(shape).items():
                if not child.get("readOnly"):
                    keys.setdefault(name, child)
        return keys

    def list_required(self, path: Path) -> set[str]:
        """The keys that the mapping at a path needs."""
        shapes = self.list_shapes(path)
        return {name for shape in shapes for name in shape.get("required", ())} if len(shapes) == 1 else set()

    def list_values(self, path: Path) -> list[str]:
        """The words that the value at a path may be, where they are few."""
        values: dict[str, None] = {}
        for shape in self.list_shapes(path):
            words = [*shape.get("enum", ()), *([shape["const"]] if "const" in shape else ())]
            kinds = shape.get("type")
            if "boolean" in (kinds if isinstance(kinds, list) else [kinds]):
                words += [True, False]
            values |= dict.fromkeys(write_literal(word) for word in words if word is not None)
        return list(values)

    def describe(self, path: Path) -> str | None:
        """The description of a key by the first of its shapes that has one, with its default and words."""
        if not path:
            return None
        parents = self.list_shapes(path[:-1])
        members = [child for parent in parents for child in _children(parent, path[-1])]
        whole = [self.schema.complete(member) for member in members]
        text = next((schema["description"] for schema in whole if schema.get("description")), None)
        default = next((schema["default"] for schema in whole if "default" in schema), None)
        values = self.list_values(path) if all(map(_lists_words, self.list_shapes(path))) else []
        lines = [str(text)] if text else []
        more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
        lines += [f"One of {', '.join(f'`{value}`' for value in values[:_SHOWN])}{more}."] if values else []
        lines += [f"Default: `{write_literal(default)}`."] if default is not None else []
        return "\n\n".join(lines) or None

    def _expand(self, shape: Shape, path: Path) -> Iterator[Shape]:
        """A shape, or the alternatives that it stands for."""
        whole = self.schema.resolve(shape)
        choices = self._choose(whole, path)
        if not choices or "properties" in whole or "enum" in whole:
            yield whole
        for choice in choices:
            yield from self._expand(choice, path)

    def _choose(self, shape: Shape, path: Path) -> list[Shape]:
        options: list[Shape] = [*shape.get("anyOf", ()), *shape.get("oneOf", ()), *shape.get("allOf", ())]
        discriminator = shape.get("x-discriminator")
        if discriminator and "oneOf" in shape:
            word = self.outline.value(*path, discriminator["key"]) if "key" in discriminator else None
            index = discriminator.get("mapping", {}).get(word) if word else None
            for key, position in discriminator.get("present", {}).items():
                index = position if (*path, key) in self.outline.entries else index
            if isinstance(index, int) and index < len(shape["oneOf"]):
                return [shape["oneOf"][index]]
        return options


def open_schema(kind: str, outline: Outline) -> SchemaView | None:
    """The schema of a kind of file; None for files without one."""
    if kind in ("spec", "settings"):
        return SchemaView(load_schema("spec" if kind == "spec" else "worldsize"), outline)
    return SchemaView(load_catalog(kind), outline) if kind in CHECKED else None


def _lists_words(shape: Shape) -> bool:
    """Whether a shape allows only words that it lists, or true and false."""
    return "enum" in shape or "const" in shape or shape.get("type") in ("boolean", ["boolean"], "null")


def _children(shape: Shape, part: str | int) -> Iterator[Shape]:
    if isinstance(part, int):
        items = shape.get("items")
        if isinstance(items, Mapping):
            yield items
        return
    child = shape.get("properties", {}).get(part)
    if child is None:
        child = shape.get("additionalProperties")
    if isinstance(child, Mapping):
        yield child


def write_literal(value: object) -> str:
    """A value as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
