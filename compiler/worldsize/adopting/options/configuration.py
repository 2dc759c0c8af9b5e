"""Numbers that a script reads from a YAML or JSON file beside it, which an option can set instead."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.adopting.options.arguments import find_given
from worldsize.adopting.options.declared import read_options
from worldsize.adopting.source.script import Script
from worldsize.documents import yaml
from worldsize.scripts.module import constant_value

SUFFIXES = (".yaml", ".yml", ".json")
_DEPTH = 8
_LOADERS = frozenset(
    {"yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load", "json.load", "json.loads"}
    | {"omegaconf.OmegaConf.load", "OmegaConf.load"}
)


class Setting(Struct, eq=False):
    """A number or text of a file, and where a variable of the script has got it."""

    value: int | float | str
    places: list[tuple[ast.stmt, str]]  # after which statement it is what; the nearest to the file is last


def find_setting(script: Script, node: ast.expr) -> Setting | None:
    """What ``cfg["train"]["lr"]`` or ``cfg.train.lr`` is in the file that `cfg` was read from."""
    keys: list[tuple[str, str]] = []
    places: list[tuple[ast.stmt, str]] = []
    for _ in range(_DEPTH):
        while (step := _read_key(node)) is not None:
            node, key = step
            keys.insert(0, key)
        step_back = _step_back(script, node)
        if step_back is None or not keys:
            return None
        statement, value = step_back
        if statement is not None:
            places.append((statement, script.written(node) + "".join(text for text, _ in keys)))
        path = _find_file(script, value)
        if path is not None:
            found_value = _read_value(path, [key for _, key in keys])
            return None if found_value is None else Setting(found_value, places)
        node = value
    return None


def read_replaced(script: Script) -> dict[str, float | None]:
    """The numbers that options of an adopted script replace: ``cfg["lr"] = args.lr``."""
    numbers: dict[str, float | None] = {}
    for node in script.nodes(ast.Assign):
        name = getattr(node.value, "attr", getattr(node.value, "id", ""))
        declared = read_options(script.module).named(name)
        if declared is not None and declared.flag.default is None and declared.flag.role is not None:
            setting = find_setting(script, node.targets[0])
            if setting is not None and not isinstance(setting.value, str):
                numbers[declared.flag.role] = setting.value
    return numbers


def _read_key(node: ast.expr) -> tuple[ast.expr, tuple[str, str]] | None:
    """``(cfg, ('["lr"]', "lr"))`` of ``cfg["lr"]``, also of ``cfg.lr`` and ``cfg.get("lr", 0.1)``."""
    if isinstance(node, ast.Subscript) and isinstance(key := constant_value(node.slice), str):
        return node.value, (f'["{key}"]', key)
    if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") != "self":
        return node.value, (f".{node.attr}", node.attr)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        key = constant_value(node.args[0]) if node.args else None
        if isinstance(key, str):
            return node.func.value, (f'["{key}"]', key)
    return None


def _step_back(script: Script, node: ast.expr) -> tuple[ast.stmt | None, ast.expr] | None:
    """The statement that binds a variable, with its value; of a parameter what a call passes."""
    bound = script.list_bindings(node) if isinstance(node, ast.Name) else []
    if not bound:  # `load_config(path)`, `self.config`
        value = script.step(node)
        return None if value is None else (None, value)
    statement, value, position = bound[0]
    return (statement, value) if len(bound) == 1 and position is None else None


def _find_file(script: Script, value: ast.expr) -> Path | None:
    """The file that an expression reads, where its name is known: ``yaml.safe_load(open("config.yaml"))``."""
    inner = [keyword.value for keyword in getattr(value, "keywords", ()) if keyword.arg is None]
    if isinstance(value, ast.Call) and script.module.name_of(value.func) not in _LOADERS:
        wrapped = inner or value.args[:1]
        is_own = script.function(value) is not None and not inner
        return _find_file(script, wrapped[0]) if wrapped and not is_own else None
    if not isinstance(value, ast.Call) or not value.args:
        return None
    return next(_list_files(script, value.args[0], _DEPTH), None)


def _list_files(script: Script, node: ast.expr, depth: int) -> Iterator[Path]:
    """The files beside the script whose names are in an expression, or in what it is made of."""
    folder = Path(script.module.source.path).absolute().parent
    for inner in ast.walk(node) if depth else ():
        name = _name_file(script, inner)
        if name is not None:
            path = Path(os.path.realpath(folder / name))
            if path.suffix in SUFFIXES and path.is_file() and path.is_relative_to(folder.resolve()):
                yield path
        elif isinstance(inner, ast.Name):
            value = script.value(inner)
            if value is not inner:
                yield from _list_files(script, value, depth - 1)


def _name_file(script: Script, node: ast.AST) -> str | None:
    """The text of a constant, or what an option is: as on the command line, else by its default."""
    if isinstance(node, ast.Attribute):
        declared = read_options(script.module).named(node.attr)
        if declared is None:
            return None
        options = read_options(script.module)
        flags = [option.flag for option in options.declared]
        word = find_given(declared.flag, flags, script.arguments, options.subcommand)
        default = declared.flag.default
        return word or (default if isinstance(default, str) else None)
    value = constant_value(node) if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def _read_value(path: Path, keys: list[str]) -> int | float | str | None:
    root = yaml.load(str(path)).root
    value: Any = yaml.to_python(root) if root is not None else None
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, str):  # `1e-3`, which YAML 1.1 takes for a text
        try:
            return float(value)
        except ValueError:
            return value
    return value if type(value) in (int, float) else None
