"""Every regular expression of the code takes linear time on whatever text it meets."""

from __future__ import annotations

import ast
import importlib
import json
import re
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from worldsize.documents.yaml import nodes

ROOT = Path(__file__).resolve().parents[2]
ATTACKS = runpy.run_path(str(ROOT / "tests" / "repo" / "regex_attacks.py"))
FOLDERS = ("compiler/worldsize", "components")
LATER = "compile_later"  # `re.compile` when first used: worldsize.base.patterns
METHODS = (*ATTACKS["SEARCHES"], "match", "fullmatch")


class Use(NamedTuple):
    """A pattern, and how it is used."""

    where: str
    pattern: re.Pattern[str]
    method: str


# Patterns that are built while the program runs: by the function that builds them, what it builds.
# Those of the schemas are tested as the schemas have them.
BUILT: dict[str, tuple[str, ...]] = {
    "components/_shared/wstrain/launch/gpus.py:installed_build": (
        r"(?m)^cuda\b.*'",
        r"'is_cuda_build', True",
    ),
    "resolving/components.py:find_with_input": (r"(?m)^  strategy:\n((?:    .*\n)*)",),
    "running/environments/definition.py:_imports": (r"(?:\bimport|\bfrom|,|-m)\s+(?:a|b)\b",),
    "running/engine/failures.py:_mentions": (r"(?<![\w-])(?:sklearn|scipy)(?![\w-])",),
    "components/_shared/wssources/mltable_steps.py:_read_partition_format": (r"(?:^|/)([^/]+?)/([^/]+?)$",),
    "documents/secrecy/known_formats.py:_compile": (
        r"://[^\s:/@'\"{}$<>]*:((?!%\()[^\s:/@'\"{}$<>*]{4,})@(?!localhost|127\.)[\w.-]",
        r"://(\w{30,})@(?![\w.-]*sentry)[\w.-]",
        r"(?<![A-Za-z0-9+/=-])((?=[a-z0-9+/]*[A-Z])(?=[A-Za-z+/]*\d)[A-Za-z0-9+/]{86}==)(?!=)",
        r"(?i:\b(?:uid|user(?: id|name)?)\s?=[^;\n]{1,80};\s?(?:pwd|password)\s?=)([^;\s'\"{}$<>*%]{4,})",
        r"\b([A-Za-z0-9]{52}JQQJ9[A-Za-z0-9]{19,35})\b",
    ),
    "documents/secrecy/masking.py:_sought": (r"(?:abcdefgh|(?<![\w-])abcd(?![\w-]))",),
    "base/patterns.py:__getattr__": (),  # what is given to it is found where it is written
    "azureml/ignore.py:parse_line": (
        r"^(?=(?P<g0>[^/]*?a))(?P=g0)(?=(?P<g1>[^/]*?b(?=/)))(?P=g1)(?=(?P<g3>(?:/.+?)??/c(?=(?P<g2>[^/]*?d(?:/|$)))(?P=g2)))(?P=g3)",
        r"^(?=(?P<g5>(?:.+?/)??(?=(?P<g0>[^/]*?a))(?P=g0)(?=(?P<g1>[^/]*?a))(?P=g1)(?=(?P<g2>[^/]*?a))(?P=g2)(?=(?P<g3>[^/]*?a))(?P=g3)(?=(?P<g4>[^/]*?b(?:/|$)))(?P=g4)))(?P=g5)",
    ),
    "documents/shape.py:compile_pattern": (),
    "serving/control/workspaces.py:answer_above": (
        r"subscriptions/(?P<subscription>[^/]+)/providers/p/locations/(?P<location>[^/]+)/(?P<what>[^/]+)(?P<rest>/.*)?",
    ),
    "documents/yaml/nodes.py:trace_segments": (),
}


@cache
def trees() -> dict[Path, ast.Module]:
    """The modules that may use a pattern; a word is cheaper to look for than a tree to walk."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    called = re.compile(rf"\bre\.|\b{LATER}\(|\.(?:{'|'.join(METHODS)})\b")
    return {path: ast.parse(text) for path, text in texts.items() if called.search(text)}


def names_of(path: Path) -> dict[str, Any]:
    """The names of a module, as far as it can be imported without the libraries that train."""
    if path.is_relative_to(ROOT / "compiler"):
        module = ".".join(path.relative_to(ROOT / "compiler").with_suffix("").parts)
        return vars(importlib.import_module(module.removesuffix(".__init__")))
    return {"re": re}


def written() -> Iterator[tuple[str, Path, str, ast.Call, str, str]]:
    """Every call of the module `re`: where, its function, the method and the name it is assigned to."""
    for path, tree in trees().items():
        owner = {node: name for name, node in _functions(tree)}
        assigned = {
            node.value: node.targets[0].id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == LATER:
                place = f"{path.relative_to(ROOT).as_posix()}:{node.lineno}"
                yield place, path, owner.get(node, ""), node, "compile", assigned.get(node, "")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                module = node.func.value
                if (
                    isinstance(module, ast.Name)
                    and module.id == "re"
                    and node.func.attr in (*METHODS, "compile")
                ):
                    place = f"{path.relative_to(ROOT).as_posix()}:{node.lineno}"
                    yield place, path, owner.get(node, ""), node, node.func.attr, assigned.get(node, "")


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                yield function.name, node


def uses() -> Iterator[Use]:
    """Every pattern with every method that it is used with."""
    for place, path, function, call, method, name in written():
        try:
            pattern = _evaluate(call, path)
        except NameError:
            base = ROOT / FOLDERS[0] if path.is_relative_to(ROOT / FOLDERS[0]) else ROOT
            key = f"{path.relative_to(base).as_posix()}:{function}"
            assert key in BUILT, f"{place} builds a pattern: add examples of what {key} builds to BUILT"
            for example in BUILT[key]:
                yield Use(place, re.compile(example), "search")
            continue
        for used in _methods(path, name) if method == "compile" else [method]:
            yield Use(place, pattern, used)


def _evaluate(call: ast.Call, path: Path) -> re.Pattern[str]:
    keywords = [word.value for word in call.keywords if word.arg == "flags"]
    compiles = isinstance(call.func, ast.Name) or (
        isinstance(call.func, ast.Attribute) and call.func.attr == "compile"
    )
    flags = keywords or (call.args[1:2] if compiles else [])
    names = names_of(path)
    pattern, flag = (
        eval(compile(ast.Expression(each), str(path), "eval"), dict(names))
        for each in (call.args[0], flags[0] if flags else ast.Constant(0, lineno=1, col_offset=0))
    )
    return re.compile(pattern, flag)


def _methods(path: Path, name: str) -> list[str]:
    """How a compiled pattern is used in its module, or in those that import it; a search where unknown."""
    found: set[str] = set()
    for other, (imported, used) in _mentions().items():
        if other == path or imported & {path.stem, path.parent.name}:
            found |= used.get(name, set())
    return sorted(found) or ["search"]


@cache
def _mentions() -> dict[Path, tuple[set[str], dict[str, set[str]]]]:
    """What each module imports from, and which methods of patterns it calls, by the name before the dot."""
    found: dict[Path, tuple[set[str], dict[str, set[str]]]] = {}
    for path, tree in trees().items():
        imported, used = found[path] = (set(), {})
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                imported.update([node.module.split(".")[-1], *(alias.name for alias in node.names)])
            elif isinstance(node, ast.Attribute) and node.attr in METHODS:
                last = node.value
                called = last.id if isinstance(last, ast.Name) else getattr(last, "attr", "")
                used.setdefault(called, set()).add(node.attr)
    return found


def _schema_patterns() -> Iterator[Use]:
    """Patterns of the JSON schemas, which are searched for in what a file says."""
    for path in sorted((ROOT / "schemas").glob("*.json")):
        waiting = [json.loads(path.read_text(encoding="utf-8"))]
        while waiting:
            node = waiting.pop()
            waiting += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
            if isinstance(node, dict) and isinstance(node.get("pattern"), str):
                yield Use(f"{path.name}: {node['pattern']}", re.compile(node["pattern"]), "search")


def _of_libraries() -> Iterator[Use]:
    for rules in Resolver.yaml_implicit_resolvers.values():
        for tag, pattern in rules:
            yield Use(f"PyYAML: {tag}", pattern, "match")
    for style in (nodes._DOUBLE, nodes._SINGLE, nodes._PLAIN):
        yield Use("documents/yaml/nodes.py", re.compile(style), "match")
    yield Use("PyYAML: timestamp", SafeConstructor.timestamp_regexp, "match")


@cache
def everything() -> tuple[Use, ...]:
    found = {(use.pattern, use.method): use for use in [*uses(), *_schema_patterns(), *_of_libraries()]}
    return tuple(found.values())


@pytest.mark.timeout(400)
def test_every_pattern_takes_linear_time() -> None:
    found = everything()
    assert len(found) > 150
    slow = []
    for use in found:
        text = ATTACKS["slow_text"](use.pattern, use.method)
        if text is not None:
            slow.append(f"{use.where} {use.method}: {text}\n    {use.pattern.pattern[:200]}")
    assert not slow, "\n".join(slow)


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"\$\{\{\s*([^\s{}]*)\s*\}\}", "search"),  # two ways to share blanks out
        (r"(?:^|[;\n])\s*python", "search"),  # as many starts as blanks
        (r"--?[\w-]*ckpt", "finditer"),
        (r"azureml.*/([A-Za-z]+)\.schema", "search"),
        (r"a*a*b", "match"),
    ],
)
def test_the_attacks_find_what_is_slow(pattern: str, method: str) -> None:
    assert ATTACKS["slow_text"](re.compile(pattern), method) is not None


@pytest.mark.parametrize("pattern", [r"\s+$", r"[^}]*\}", r"\S*x", r"(?:\A|[;\n])[;\s]*x"])
def test_what_is_linear_from_one_start_is_left_alone(pattern: str) -> None:
    assert ATTACKS["slow_text"](re.compile(pattern), "match") is None
