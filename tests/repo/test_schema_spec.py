"""The published schema of the spec: sound, described field by field, true to its own examples."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml as pyyaml
from jsonschema import Draft202012Validator

from worldsize import spec
from worldsize.azureml import cron, yaml_dump
from worldsize.base import resources
from worldsize.checking.discover import recognise_kind
from worldsize.documents import yaml
from worldsize.documents.shape import TYPE_WORDS, Schema, load_schema
from worldsize.spec import model, violations
from worldsize.spec.values import write_flow

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((resources.schemas() / "spec.schema.json").read_text(encoding="utf-8"))
PIPELINES = sorted((ROOT / "pipelines").glob("*.yml"))


def fields(part: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every definition and every property, however deep, with a path for the test's name."""
    for group in ("$defs", "properties"):
        for name, inner in part.get(group, {}).items():
            yield f"{path}/{name}", inner
            yield from fields(inner, f"{path}/{name}")
    for group in ("additionalProperties", "items"):
        inner = part.get(group)
        if isinstance(inner, dict):
            yield from fields(inner, f"{path}/*")


FIELDS = [("/", SCHEMA), *fields(SCHEMA)]


def test_the_schema_is_a_schema():
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMA)


def test_every_field_is_described_by_words_and_examples():
    for path, field in FIELDS:
        assert field["title"], path
        assert len(field["title"]) <= 40, path
        assert field["description"].endswith((".", "?")), path
        assert field["examples"], path


@pytest.mark.parametrize(("path", "field"), FIELDS, ids=[path for path, _ in FIELDS])
def test_the_examples_are_valid(path, field):
    judge = Draft202012Validator({**field, "$defs": SCHEMA["$defs"]})
    for example in field["examples"]:
        judge.validate(example)


def test_no_mapping_takes_keys_that_nothing_describes():
    for path, field in FIELDS:
        kinds = field.get("type", [])
        if "object" in ([kinds] if isinstance(kinds, str) else kinds) and not path.endswith("conda_file"):
            assert "additionalProperties" in field, path


def test_patterns_are_anchored_and_mean_the_same_in_javascript():
    for path, field in FIELDS:
        pattern = field.get("pattern") or field.get("propertyNames", {}).get("pattern")
        if pattern is not None:
            assert pattern.startswith("^"), path
            # Python's own syntax, or Unicode classes
            assert not re.search(r"\(\?P|\\[AZzdws]|\(\?[ims]", pattern), path


def test_references_all_lead_somewhere():
    references = set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(SCHEMA)))
    assert references == {f"#/$defs/{name}" for name in SCHEMA["$defs"]}, "unknown or unused definitions"


def test_only_annotations_stand_beside_a_reference() -> None:
    """Another keyword beside a reference would replace that of the definition."""
    parts: list[dict[str, Any]] = []
    json.loads(json.dumps(SCHEMA), object_hook=lambda part: parts.append(part) or part)
    beside = [set(part) - {"$ref"} for part in parts if "$ref" in part]
    assert beside
    assert set().union(*beside) <= {"title", "description", "examples", "default"}


def test_time_zones_are_the_ones_of_the_table():
    assert SCHEMA["$defs"]["schedule"]["properties"]["time_zone"]["enum"] == list(cron.load_time_zones())


CLASSES = {  # of the model, by the definition whose keys are their fields
    "spec": model.Spec,
    "workload": model.WorkloadKeys,
    "computeProfile": model.ComputeProfile,
    "scale": model.Scale,
    "distribution": model.Distribution,
    "parallelism": model.Parallelism,
    "resilience": model.Resilience,
    "pipelineInput": model.PipelineInput,
    "pipelineOutput": model.PipelineOutput,
    "sweep": model.Sweep,
    "step": model.Step,
    "schedule": model.Schedule,
    "retrain": model.Retrain,
    "retrainData": model.RetrainData,
    "promote": model.Promote,
    "keep": model.Keep,
    "tell": model.Tell,
}
# What is compiled or checked as it is written, without a field of its own.
UNTYPED = {"$schema", "sampling_algorithm", "objective.goal", "early_termination", "queue_settings", "feed"}
NOT_KEYS = {"str", "Span", "MappingNode", "Path", "frozenset[str]"}


LITERALS = (["skip", "error"], ["new_data", "always"], ["scratch", "champion"], ["skip", "queue", "replace"])
WORDS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


def annotation_of(field: dict[str, Any]) -> str:
    """The annotation that a property of the schema has in the model."""
    target = field.get("$ref", "").rpartition("/")[2]
    if target in CLASSES:
        return CLASSES[target].__name__
    if target:
        return annotation_of(SCHEMA["$defs"][target])
    for words, name in ((model.ScaleRule, "ScaleRule"), (model.Framework, "Framework")):
        if list(get_args(words)) == field.get("enum"):
            return f"Located[{name}]"
    if field.get("enum") in LITERALS:
        return f"Located[Literal{field['enum']}]"
    if field.get("type") == "object":
        inner = annotation_of(field["additionalProperties"]) if field.get("additionalProperties") else ""
        return "Mapping[str, Located[Any]]" if "Mapping" in inner or not inner else f"Mapping[str, {inner}]"
    kind = field.get("type")
    return f"Located[{WORDS.get(kind, 'Any') if isinstance(kind, str) else 'Any'}]"


@pytest.mark.parametrize("definition", [name for name in CLASSES if name != "workload"])
def test_the_fields_of_a_class_are_the_keys_of_its_definition(definition):
    """A key that the schema takes and the model drops would be accepted and then ignored."""
    part, cls = {"spec": SCHEMA, **SCHEMA["$defs"]}[definition], CLASSES[definition]
    keys = dict(part["properties"])
    for outer in ("reference", "objective", "limits"):  # whose keys are fields of the class around them
        inner = SCHEMA["$defs"][keys.pop(outer)["$ref"].rpartition("/")[2]] if outer in keys else {}
        keys |= {f"{outer}.{name}": field for name, field in inner.get("properties", {}).items()}
    names = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    fields = {key: cls.__annotations__[name].removesuffix(" | None") for name, key in names}
    fields = {key: annotation for key, annotation in fields.items() if annotation not in NOT_KEYS}
    whole = "Located[Mapping[str, Any]]"  # with its place, but without those of its keys
    fields |= dict.fromkeys([key for key in fields if fields[key] == whole], "Mapping[str, Located[Any]]")
    assert fields.keys() == keys.keys() - UNTYPED
    wrong = {key for key, annotation in fields.items() if annotation != annotation_of(keys[key])}
    assert not wrong, [(fields[key], annotation_of(keys[key])) for key in wrong]


def test_the_loader_reads_this_very_file():
    assert load_schema("spec").root == SCHEMA


def test_there_are_pipelines():
    assert {path.name for path in PIPELINES} >= {"digits_ddp.yml", "python_source_gpt.yml", "own_script.yml"}


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.name)
def test_shipped_specs_load_clean_and_name_their_schema(path):
    document = yaml.load(path)
    loaded, problems = spec.from_document(document)
    assert problems == []
    assert loaded is not None
    assert recognise_kind(document, named=False) == "spec"
    first = document.text.splitlines()[0]
    name = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / name).resolve() == (resources.schemas() / "spec.schema.json").resolve()


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


@pytest.mark.parametrize(
    ("schema_name", "page_name"), [("spec", "spec.md"), ("worldsize", "worldsize-yml.md")]
)
def test_the_reference_page_is_the_generated_one(schema_name, page_name, update_golden):
    page = ROOT / "compiler" / "docs" / page_name
    text = render_markdown(schema_name)
    if update_golden:
        page.write_text(text, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == text


VALUES = [None, [], {}, "", "x: y", -1, 0, 7, 0.5, 2.0, True, 10**9, "a" * 300, {"a b": 1}, [1], ["monday"]]
KEYS = sorted(set(re.findall(r'"(\w+)":', json.dumps(SCHEMA))) - {"$schema"})


def spoil(value: Any, chance: random.Random) -> Any:
    """The value with a part drawn at random replaced, left out, added, or its key misspelt."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.1:
        return chance.choice(VALUES)
    if isinstance(value, list):
        at = chance.randrange(len(value))
        return [*value[:at], spoil(value[at], chance), *value[at + 1 :]]
    key = chance.choice(list(value))
    rest = {name: part for name, part in value.items() if name != key}
    changes = [rest, {**rest, f"{key} x": value[key]}, {**value, chance.choice(KEYS): chance.choice(VALUES)}]
    return chance.choice(changes) if chance.random() < 0.3 else {**value, key: spoil(value[key], chance)}


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.run)])
def test_documents_have_the_faults_that_jsonschema_finds_by_the_published_schema(count: int):
    judge, chance = Draft202012Validator(SCHEMA), random.Random(3)
    shipped = [pyyaml.safe_load(path.read_text(encoding="utf-8")) for path in PIPELINES]
    right, keywords = 0, set()
    for number in range(count):
        document = spoil(shipped[number % len(shipped)], chance)
        document = spoil(document, chance) if number % 3 == 0 else document
        expected = [(tuple(error.absolute_path), error.validator) for error in judge.iter_errors(document)]
        found = [(each.path, each.keyword) for each in violations.find_violations(document)]
        assert sorted(found, key=repr) == sorted(expected, key=repr), document
        right += not found
        keywords |= {keyword for _, keyword in found}
    assert count / 20 < right < count / 2
    usual = {"anyOf", "required", "dependentRequired", "additionalProperties", "pattern", "enum"}
    assert keywords >= usual | ({"not"} if count == 10_000 else set())


DEFINITIONS = {"name": {"type": "string", "pattern": "^[a-z]+$"}}
SHAPE = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/name", "title": "A"}, "b": {"type": ["number", "null"]}},
    "additionalProperties": {"items": {"enum": [1, True]}},
    "propertyNames": {"maxLength": 2},
    "if": {"required": ["a"]},
    "then": {"required": ["b"]},
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": "x", "b": 2.5}, []),
        ({"a": "x", "b": float("nan")}, [("b", "type")]),  # JSON has no such number
        ({"a": "x\n", "b": None}, [("a", "pattern")]),  # `$` is the end, as in ECMA 262
        ({"a": "x"}, [("", "required")]),
        ({"c": [1, True, 1.0, "1"]}, [("c.3", "enum")]),
        ({"c": [1.0, False]}, [("c.1", "enum")]),
        ({"abc": [], "b": True}, [("b", "type"), ("", "maxLength")]),
        ([], [("", "type")]),
    ],
)
def test_each_keyword_that_a_value_violates_is_found_at_its_path(value, expected):
    violations_found = list(Schema(SHAPE, DEFINITIONS.__getitem__).find_violations(value))
    places = [(".".join(map(str, violation.path)), violation.keyword) for violation in violations_found]
    assert places == expected
    of_names = [violation.about_name for violation in violations_found]
    assert of_names == [keyword == "maxLength" for _, keyword in expected]


def test_annotations_beside_a_reference_are_kept():
    (violation,) = Schema(SHAPE, DEFINITIONS.__getitem__).find_violations({"a": 1, "b": 1})
    assert violation.subschema["title"] == "A"
    assert violation.subschema["pattern"] == "^[a-z]+$"
