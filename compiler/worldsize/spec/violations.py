"""Turns the violations of a schema into one problem per cause, at its exact position.

A value can violate several keywords. Here the violations of one value are grouped, the most specific
keyword of a group is reported, and a misspelt key is not reported again as a missing key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from worldsize.azureml.schedule_times import report_unknown_zone
from worldsize.base import limits
from worldsize.base.problem import Fix, Problem, Related
from worldsize.base.span import Span
from worldsize.base.suggest import fix_unambiguous
from worldsize.base.wording import quoted_list, shorten
from worldsize.documents.shape import (
    TYPE_WORDS,
    Path,
    Schema,
    Shape,
    Violation,
    fits_shape,
    list_others,
    load_schema,
)
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence
from worldsize.spec.suggest import closest
from worldsize.spec.values import describe_type, number_with_dot, show_value, to_plain, write_flow

_VALUE_KEYWORDS = (  # the first one that fails is reported
    "type", "minLength", "enum", "pattern", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum",
    "maxLength", "minProperties", "minItems",
)  # fmt: skip
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "greater than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}

_LONGEST_EXAMPLE = 110


def check_schema(root: Node, name: str = "spec") -> list[Problem]:
    """Report the violations of a schema in a YAML tree, one problem per cause, in file order."""
    crowded = list(_too_many_entries(root)) if name == "spec" else []
    if crowded:
        return crowded
    problems: list[Problem] = []
    by_path: dict[Path, list[Violation]] = {}
    for error in find_violations(to_plain(root), name):
        by_path.setdefault(error.path, []).append(error)
    for path, errors in by_path.items():
        problems += _at_one_value(locate(root, path, f"the {name}"), errors)
    return sort_problems(problems)


def sort_problems(problems: Iterable[Problem]) -> list[Problem]:
    """The problems in the order of their places, each once."""
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.span, problem.slug, problem.message))


def find_violations(value: object, name: str = "spec") -> list[Violation]:
    """Find the violations of a published schema, up to a few hundred."""
    return list(islice(load_schema(name, "spec").find_violations(value), limits.SAME))


def _matches(text: str, shape: Shape) -> bool:
    """Whether a text satisfies the enumeration and pattern of a part of the schema."""
    return fits_shape(text, {key: shape[key] for key in ("enum", "pattern") if key in shape})


def _too_many_entries(root: Node) -> Iterator[Problem]:
    """Report too many steps or profiles before checking each of them, which would take a minute."""
    for key in ("compute", "steps"):
        section = root.get(key) if isinstance(root, Mapping) else None
        maximum = load_schema("spec").root["properties"][key]["maxProperties"]
        if isinstance(section, Mapping) and len(section.entries) > maximum:
            message = f"`{key}` has {len(section.entries)} entries but may have at most {maximum}"
            first_extra = section.entries[maximum][0].span
            yield Problem("spec-out-of-range", first_extra, message, "split the pipeline")


def _at_one_value(where: NodeLocation, errors: list[Violation]) -> Iterator[Problem]:
    yield from (report_bad_name(where, error) for error in errors if error.about_name)
    others = [error for error in errors if not error.about_name]
    by_keyword = {error.keyword: error for error in others}
    telling = next((by_keyword[keyword] for keyword in _VALUE_KEYWORDS if keyword in by_keyword), None)
    if telling is None:
        yield from report_key_problems(where, others)
        return
    reports = {"type": _wrong_type, "enum": _not_allowed, "pattern": _bad_pattern}
    report = _out_of_bounds if telling.keyword in _BOUNDS else _wrong_length
    yield reports.get(telling.keyword, report)(where, telling)


def _wrong_type(where: NodeLocation, error: Violation) -> Problem:
    wanted = error.argument
    expected = _join_types([TYPE_WORDS[name] for name in ([wanted] if isinstance(wanted, str) else wanted)])
    if error.instance is None:
        message = f"{where.title} has no value; it must be {expected}"
    else:
        message = (
            f"{where.title} must be {expected},"
            f" but `{show_value(where.node)}` is {describe_type(error.instance)}"
        )
    node = where.node
    was_text = isinstance(node, Scalar) and _was_text(node, error)
    fix = Fix(where.value_span, f'"{node.text}"') if isinstance(node, Scalar) and was_text else None
    return Problem("spec-wrong-type", where.value_span, message, _type_help(where, error), fix=fix)


def _was_text(node: Scalar, error: Violation) -> bool:
    """Whether YAML read a plain word as another type although the schema takes text."""
    if node.style or error.instance is None or isinstance(error.instance, str) or error.argument != "string":
        return False
    return _matches(node.text, error.subschema)


def _join_types(words: list[str]) -> str:
    """``text, a number, or true or false``: the comma before ``or`` keeps the last type apart."""
    return " or ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])}, or {words[-1]}"


def _type_help(where: NodeLocation, error: Violation) -> str:
    """Explain how YAML 1.1 reads the value if that is the cause; else show an example."""
    node, value = where.node, error.instance
    if isinstance(value, list) and {"string", "object"} <= {*error.argument} and all(map(_is_plain, value)):
        joined = ",".join(map(str, value))
        return f'write one value, such as a text with commas: `{where.name}: "{joined}"`'
    if not isinstance(node, Scalar) or value is None:
        return _example(where, error)
    dotted = number_with_dot(value) if isinstance(value, str) and node.style == "" else None
    if dotted is not None:
        return f"`{value}` is text in YAML 1.1, as Azure ML reads it; write {dotted}"
    if "string" in error.argument and _matches(node.text, error.subschema):
        shown = show_value(node)
        return f'YAML 1.1 reads `{shown}` as {describe_type(value)}; to mean the text, write "{shown}"'
    return _example(where, error)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _example(where: NodeLocation, error: Violation) -> str:
    """The shortest example of the schema; if none is short, the required keys."""
    examples = sorted((write_flow(example) for example in error.subschema.get("examples", [])), key=len)
    if not examples or len(examples[0]) > _LONGEST_EXAMPLE:
        required = quoted_list(error.subschema.get("required", []))
        return (
            f"write a mapping with {required}" if required else f"look up {where.title} in the spec's schema"
        )
    in_list = not where.path or isinstance(where.path[-1], int)
    return f"write for example `{examples[0] if in_list else f'{where.name}: {examples[0]}'}`"


def _not_allowed(where: NodeLocation, error: Violation) -> Problem:
    if where.path == ("schedule", "time_zone"):
        return report_unknown_zone(str(error.instance), where.value_span)
    allowed = [str(value) for value in error.argument]
    near = closest(str(error.instance), allowed)
    fix = fix_unambiguous(where.value_span, str(error.instance), allowed)
    choices = f"allowed: {quoted_list(allowed)}"
    return Problem(
        "spec-value-not-allowed",
        where.value_span,
        f"{where.title} cannot be `{show_value(where.node)}`",
        f"did you mean `{near}`? {choices}" if near else choices,
        fix=fix if isinstance(where.node, Scalar) else None,
    )


def _bad_pattern(where: NodeLocation, error: Violation) -> Problem:
    return Problem(
        "spec-bad-pattern",
        where.value_span,
        f"{where.title} is `{show_value(where.node)}`, which does not have the required form",
        _form(where, error),
    )


def _form(where: NodeLocation, error: Violation) -> str:
    """The example, and the first sentence of the field's description, which describes the form."""
    example = _example(where, error)
    sentence = str(error.subschema.get("description", "")).partition(". ")[0].rstrip(".")
    return f"{example}: {sentence[:1].lower()}{sentence[1:]}" if sentence else example


def _out_of_bounds(where: NodeLocation, error: Violation) -> Problem:
    low, high = error.subschema.get("minimum"), error.subschema.get("maximum")
    is_short = low is not None and high is not None and high < 1000
    return Problem(
        "spec-out-of-range",
        where.value_span,
        f"{where.title} is {show_value(where.node)} but must be {_BOUNDS[error.keyword]} {error.argument}",
        f"write a number from {low} to {high}" if is_short else _example(where, error),
    )


def _wrong_length(where: NodeLocation, error: Violation) -> Problem:
    if error.keyword == "maxLength":
        length = len(error.instance)
        message = f"{where.title} has {length} characters but may have at most {error.argument}"
    else:
        message = f"{where.title} is empty"
    return Problem("spec-out-of-range", where.value_span, message, _example(where, error))


def report_key_problems(where: NodeLocation, errors: list[Violation]) -> Iterator[Problem]:
    """Report one problem for each cause among the errors about the keys of one mapping."""
    if _is_text_of_input(where, errors):
        text = write_flow(write_flow(to_plain(where.node)))
        message = f"{where.title} is a mapping, and an input takes a text, a number, or data with a `path`"
        help_ = f"if it is to be a text, write it in quotes: `{where.path[-1]}: {text}`"
        yield Problem("spec-wrong-type", where.value_span, message, help_)
        return
    by_keyword: dict[str, list[Violation]] = {}
    for error in errors:
        by_keyword.setdefault(error.keyword, []).append(error)
    meant: set[str] = set()
    for error in by_keyword.get("additionalProperties", []):
        for unknown in islice(list_others(error.instance, error.subschema), limits.SAME):
            near = closest(unknown, _free(error))
            deeper = _find_deeper(error.schema, error.subschema, unknown)
            meant |= {deeper[0]} if deeper else {near} if near else set()
            yield _unknown_key(where, error, unknown, near, deeper)
    for error in by_keyword.get("required", [])[:1]:
        yield from _missing(where, error, meant)
    for error in by_keyword.get("dependentRequired", [])[:1]:
        yield from _dependent(where, error, meant)
    for error in by_keyword.get("anyOf", []):
        yield from _none_of(where, error, meant)
    for error in by_keyword.get("not", []):
        yield _both_of(where, error)


def _is_text_of_input(where: NodeLocation, errors: list[Violation]) -> bool:
    """Whether a mapping under ``with:`` has no key of data, so that a text in the form of one is meant."""
    keys = errors[0].subschema.get("properties", {}) if errors else {}
    used = {key.text for key, _ in where.node.items()} if isinstance(where.node, Mapping) else set()
    return where.path[-2:-1] == ("with",) and bool(used) and "path" in keys and not used & {*keys}


def report_bad_name(where: NodeLocation, error: Violation) -> Problem:
    """Report a name that the user chose (a step, a profile, an input) but that is not allowed."""
    name = str(error.instance)
    return Problem(
        "spec-bad-pattern",
        _key_span(where, name),
        f"`{shorten(name, 40)}` is not a name that can be used in `{format_path(where.path)}`",
        f"use {error.subschema.get('description', error.argument)}",
    )


def _free(error: Violation) -> list[str]:
    """Keys of the schema that the mapping lacks: a misspelt key can only stand for one of these."""
    return [key for key in error.subschema.get("properties", {}) if key not in error.instance]


def _unknown_key(
    where: NodeLocation, error: Violation, key: str, near: str | None, deeper: tuple[str, ...]
) -> Problem:
    span = _key_span(where, key)
    keys = [name for name in error.subschema.get("properties", {}) if not name.startswith("$")]
    help_ = f"did you mean `{near}`?" if near else f"keys that are allowed here: {quoted_list(keys, 24)}"
    if deeper:
        help_, near = "write it under " + " of ".join(f"`{outer}:`" for outer in reversed(deeper)), None
    fix = fix_unambiguous(span, key, _free(error))
    message = f"unknown key `{shorten(key, 40)}` {_inside(where)}"
    is_meant = fix is not None and fix.replacement == near
    return Problem("spec-unknown-key", span, message, help_, fix=fix if is_meant else None)


def _find_deeper(schema: Schema, shape: Shape, key: str, levels: int = 2) -> tuple[str, ...]:
    """The keys that lead to an inner mapping that has the key; empty without one."""
    inner = schema.list_properties(shape) if levels else {}
    for name, property_ in inner.items():
        if key in property_.get("properties", {}):
            return (name,)
    for name, property_ in inner.items():
        if deeper := _find_deeper(schema, property_, key, levels - 1):
            return (name, *deeper)
    return ()


def _missing(where: NodeLocation, error: Violation, meant: set[str]) -> Iterator[Problem]:
    for key in error.argument:
        if key not in error.instance and key not in meant:
            example = _written(error, key)
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
            example = _written(error, other)
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


def _none_of(where: NodeLocation, error: Violation, meant: set[str]) -> Iterator[Problem]:
    choices = [branch["required"][0] for branch in error.argument]
    if meant & set(choices):
        return
    slug = {"steps": "step-needs-uses-or-command", "schedule": "schedule-needs-cron-or-recurrence"}.get(
        str(where.path[0]) if where.path and where.path[-1] != "environment" else "", "spec-missing-key"
    )
    written = " or ".join(f"`{_written(error, choice)}`" for choice in choices)
    names = " nor ".join(f"`{choice}`" for choice in choices)
    help_ = f"add {written}{' with `environment:`' * ('command' in choices)}"
    yield Problem(slug, where.name_span, f"{_subject(where)} has neither {names}", help_)


def _both_of(where: NodeLocation, error: Violation) -> Problem:
    first, second = error.argument["required"]
    slug = "schedule-cron-and-recurrence" if where.path[0] == "schedule" else "step-uses-and-command"
    return Problem(
        slug,
        _key_span(where, second),
        f"{_subject(where)} has both `{first}` and `{second}`",
        "keep one of the two",
        (Related(_key_span(where, first), f"`{first}` is given here"),),
    )


def _written(error: Violation, key: str) -> str:
    """``key: example``, with the schema's first example."""
    examples = error.schema.list_properties(error.subschema).get(key, {}).get("examples") or [""]
    return f"{key}: {write_flow(examples[0])}"


def _subject(where: NodeLocation) -> str:
    return f"`{format_path(where.path)}`" if where.path else where.document


def _inside(where: NodeLocation) -> str:
    return f"in `{format_path(where.path)}`" if where.path else f"at the top of {where.document}"


def _key_span(where: NodeLocation, key: str) -> Span:
    node: Scalar | None = where.node.key(key) if isinstance(where.node, Mapping) else None
    return node.span if node is not None else where.name_span


class NodeLocation(Struct, frozen=True):
    """A value in the tree, and its key (None at the top and in lists)."""

    path: Path
    node: Node
    key: Scalar | None
    document: str  # what the top of the tree is called

    @property
    def value_span(self) -> Span:
        """The text of a leaf; for a mapping or list its key, because a caret under a block helps little."""
        span = self.node.span
        is_empty = (span.line, span.column) == (span.end_line, span.end_column)
        return span if isinstance(self.node, Scalar) and not is_empty else self.name_span

    @property
    def name_span(self) -> Span:
        """The key, or the start of the value if there is no key."""
        if self.key is not None:
            return self.key.span
        first = self.node.entries[0][0].span if isinstance(self.node, Mapping) and self.node.entries else None
        return first if first is not None else self.node.span

    @property
    def title(self) -> str:
        """The value as the subject of a sentence."""
        return f"`{self.name}`" if self.path else self.document

    @property
    def name(self) -> str:
        """The last key of the path, with the index of a list item: ``hours[1]``."""
        in_list = bool(self.path) and isinstance(self.path[-1], int)
        return format_path(self.path[-2:] if in_list else self.path[-1:])


def locate(root: Node, path: Path, document: str) -> NodeLocation:
    """Follow a path to a node; the items of a list have its key."""
    node, key = root, None
    for part in path:
        if isinstance(node, Sequence) and isinstance(part, int):
            node = node.items[part]
        elif isinstance(node, Mapping) and isinstance(part, str):
            key = node.key(part)
            node = node.get(part) or node
    return NodeLocation(path, node, key, document)


def format_path(path: Path) -> str:
    """A path as messages write it: ``steps.train.scale``, ``hours[1]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{shorten(part, 40)}"
    return text.removeprefix(".")
