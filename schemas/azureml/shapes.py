"""How one marshmallow field of azure-ai-ml becomes JSON Schema.

The SDK's own meaning wins over the letter of JSON Schema, and what JSON Schema cannot say is kept
in `x-` keywords (see README.md): which text is accepted in place of a number, which alternative of
a union a `type` selects, where case is ignored, where a binding expression may stand.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

from azure.ai.ml._schema.component import ComponentYamlRefField
from azure.ai.ml._schema.core import fields as azure_fields
from azure.ai.ml._schema.core.schema import PathAwareSchema, YamlFileSchema
from azure.ai.ml._schema.pipeline.pipeline_job_io import OutputBindingStr
from marshmallow import INCLUDE, fields, validate

Shape = dict[str, Any]

BINDING: Shape = {"$ref": "#/$defs/binding"}
FILE_REFERENCE: Shape = {"$ref": "#/$defs/file_reference"}
INTEGER: Shape = {"$ref": "#/$defs/integer"}
NUMBER: Shape = {"$ref": "#/$defs/number"}
BOOLEAN: Shape = {"$ref": "#/$defs/boolean"}

_BOOLEAN_WORDS = sorted(
    word for word in fields.Boolean.truthy | fields.Boolean.falsy if isinstance(word, str)
)

# What the references above mean. The SDK reads `"4"` as 4 and `"yes"` as true, and so do we.
SCALARS: dict[str, Shape] = {
    "binding": {
        "description": "A binding expression such as ${{parent.inputs.epochs}}.",
        "type": "string",
        "pattern": r"\$\{\{\s*\S*?\s*\}\}",
        "x-kind": "binding",
    },
    "file_reference": {
        "description": "Another YAML file that holds this mapping, written file:./other.yml.",
        "type": "string",
        "pattern": "^file:",
        "x-path": "file",
    },
    "integer": {
        "description": "A whole number; digits in quotes are read as one.",
        "type": ["integer", "string"],
        "pattern": r"^\s*[+-]?\d+(_\d+)*\s*$",
        "x-kind": "integer",
    },
    "number": {
        "description": "A finite number; a number in quotes is read as one.",
        "type": ["number", "string"],
        "pattern": r"^\s*[+-]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][+-]?\d+)?\s*$",
        "x-kind": "number",
    },
    "boolean": {
        "description": "True or false; the usual words for them in quotes are read as one.",
        "enum": [*_BOOLEAN_WORDS, True, False, 1, 0],
        "x-kind": "boolean",
    },
}


class Definitions(Protocol):
    """Where the shapes of nested schema classes are collected."""

    def reference(self, schema: Any, unknown: str) -> Shape:
        """A `$ref` to the shape of ``schema``, which is made on first use."""

    def discriminate(self, branches: list[Shape]) -> Shape:
        """One shape of several mapping shapes, with the key that selects among them."""

    def by_type(self, branches: dict[str, list[Shape]], key: str) -> Shape:
        """One shape of several, selected by the text under ``key``."""


def shape_of(field: Any, definitions: Definitions) -> Shape:
    """The JSON Schema of ``field``, with its description and whether null is allowed."""
    shape = _shape(field, definitions)
    description = (getattr(field, "metadata", None) or {}).get("description")
    if description:
        shape = {"description": one_line(description), **shape}
    if field.allow_none and shape != {}:
        shape = union([shape, {"type": "null"}], definitions)
    return shape


def one_line(text: str) -> str:
    """``text`` without line breaks, repeated blanks and Sphinx roles."""
    return re.sub(r":[a-z]+:`~?([^`]*)`", r"\1", re.sub(r"\s+", " ", text)).strip()


def _shape(field: Any, definitions: Definitions) -> Shape:
    if isinstance(field, azure_fields.ExperimentalField):
        return _shape(field.experimental_field, definitions)
    for kind, make in _MAKERS:
        if isinstance(field, kind):
            return make(field, definitions)
    raise TypeError(f"no shape for {type(field).__name__}")


def _union(field: Any, definitions: Definitions) -> Shape:
    parts = list(field.union_fields)
    live = [part for part in parts if not part.dump_only] or parts
    return union([shape_of(part, definitions) for part in live], definitions)


def _typed_union(field: Any, definitions: Definitions) -> Shape:
    """A union whose members the SDK groups by the text under a key, `type` or `task`."""
    groups: dict[str, list[Shape]] = {}
    grouped: list[Any] = []
    for name, members in field._type_sensitive_fields_dict.items():  # noqa: SLF001 - it has no public name
        live = [member for member in members if not member.dump_only]
        grouped += [type(member) for member in members]
        groups[name] = [part for member in live for part in _alternatives(shape_of(member, definitions))]
    plain = [part for part in field.union_fields if type(part) not in grouped and not part.dump_only]
    mappings = {name: [s for s in shapes if _is_mapping(s)] for name, shapes in groups.items()}
    mappings = {name: shapes for name, shapes in mappings.items() if shapes}
    texts = [s for shapes in groups.values() for s in shapes if not _is_mapping(s)]
    texts += [shape_of(part, definitions) for part in plain]
    if len(mappings) == 1 and all(len(shapes) == 1 for shapes in mappings.values()):
        return union([*texts, *next(iter(mappings.values()))], definitions)
    return union([*texts, definitions.by_type(mappings, field.type_field_name)], definitions)


def _nested(field: Any, definitions: Definitions) -> Shape:
    schema = field.schema
    reference = definitions.reference(schema, field.unknown)
    if isinstance(schema, YamlFileSchema):
        return union([FILE_REFERENCE, reference], definitions)
    return reference


def _dict(field: Any, definitions: Definitions) -> Shape:
    shape: Shape = {"type": "object"}
    if isinstance(field.key_field, azure_fields.PipelineNodeNameStr):
        shape["propertyNames"] = {"pattern": r"^[a-z_][a-z0-9_]*$"}
    elif isinstance(field.key_field, fields.Str):
        shape["x-text-keys"] = True
    if field.value_field is not None:
        shape["additionalProperties"] = shape_of(field.value_field, definitions)
    return shape


def _list(field: Any, definitions: Definitions) -> Shape:
    return {"type": "array", "items": shape_of(field.inner, definitions)}


def _enum(field: Any, _: Definitions) -> Shape:
    shape: Shape = {"type": "string", "enum": list(dict.fromkeys(field.allowed_values))}
    if field.casing_transform("SystemAssigned") == "system_assigned":
        return {**shape, "x-case": "snake"}
    return {**shape, "x-case": "ignore"} if field.casing_transform("A") == "a" else shape


def _local_path(field: Any, _: Definitions) -> Shape:
    allowed = {(True, True): "any", (True, False): "folder", (False, True): "file"}
    return {"type": "string", "x-path": allowed[field._allow_dir, field._allow_file]}  # noqa: SLF001


def _arm(field: Any, _: Definitions) -> Shape:
    if not isinstance(field, azure_fields.ArmVersionedStr):
        return {"type": "string", "pattern": "^azureml:"}
    # A full id starts with a slash or with subscriptions/; a short name has no slash at all.
    name = "[^/]+$" if field.allow_default_version else "[^/]*[:@][^/]*$"
    return {"type": "string", "pattern": f"^azureml:(/|subscriptions/|{name})"}


def _text(pattern: str | None = None, **more: Any) -> Any:
    def make(_field: Any, _: Definitions) -> Shape:
        return {"type": "string", **({"pattern": pattern} if pattern else {}), **more}

    return make


def _integer(field: Any, _: Definitions) -> Shape:
    shape: Shape = {"type": "integer"} if field.strict else dict(INTEGER)
    for check in field.validators:
        if isinstance(check, validate.Range):
            shape = {**shape, "minimum": check.min, "maximum": check.max}
    return shape


def _float(field: Any, _: Definitions) -> Shape:
    return {"type": "number"} if getattr(field, "strict", False) else dict(NUMBER)


def _string(field: Any, _: Definitions) -> Shape:
    shape: Shape = {"type": "string"}
    for check in field.validators:
        if isinstance(check, validate.OneOf):
            shape["enum"] = list(check.choices)
    return shape


def _constant(shape: Shape) -> Any:
    return lambda _field, _definitions: dict(shape)


# The first class that fits decides, so the special ones come first.
_MAKERS: list[tuple[Any, Any]] = [
    (azure_fields.TypeSensitiveUnionField, _typed_union),
    (azure_fields.UnionField, _union),
    (azure_fields.StringTransformedEnum, _enum),
    (azure_fields.LocalPathField, _local_path),
    (azure_fields.NodeBindingStr, _constant(BINDING)),
    (azure_fields.DataBindingStr, _constant(BINDING)),
    (azure_fields.DateTimeStr, _text(format="date-time")),
    (azure_fields.ArmStr, _arm),
    (azure_fields.InternalRegistryStr, _text("^azureml://(feeds|registries)/")),
    (azure_fields.RegistryStr, _text("^azureml://registries/")),
    (azure_fields.FileRefField, _text("^(?!file:)", **{"x-path": "file"})),
    (azure_fields.RefField, _text("^file:", **{"x-path": "file"})),
    (azure_fields.VersionField, _constant({"type": ["string", "number", "boolean"], "x-kind": "version"})),
    (azure_fields.GitStr, _text(r"^git\+")),
    (azure_fields.PythonFuncNameStr, _text(r"^[a-z][a-z0-9_]*$")),
    (OutputBindingStr, _text(r"^\$\{\{parent\.outputs\.(.*?)\}\}$", **{"x-kind": "binding"})),
    (fields.Nested, _nested),
    (fields.DateTime, _text(format="date-time")),
    (fields.Dict, _dict),
    (fields.List, _list),
    (fields.Url, _text(r"^(https?|ftps?)://")),
    (fields.Boolean, _constant(BOOLEAN)),
    (fields.Integer, _integer),
    (fields.Number, _float),
    (fields.String, _string),
    (fields.Raw, _constant({})),
    (ComponentYamlRefField, _text(**{"x-path": "file"})),
]


def union(parts: list[Shape], definitions: Definitions) -> Shape:
    """One shape that accepts what any of ``parts`` does, with as few alternatives as possible."""
    flat = [part for shape in parts for part in _alternatives(shape)]
    unique = [part for position, part in enumerate(flat) if part not in flat[:position]]
    if {} in unique:
        return {}
    mappings = [part for part in unique if _is_mapping(part)]
    others = _merge_scalars([part for part in unique if not _is_mapping(part)])
    shapes = others + ([definitions.discriminate(mappings)] if mappings else [])
    return dict(shapes[0]) if len(shapes) == 1 else {"anyOf": shapes}


def _alternatives(shape: Shape) -> list[Shape]:
    for key in ("anyOf", "oneOf"):
        if key in shape and "x-discriminator" not in shape:
            return list(shape[key])
    return [shape]


def _is_mapping(shape: Shape) -> bool:
    reference = shape.get("$ref", "")
    named = bool(reference) and reference.removeprefix("#/$defs/") not in SCALARS
    return named or "oneOf" in shape or shape.get("type") == "object"


def _merge_scalars(parts: list[Shape]) -> list[Shape]:
    """Join the plain types of ``parts``; free text makes patterns, enums and bindings superfluous."""
    free_text = any(part.get("type") == "string" and not _constraints(part) for part in parts)
    kept: list[Shape] = []
    types: list[str] = []
    extra: Shape = {}
    for part in parts:
        if part.get("type") in ("array", "null"):
            kept.append(part)
        elif free_text or not _constraints(part):
            types += [name for name in _type_names(part) if name not in types]
            marks = {key: part[key] for key in ("x-path", "x-kind") if key in part}
            extra.update({key: mark for key, mark in marks.items() if mark != "binding"})
        else:
            kept.append(part)
    if types == ["integer"] and any(part.get("$ref") == NUMBER["$ref"] for part in kept):
        types = []
    if not types:
        return kept
    order = ["string", "integer", "number", "boolean"]
    names = [name for name in order if name in types and not (name == "integer" and "number" in types)]
    nullable = ["null"] if {"type": "null"} in kept else []
    joined: Shape = {"type": names[0] if len(names + nullable) == 1 else names + nullable, **extra}
    return [joined, *(part for part in kept if part != {"type": "null"})]


def _constraints(part: Shape) -> bool:
    return any(key in part for key in ("pattern", "enum", "format", "$ref"))


def _type_names(part: Shape) -> list[str]:
    names = {"#/$defs/integer": ["integer"], "#/$defs/number": ["number"], "#/$defs/boolean": ["boolean"]}
    types = part.get("type", names.get(part.get("$ref", ""), ["string"]))
    return [types] if isinstance(types, str) else list(types)


def object_shape(schema: Any, unknown: str, definitions: Definitions) -> Shape:
    """The shape of a schema class as an instance of it stands in its parent.

    Keys that the SDK only writes are read-only here: it drops them silently where the class
    trims them, and refuses them elsewhere.
    """
    properties: Shape = {}
    required: list[str] = []
    for name, field in schema.fields.items():
        key = field.data_key or name
        live = schema.load_fields.get(name)
        if live is None or live.dump_only:
            if isinstance(schema, PathAwareSchema):
                properties[key] = {"readOnly": True}
            continue
        properties[key] = shape_of(live, definitions)
        if live.required:
            required.append(key)
    shape: Shape = {"type": "object", "properties": dict(sorted(properties.items()))}
    if required:
        shape["required"] = sorted(required)
    return {**shape, "additionalProperties": unknown == INCLUDE}
