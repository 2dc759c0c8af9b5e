"""Faults in the keys of a mapping: unknown, missing, badly named or contradictory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from worldsize.base import limits
from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.base.suggest import closest_unambiguous, fix_word
from worldsize.base.wording import quoted_list, shorten
from worldsize.documents.shape import Violation
from worldsize.documents.yaml.nodes import Mapping as MappingNode
from worldsize.documents.yaml.nodes import Scalar
from worldsize.spec.locate import NodeLocation, Path, format_path
from worldsize.spec.suggest import closest
from worldsize.spec.values import write_flow


def report_key_problems(where: NodeLocation, path: Path, errors: list[Violation]) -> Iterator[Problem]:
    """Report one problem for each cause among the errors about the keys of one mapping."""
    by_keyword: dict[str, list[Violation]] = {}
    for error in errors:
        by_keyword.setdefault(error.keyword, []).append(error)
    meant: set[str] = set()
    for error in by_keyword.get("additionalProperties", []):
        for unknown in _unknown(error):
            near, deeper = closest(unknown, _free(error)), _find_deeper(error.subschema, unknown)
            meant |= {deeper[0]} if deeper else {near} if near else set()
            yield _unknown_key(where, error, unknown, near, deeper)
    for error in by_keyword.get("required", [])[:1]:
        yield from _missing(where, error, meant)
    for error in by_keyword.get("dependentRequired", [])[:1]:
        yield from _dependent(where, error, meant)
    for error in by_keyword.get("anyOf", []):
        yield from _none_of(where, path, error, meant)
    for error in by_keyword.get("not", []):
        yield _both_of(where, path, error)


def report_bad_name(where: NodeLocation, error: Violation) -> Problem:
    """Report a name that the user chose (a step, a profile, an input) but that is not allowed."""
    name = str(error.instance)
    return Problem(
        "spec-bad-pattern",
        _key_span(where, name),
        f"`{shorten(name, 40)}` is not a name that can be used in `{format_path(where.path)}`",
        f"use {error.subschema.get('description', error.argument)}",
    )


def _unknown(error: Violation) -> list[str]:
    known = _properties(error)
    return list(islice((key for key in error.instance if key not in known), limits.SAME))


def _free(error: Violation) -> list[str]:
    """Known keys that are not given: a misspelt key can only stand for one of these."""
    return [key for key in _properties(error) if key not in error.instance]


def _properties(error: Violation) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = error.subschema.get("properties", {})
    return properties


def _unknown_key(
    where: NodeLocation, error: Violation, key: str, near: str | None, deeper: Sequence[str]
) -> Problem:
    span = _key_span(where, key)
    keys = [name for name in _properties(error) if not name.startswith("$")]
    help_ = f"did you mean `{near}`?" if near else f"keys that are allowed here: {quoted_list(keys, 24)}"
    if deeper:
        help_, near = "write it under " + " of ".join(f"`{each}:`" for each in reversed(deeper)), None
    sure = closest_unambiguous(key, _free(error))
    fix = fix_word(span, key, sure) if sure is not None and sure == near else None
    return Problem(
        "spec-unknown-key", span, f"unknown key `{shorten(key, 40)}` {_inside(where)}", help_, fix=fix
    )


def _find_deeper(part: Any, key: str, levels: int = 2) -> tuple[str, ...]:
    """The keys that lead to mappings which have a key that their outer one lacks; empty if none does."""
    inner = part.get("properties", {}) if isinstance(part, dict) and levels else {}
    for name, each in inner.items():
        if isinstance(each, dict) and key in each.get("properties", {}):
            return (name,)
    for name, each in inner.items():
        if found := _find_deeper(each, key, levels - 1):
            return (name, *found)
    return ()


def _missing(where: NodeLocation, error: Violation, meant: set[str]) -> Iterator[Problem]:
    for key in error.argument:
        if key not in error.instance and key not in meant:
            example = _written(_properties(error), key)
            yield Problem(
                "spec-missing-key", where.name_span, f"{_subject(where)} has no `{key}`", f"add `{example}`"
            )


def _dependent(where: NodeLocation, error: Violation, meant: set[str]) -> Iterator[Problem]:
    step = error.instance
    for key, needed in error.argument.items():
        for other in needed:
            if key not in step or other in step or other in meant:
                continue
            if other == "command":
                # A step with neither `uses` nor `command` is reported once, as such.
                if "uses" in step:
                    yield _needs_command(where, key)
                continue
            example = _written(_properties(error), other)
            message = f"{_subject(where)} has `{key}` but no `{other}`"
            yield Problem("spec-missing-key", _key_span(where, key), message, f"add `{example}`")


def _needs_command(where: NodeLocation, key: str) -> Problem:
    return Problem(
        "step-key-needs-command",
        _key_span(where, key),
        f"`{key}` belongs to a step with its own `command`, but {_subject(where)} uses a component",
        f"remove `{key}`: the component brings its own, or replace `uses` by `command`",
        (Related(_key_span(where, "uses"), "the component is named here"),),
    )


def _none_of(where: NodeLocation, path: Path, error: Violation, meant: set[str]) -> Iterator[Problem]:
    choices = [branch["required"][0] for branch in error.argument]
    if meant & set(choices):
        return
    slug = {"steps": "step-needs-uses-or-command", "schedule": "schedule-needs-cron-or-recurrence"}.get(
        str(path[0]) if path and path[-1] != "environment" else "", "spec-missing-key"
    )
    written = " or ".join(f"`{_written(_properties(error), choice)}`" for choice in choices)
    names = " nor ".join(f"`{choice}`" for choice in choices)
    yield Problem(slug, where.name_span, f"{_subject(where)} has neither {names}", f"add {written}")


def _both_of(where: NodeLocation, path: Path, error: Violation) -> Problem:
    first, second = error.argument["required"]
    slug = "schedule-cron-and-recurrence" if path[0] == "schedule" else "step-uses-and-command"
    return Problem(
        slug,
        _key_span(where, second),
        f"{_subject(where)} has both `{first}` and `{second}`",
        "keep one of the two",
        (Related(_key_span(where, first), f"`{first}` is given here"),),
    )


def _written(properties: Mapping[str, Any], key: str) -> str:
    """``key: example``, with the schema's first example."""
    examples = properties.get(key, {}).get("examples") or [""]
    return f"{key}: {write_flow(examples[0])}"


def _subject(where: NodeLocation) -> str:
    return f"`{format_path(where.path)}`" if where.path else where.document


def _inside(where: NodeLocation) -> str:
    return f"in `{format_path(where.path)}`" if where.path else f"at the top of {where.document}"


def _key_span(where: NodeLocation, key: str) -> Span:
    node: Scalar | None = where.node.key(key) if isinstance(where.node, MappingNode) else None
    return node.span if node is not None else where.name_span
