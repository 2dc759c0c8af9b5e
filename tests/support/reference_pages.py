"""Writes the reference pages of the spec and of `worldsize.yml` from the descriptions in their schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from worldsize.azureml import yaml_dump
from worldsize.documents.shape import load_schema
from worldsize.spec.values import TYPE_WORDS, write_flow

Fields = Mapping[str, Any]

_LONGEST_LIST = 12


def render_markdown(name: str = "spec") -> str:
    """Render the page of a schema: a section for the whole and for each part, each with a table of fields."""
    document = load_schema(name).root
    title = "The spec" if name == "spec" else document["title"]
    parts = [part for part in document["$defs"].values() if "properties" in part]
    sections = [_section(title, document, document, level=1)]
    sections += [_section(part["title"], part, document, level=2) for part in parts]
    return "\n".join(sections)


def _section(title: str, part: Fields, document: Fields, level: int) -> str:
    lines = [f"{'#' * level} {title}", "", part["description"], ""]
    lines += ["```yaml", *(_written(example) for example in _short(part["examples"])), "```", ""]
    lines += ["| key | type | what it is |", "|---|---|---|"]
    required = part.get("required", ())
    lines += [
        _row(name, field, document, required=name in required) for name, field in part["properties"].items()
    ]
    return "\n".join([*lines, ""])


def _short(examples: list[Any]) -> list[Any]:
    return [example for example in examples if len(write_flow(example)) <= 110] or examples[:1]


def _written(example: Any) -> str:
    """Write an example on one line if it fits, else as a block."""
    line = write_flow(example)
    return line if len(line) <= 110 else yaml_dump.dump(example).rstrip()


def _row(name: str, field: Fields, document: Fields, *, required: bool) -> str:
    facts = " ".join(_facts(field))
    description = field["description"] + (f" {facts}" if facts else "")
    examples = " · ".join(f"`{write_flow(example)}`" for example in field["examples"])
    needed = "**required** " if required else ""
    cells = (f"`{name}`", needed + _type(field, document), f"{description} For example {examples}.")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _type(field: Fields, document: Fields) -> str:
    """The type in words; a type with a section of its own is a link to it."""
    target = _target(field, document)
    if target is not None and "properties" not in target:
        return _type(target, document)
    if target is not None:
        title: str = target["title"]
        return f"[{title.lower()}](#{title.lower().replace(' ', '-')})"
    inner = field.get("additionalProperties")
    if isinstance(inner, dict):
        return f"names, each with: {_type(inner, document)}"
    if "anyOf" in field:
        return " or ".join(_type(choice, document) for choice in field["anyOf"] if "type" in choice)
    kinds = field.get("type", "string")
    return " or ".join(TYPE_WORDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _target(field: Fields, document: Fields) -> Fields | None:
    reference = field.get("$ref")
    if reference is None:
        return None
    target: Fields = document["$defs"][reference.rpartition("/")[2]]
    return target


def _facts(field: Fields) -> Iterator[str]:
    choices = field.get("enum", [])
    if 0 < len(choices) <= _LONGEST_LIST:
        yield f"One of {', '.join(f'`{choice}`' for choice in choices)}."
    elif choices:
        yield f"One of {len(choices)} names, which an editor lists from the schema."
    if "exclusiveMinimum" in field:
        yield f"Greater than {field['exclusiveMinimum']}."
    elif "minimum" in field:
        yield f"At least {field['minimum']}."
