"""Reports a value that fits no allowed shape."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable

from worldsize.azureml.shape.catalog import MappingContext, fits_shape
from worldsize.base.problem import Fix, Problem
from worldsize.base.span import Span
from worldsize.base.suggest import closest, fix_unambiguous
from worldsize.base.wording import join_words, shorten
from worldsize.documents.shape import TYPE_WORDS, Shape, fold_case
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence

_EXAMPLES = {
    "string": "some text",
    "integer": "1",
    "number": "0.5",
    "boolean": "true",
    "code": "./src",
    "compute": "azureml:NAME",
}

# Node types that need the SDK's private features; plain YAML cannot have them.
_PRIVATE_TYPES = frozenset({"if_else", "do_while", "parallel_for"})

# The types of the preview of 2021.
_FORMER_WORDS = {
    "component": "command",
    "component_job": "command",
    "command_job": "command",
    "mount": "ro_mount",
    "pipeline_job": "pipeline",
    "sweep_job": "sweep",
}

# What `azureml://` can begin with; other words are not judged.
_URIS = ("datastores", "registries", "subscriptions", "locations", "jobs", "workspaces")
_SINGULARS = {"datastore": "datastores", "registry": "registries", "subscription": "subscriptions"}

_TIME_SPAN = re.compile(r"(\d{1,9})\s*([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_PATTERN_ADVICE = {
    "idle_time_before_shutdown": "write for example `PT30M`; `idle_time_before_shutdown_minutes` is a number",
    "mini_batch_size": 'write a count of files, "10", or a size such as "64kb" or "1mb"',
    "image": "write `HOST/NAME:TAG` in small letters, without `https://` and without blanks",
    "expression": "write five fields, minute hour day month weekday",
}


def report_empty(name: str, span: Span) -> Problem:
    """Report a key without a value, which Azure ML refuses."""
    return Problem("aml-empty-value", span, f"`{name}` has no value", "give it a value, or remove the key")


def report_bad_uri(node: Scalar) -> Problem | None:
    """Report a URI such as `azureml://datastore/…`, of which a word is mistyped or missing."""
    if not node.text.startswith("azureml://") or not isinstance(node.value, str) or "{" in node.text:
        return None
    words = node.text.removeprefix("azureml://").split("/")
    message = f"`{shorten(node.text, 60)}` is not a form of `azureml://`"
    near = None if words[0] in _URIS else _SINGULARS.get(words[0]) or closest(words[0], _URIS)
    if near is not None:
        start = len("azureml://")
        span = node.subspan(start, start + len(words[0]))
        fix = Fix(span, near, safe=False)
        return Problem("aml-bad-form", span, message, f"did you mean `azureml://{near}/`?", fix=fix)
    if words[0] == "datastores" and len(words) > 3 and words[2] and words[2] != "paths":
        better = f"azureml://datastores/{words[1]}/paths/{words[-1]}"
        return Problem("aml-bad-form", node.span, message, f"write `paths` before the path: `{better}`")
    return None


def report_name_not_text(key: Scalar) -> Problem:
    """Report a name that YAML reads as a number or a boolean, such as ``on``."""
    read = "nothing" if key.value is None else f"{key.value!s}".lower()
    message = f"the name `{key.text}` is read as {read}, but names are text"
    return report_unquoted("aml-name-not-text", key, message)


def report_unquoted(slug: str, node: Scalar, message: str) -> Problem:
    """Report a text that YAML reads as something else, because it is not in quotes."""
    quoted = f'"{node.text}"'
    return Problem(slug, node.span, message, f"quote it: {shorten(quoted, 60)}", fix=Fix(node.span, quoted))


def report_wrong_value(node: Node, name: str, alternatives: list[Shape]) -> Problem:
    """Report ``node``, the value of ``name``, which fits no alternative."""
    if isinstance(node, Scalar):
        return _scalar(node, name, alternatives)
    if isinstance(node, Mapping) and (problem := _form_of_2021(node, name)) is not None:
        return problem
    actual = "a mapping" if isinstance(node, Mapping) else "a list"
    message = f"`{name}` takes {_expected(alternatives)}, not {actual}"
    return Problem("aml-wrong-type", _start(node), message, _container_advice(node, name, alternatives))


def _form_of_2021(node: Mapping, name: str) -> Problem | None:
    """Report ``compute: {target: …}`` and ``code: {local_path: …}``, the forms of the preview of 2021."""
    key = {"compute": "target", "code": "local_path"}.get(name)
    value = node.get(key) if key is not None else None
    if not isinstance(value, Scalar):
        return None
    advice = f"write `{name}: {shorten(value.text, 60)}`"
    counts = [(word, count.text) for word in _RESOURCES if isinstance(count := node.get(word), Scalar)]
    if name == "compute" and counts:
        listed = ", ".join(f"{word}: {text}" for word, text in counts)
        advice += f" and, beside it, `resources: {{{listed}}}`"
    wanted = "the name of a compute" if name == "compute" else "a path"
    message = f"`{name}` takes {wanted}, not a mapping with `{key}`, which was the form of the 2021 preview"
    return Problem("aml-wrong-type", _start(node), message, shorten(advice, 200))


_RESOURCES = ("instance_count", "instance_type")


def _start(node: Mapping | Sequence) -> Span:
    """The start of a list or mapping, because underlining all of it helps little."""
    if isinstance(node, Mapping) and node.entries:
        return node.entries[0][0].span
    if isinstance(node, Sequence) and node.items:
        first = node.items[0]
        return first.span if isinstance(first, Scalar) else _start(first)
    return node.span


def _container_advice(node: Mapping | Sequence, name: str, alternatives: list[Shape]) -> str | None:
    if name == "command" and isinstance(node, Sequence):
        words = [part.text for part in node.items if isinstance(part, Scalar)]
        if len(words) == len(node.items) and not any(" " in word for word in words):
            return f"write `command: {shorten(' '.join(words), 80)}`"
        return "write one string: `>-` folds lines into one, `&&` joins commands"
    if isinstance(node, Sequence) and any(_is_mapping(part) for part in alternatives):
        return "write `key: value` lines without leading dashes"
    if name in _EXAMPLES:
        return f"write for example `{name}: {_EXAMPLES[name]}`"
    return f"write {_expected(alternatives)} after `{name}:`"


def _scalar(node: Scalar, name: str, alternatives: list[Shape]) -> Problem:
    plain = [part for part in alternatives if not _is_side_door(part)]
    scalars = [part for part in plain if not _is_mapping(part) and part.get("type") != "array"]
    if not scalars:
        return _not_a_scalar(node, name, plain)
    value = node.value
    is_text = isinstance(value, str)
    if not is_text and any(_takes_text(part) and fits_shape(node.text, part) for part in scalars):
        return _unquoted(node, name)
    if isinstance(value, float) and any(part.get("x-kind") == "integer" for part in scalars):
        return _fraction(node, name, value)
    if is_text and (problem := _text(node, name, alternatives, scalars)) is not None:
        return problem
    message = f"{_read_as(node)}, but `{name}` takes {_expected(plain)}"
    advice = _number_advice(node, scalars) or _PATTERN_ADVICE.get(name) or f"write {_expected(scalars)}"
    kinds = [part["x-kind"] for part in scalars if part.get("x-kind") in ("integer", "number")]
    if kinds and advice == f"write {_expected(scalars)}":
        advice += f", such as `{name}: {_EXAMPLES[kinds[0]]}`"
    return Problem("aml-wrong-type", node.span, message, advice)


def _text(node: Scalar, name: str, alternatives: list[Shape], scalars: list[Shape]) -> Problem | None:
    """Report a text whose content is not allowed."""
    if "${{" in node.text:
        return _binding(node, name, alternatives, scalars)
    enums = [part for part in scalars if "enum" in part and part.get("x-kind") is None]
    if enums:
        words = [word for part in enums for word in part["enum"] if isinstance(word, str)]
        return report_not_allowed(node, name, words, scalars)
    return _bad_form(node, name, scalars) if any(_has_form(part) for part in scalars) else None


def _takes_text(part: Shape) -> bool:
    """Whether some text could have a shape."""
    types = part.get("type")
    return "enum" in part or types is None or types == "string" or "string" in types


def _is_side_door(part: Shape) -> bool:
    """Whether a shape is not worth suggesting: an expression, or a file that contains the value."""
    return part.get("x-kind") == "binding" or part.get("pattern") == "^file:"


def _unquoted(node: Scalar, name: str) -> Problem:
    if isinstance(node.value, dt.date):
        message = f"`{shorten(node.text, 60)}` is read as a date, but `{name}` takes text"
        return report_unquoted("aml-unquoted-date", node, message)
    return report_unquoted("aml-wrong-type", node, f"{_read_as(node)}, but `{name}` takes text")


def _binding(node: Scalar, name: str, alternatives: list[Shape], scalars: list[Shape]) -> Problem:
    if len(scalars) < len(alternatives) and any(part.get("x-kind") == "binding" for part in alternatives):
        message = f"`{shorten(node.text, 60)}` is not an expression that `{name}` can hold"
    else:
        message = f"`{name}` takes {_expected(scalars)} here, not the expression `{shorten(node.text, 60)}`"
    advice = "write the value itself, or move the command into a component and bind it on the step"
    return Problem("aml-binding-not-allowed", node.span, message, advice)


def report_not_allowed(node: Scalar, name: str, words: list[str], scalars: Iterable[Shape] = ()) -> Problem:
    """Report a word that is not among the ``words`` that ``name`` takes."""
    message = f"`{shorten(node.text, 60)}` is not a value of `{name}`"
    if (problem := _without_prefix(node, message, scalars)) is not None:
        return problem
    if node.text in _PRIVATE_TYPES:
        message = f"`{node.text}` is a private preview, so this step is not checked"
        advice = "Azure ML takes it only with `AZURE_ML_CLI_PRIVATE_FEATURES_ENABLED=True`"
        return Problem("aml-private-preview", node.span, message, advice)
    if (former := _FORMER_WORDS.get(node.text.lower())) in words:
        advice = f"write `{former}`: `{node.text}` was its name in the 2021 preview"
        return Problem("aml-not-allowed", node.span, message, advice, fix=Fix(node.span, former))
    snake, lower = fold_case(node.text, "snake"), node.text.lower()
    same = next((word for word in words if word == snake or word.lower() == lower), None)
    if same is not None:
        advice = f"write `{same}`"
        if same == lower:
            advice += "; the value is case-sensitive"
        return Problem("aml-not-allowed", node.span, message, advice, fix=Fix(node.span, same))
    suggestion = closest(node.text, words)
    if suggestion is not None:
        fix = fix_unambiguous(node.span, node.text, words)
        return Problem("aml-not-allowed", node.span, message, f"did you mean `{suggestion}`?", fix=fix)
    listed = join_words([f"`{word}`" for word in words if word != "null"])
    return Problem("aml-not-allowed", node.span, message, f"write {listed}" if len(words) <= 20 else None)


def report_typed_literal(chosen: Scalar, tree: MappingContext) -> Problem | None:
    """Report a job's input that is declared like that of a component, by its type instead of its value."""
    example = _EXAMPLES.get(chosen.text.lower())
    if example is None or tree.parent is None or tree.parent.name != "inputs":
        return None
    value = tree.node.get("default" if "value" not in tree.node else "value")
    if isinstance(value, Scalar) and value.text:
        example = value.text
    message = f"`{chosen.text}` is not a value of `type`"
    advice = f"write the value itself, `{tree.name}: {shorten(example, 60)}`"
    advice += "; only a component declares an input by its type"
    return Problem("aml-not-allowed", chosen.span, message, shorten(advice, 200))


def _fraction(node: Scalar, name: str, value: float) -> Problem:
    message = f"`{name}` is `{node.text}`, not a whole number"
    advice = "write a whole number"
    if math.isfinite(value) and abs(value) < 1e15:
        advice = f"write a whole number; Azure ML would truncate it to {int(value)}"
    return Problem("aml-fraction", node.span, message, advice)


def _has_form(part: Shape) -> bool:
    return ("pattern" in part or "format" in part) and part.get("x-kind") is None


def _bad_form(node: Scalar, name: str, scalars: list[Shape]) -> Problem:
    message = f"`{shorten(node.text, 60)}` is not a valid `{name}`"
    if (problem := _without_prefix(node, message, scalars)) is not None:
        return problem
    advice = _PATTERN_ADVICE.get(name)
    if any(part.get("format") == "date-time" for part in scalars):
        advice = 'write date and time, for example "2030-01-31T08:00:00"'
    elif advice is None and any("azureml" in part.get("pattern", "") for part in scalars):
        advice = "write `azureml:NAME:VERSION`, `azureml:NAME@latest` or an ID that starts with `azureml://registries/`"
    return Problem("aml-bad-form", node.span, message, advice)


def _without_prefix(node: Scalar, message: str, scalars: Iterable[Shape]) -> Problem | None:
    """The problem of a name that lacks only the prefix of a reference."""
    wanted = f"azureml:{node.text.strip()}"
    fits = any("azureml" in part.get("pattern", "") and fits_shape(wanted, part) for part in scalars)
    if not fits or not node.text.strip() or set(node.text.strip()) & set(" <>{}/"):
        return None
    return Problem("aml-bad-form", node.span, message, f"write `{wanted}`", fix=Fix(node.span, wanted))


def _not_a_scalar(node: Scalar, name: str, plain: list[Shape]) -> Problem:
    message = f"`{name}` takes {_expected(plain)}, not {_token(node)}"
    advice = f"write the keys of `{name}` below it, indented"
    for part in plain:
        discriminator = part.get("x-discriminator", {})
        mapping = discriminator.get("mapping", {})
        word = fold_case(node.text, discriminator.get("case", "exact"))
        if word in mapping:
            advice = f"write `{name}: {{{discriminator['key']}: {word}}}`"
        elif mapping and discriminator.get("key") == "type":
            advice = f"write a mapping with `type`, one of {', '.join(f'`{type_}`' for type_ in mapping)}"
            if "uri_folder" in mapping:
                advice = f"write a mapping with its type, such as `{name}: {{type: uri_folder}}`"
        elif part.get("type") == "array":
            advice = f"write a list: `{name}: [{shorten(node.text, 60)}]`"
    return Problem("aml-wrong-type", node.span, message, shorten(advice, 200))


def _number_advice(node: Scalar, scalars: list[Shape]) -> str | None:
    numeric = any(part.get("x-kind") in ("integer", "number") for part in scalars)
    if numeric and isinstance(node.value, str):
        span = _TIME_SPAN.fullmatch(node.text.strip())
        if span is not None:
            return f"write the seconds, {int(span[1]) * _SECONDS[span[2]]}"
        try:
            number = float(node.text.replace("_", ""))
        except ValueError:
            return None
        if number.is_integer() and abs(number) < 1e15:
            return f"write {int(number)}"
    return None


def _read_as(node: Scalar) -> str:
    """Describe how YAML 1.1 reads a token: `yes` is read as true."""
    value = node.value
    shown = f"`{shorten(node.text, 60)}`"
    if isinstance(value, bool):
        is_plain = node.text.lower() == str(value).lower()
        return f"{shown} is a boolean" if is_plain else f"{shown} is read as {str(value).lower()}"
    if isinstance(value, (int, float)):
        return f"{shown} is read as the number {value}" if str(value) != node.text else f"{shown} is a number"
    if isinstance(value, dt.date):
        return f"{shown} is read as a date"
    return f"{shown} is text"


def _token(node: Scalar) -> str:
    value = node.value
    if isinstance(value, str):
        return f"the text `{shorten(node.text, 60)}`"
    return f"`{shorten(node.text, 60)}`"


def _expected(alternatives: list[Shape]) -> str:
    words: list[str] = []
    for part in alternatives:
        words += [word for word in _nouns(part) if word not in words]
    if not words:
        return "an expression such as ${{parent.outputs.name}}"
    return join_words(words)


def _nouns(part: Shape) -> list[str]:
    kind = part.get("x-kind")
    if _is_side_door(part):
        return []
    if kind in ("integer", "number", "boolean"):
        return [TYPE_WORDS[kind]]
    if "oneOf" in part:
        return [TYPE_WORDS["object"]]
    if "enum" in part and len(part["enum"]) <= 4:
        return [f"`{word}`" for word in part["enum"] if isinstance(word, str)]
    types = part.get("type", "string")
    names = [types] if isinstance(types, str) else types
    return [TYPE_WORDS[name] for name in names if name in TYPE_WORDS]


def _is_mapping(part: Shape) -> bool:
    return part.get("type") == "object" or "oneOf" in part
