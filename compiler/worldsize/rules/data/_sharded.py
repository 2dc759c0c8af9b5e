"""What `shard_data` would refuse of local data, by the step's own sentences, from a bounded part of it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.azureml.literals import parse_number
from worldsize.azureml.model import Binding, Job, Literal, Step
from worldsize.azureml.references import exists, is_folder
from worldsize.azureml.tree import Tree
from worldsize.base import limits
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.data.rows import read_sample
from worldsize.data.sample import SAMPLED
from worldsize.planning.memory.workload import find_sharding, literal_inputs
from worldsize.rules.data._shard_steps import MAX_FILES, find_data_path, find_local_data
from wsmetrics.names import SHARES
from wsshards.errors import UserError, clip_text
from wsshards.terms import CLASSIFICATION
from wssources.column_kinds import parse_column_types
from wssources.find_files import FORMATS, check_content, choose_files, find_files, name_source
from wssources.input_error import InputError, blame_input
from wssources.media_options import MediaOptions, check_vocabulary, parse_image_size
from wssources.mltable import ElsewhereError
from wssources.name_lists import split_names
from wssources.planned_rows import SOURCES
from wssources.request import MISSING, Files, Request
from wssources.row_faults import check_rows
from wssources.source_urls import check_address, is_address
from wssources.split_settings import make_split
from wssources.tasks import FEW_VALUES, TASK_CHOICES
from wssources.unpack import Unpacked, is_described, unpack

_MANY_ROWS = 100  # of which each of a few classes should have more than one
_MEDIA_NUMBERS = ("vocabulary_size",)
_TEXTS = ("source", "label", "format", "task", "missing", "split")
_OPTIONAL = ("features", "column_types", "split_by", "split_time", "validation_after", "test_after")
_CHOICES = {"task": TASK_CHOICES, "missing": MISSING, "split": ("hash", "given")}
_DIVIDING = ("split_by", "validation_after", "test_after")
_ALL_DIFFERENT = 10  # labels
_CONDITION = re.compile(r"\s*(\w+)\s*(>=|<=|>|<)\s*([0-9]+(?:\.[0-9]+)?)\s*")
_SPREAD = 0.01  # by which the share of a class in the rows held out may be smaller
_NUMBERS = {
    "sequence_length": 1.0,
    "shard_count": 1.0,
    "validation_fraction": 0.0,
    "test_fraction": 0.0,
    "seed": 0.0,
    "memory_limit_mib": 1e6,
}


class _Source(Struct):
    """Local data of a step, the inputs that control how it is read, and its name in messages."""

    step: Step
    values: dict[str, Any]
    base: Path
    span: Span  # of the path of the data
    called: str
    media: MediaOptions | None = None  # None where an input about pictures or text is not known
    gates: tuple[tuple[Span, str], ...] = ()  # on metrics that are measured on the shards

    def span_of(self, *names: str) -> Span:
        """Where the first of the inputs that the step gives is written, else the path of the data."""
        for name in names:
            argument = self.step.inputs.get(name)
            if argument is not None and argument.span is not None and isinstance(argument.value, Literal):
                return argument.span
        return self.span


def check_source(context: Tree, job: Job, step: Step, reported: set[Span]) -> Iterator[Problem]:
    """The first fault for which the step would refuse local data, unless its path is reported already."""
    if _find_address(step):
        yield from _check_address(step)
        return
    source = _find_source(context, job, step)
    if source is None or source.span in reported:
        return
    try:
        root, files = find_files(source.values["source"], str(source.base), MAX_FILES)
        if not context.inside(root):
            return
        if not is_described(root, source.values["format"]):
            yield from _check_files(source, root, files)
            return
        with tempfile.TemporaryDirectory(prefix="worldsize-") as scratch:
            unpacked = unpack(root, Path(scratch), most_bytes=SAMPLED.size)
            root, files = find_files(".", str(unpacked.root), MAX_FILES)
            yield from _check_files(source, root, files, unpacked)
    except InputError as error:
        span = source.span_of(error.blamed) if error.blamed else source.span
        yield _report(error.slug, span, error)
    except UserError as error:
        if not isinstance(error.__context__, OSError):  # too many files, or no permission, here
            yield _report("data-source-missing", source.span_of("source"), error)
    except (ImportError, ElsewhereError):  # no pyarrow here, or files with an address
        return


def _check_files(
    source: _Source, root: Path, files: list[str], unpacked: Unpacked | None = None
) -> Iterator[Problem]:
    """The first fault for which the step would refuse files."""
    slug, first_input = "data-format-wrong", "format"
    try:
        called = name_source(source.values["source"], root)
        if source.media is not None and source.media.labels and source.values["format"] == "auto":
            source.values["format"] = "images"
        kind, chosen = choose_files(root, files, source.values["format"], called)
        slug, first_input = "input-out-of-range", "validation_fraction"
        request = _make_request(source, root, chosen, unpacked)
        slug, first_input = "data-format-wrong", "format"
        for file in islice(request.files, SAMPLED.opened):
            check_content(request, file, kind)
    except InputError as error:
        yield _report(error.slug, source.span_of(error.blamed, "source"), error)
        return
    except UserError as error:
        if not isinstance(error.__context__, OSError):  # no permission, here
            yield _report(slug, source.span_of(first_input, "source"), error)
        return
    yield from _check_rows(source, request, kind, whole=unpacked is None or unpacked.complete)


def _check_address(step: Step) -> Iterator[Problem]:
    """Report an address that nothing can open; it is not opened here."""
    address, argument = _find_address(step), step.inputs["source"]
    if "${{" in address or argument.span is None:
        return
    try:
        check_address(address, "given" if "data" in step.inputs else "")
    except UserError as error:
        yield _report("data-source-missing", argument.span, error)


def _find_address(step: Step) -> str:
    """The address that the step reads, if any."""
    argument = step.inputs.get("source")
    value = argument.value.value if argument is not None and isinstance(argument.value, Literal) else None
    return value if isinstance(value, str) and is_address(value) else ""


def _report(slug: str, span: Span, error: UserError) -> Problem:
    return Problem(slug, span, error.message, error.help)


def _find_source(context: Tree, job: Job, step: Step) -> _Source | None:
    """The local data that a step reads; None if it is built in, elsewhere, or unknown."""
    component = step.component
    if component is None or not component.inputs.keys() >= {*_TEXTS, *_OPTIONAL, *_NUMBERS, "data"}:
        return None
    values = dict(literal_inputs(step, (*_TEXTS, *_OPTIONAL, *_NUMBERS)))
    for name in _OPTIONAL:  # dates and numbers may be written without quotes
        if name in step.inputs and isinstance(values[name], int | float):
            values[name] = str(values[name])
    texts = [values[name] for name in (*_TEXTS, *(name for name in _OPTIONAL if name in step.inputs))]
    written = all(isinstance(text, str) and "${{" not in text for text in texts)
    if not written or any(values[name] not in choices for name, choices in _CHOICES.items()):
        return None  # known when the pipeline runs, or reported as input-not-in-enum
    path = find_data_path(job, step)
    if values["source"] in SOURCES or values["format"] not in FORMATS or path is None:
        return None
    local = find_local_data(context, path)
    if local is None or path.node is None or _is_placeholder(local):
        return None
    for name, silent in _NUMBERS.items():  # a planned number is judged with the plan
        argument = step.inputs.get(name)
        number = parse_number(values[name]) if argument is None or argument.span is not None else None
        values[name] = silent if number is None or number < 0 else float(number)
    called = path.value.removeprefix("./").rstrip("/") or "."
    media, gates = _read_media(step, local), tuple(_find_gates(job, step))
    return _Source(step, values, local, path.node.span, called, media, gates)


def _find_gates(job: Job, sharding: Step) -> Iterator[tuple[Span, str]]:
    """The gates on metrics that are measured on the shards of a step."""
    for step in job.steps.values():
        gate, metrics = step.inputs.get("gate"), step.inputs.get("metrics")
        if gate is None or metrics is None or gate.span is None or not isinstance(metrics.value, Binding):
            continue
        source = job.steps.get(metrics.value.expression.step or "")
        if isinstance(gate.value, Literal) and source and find_sharding(job, source) is sharding:
            yield gate.span, str(gate.value.value)


def _is_placeholder(path: Path) -> bool:
    """Whether a folder holds only the file that keeps it in git: its data comes from elsewhere."""
    if not is_folder(path) or not any(exists(path / name) for name in (".gitkeep", ".keep", ".gitignore")):
        return False
    return all(entry.name.startswith(".") or entry.name.lower() == "readme.md" for entry in path.iterdir())


def _make_request(source: _Source, root: Path, names: list[str], unpacked: Unpacked | None = None) -> Request:
    values = source.values
    if unpacked is not None:
        inner = values["source"].strip("/")
    else:
        inner = root.relative_to(source.base).as_posix() if root != source.base else "."
    called = source.called if inner == "." else f"{source.called}/{inner}" if source.called != "." else inner
    features = split_names(str(values["features"] or ""))
    length, memory = int(values["sequence_length"]), int(values["memory_limit_mib"]) << 20
    seed = int(values["seed"])
    with blame_input("input-out-of-range", "column_types"):
        kinds = parse_column_types(values["column_types"] or "")
    split = make_split(values, seed)
    if unpacked is not None:
        kinds, split = unpacked.column_kinds(kinds), unpacked.divide(split) or split
    media = source.media or MediaOptions()
    with blame_input("input-out-of-range", "image_size"):
        parse_image_size(media.image_size)
    with blame_input("input-out-of-range", "vocabulary_size"):
        check_vocabulary(max(0, media.vocabulary_size))  # a negative one is out of range by itself
    files, label = Files(root, names), values["label"]
    task, missing = values["task"], values["missing"]
    return Request(
        root, files, label, features, length, memory, called, task, missing, kinds, split, seed, media
    )


def _check_rows(source: _Source, request: Request, kind: str, *, whole: bool) -> Iterator[Problem]:
    """Report the first fault of columns, rows or labels, then too few rows of data that was read whole."""
    if source.media is None:
        return
    read = read_sample(request, kind, limits.check_time)
    if read.fault is not None:
        yield _report(read.slug, source.span_of(read.blamed or "source", "source"), read.fault)
        return
    at_label = source.span_of("label", "source")
    odd = _describe_labels(request, read.labels) if read.task == CLASSIFICATION else None
    if odd is not None:
        yield _report("label-not-categorical", at_label, odd)
        return
    labels = read.labels if read.task == CLASSIFICATION else {}
    doubtful = _describe_doubtful(labels, request.called, complete=read.complete)
    if doubtful is not None:
        yield _report("class-doubtful", at_label, doubtful)
    yield from _check_gates(source.gates if len(labels) > 1 else (), labels)
    for column in read.find_telling():
        at = source.span_of("features", "source")
        yield Problem("column-tells-label", at, column.describe(request.label), column.help)
    names = list(labels)
    if not (read.complete and whole):
        return
    try:
        train = read.divide(request)
    except UserError as error:
        yield _report("data-too-few-rows", source.span_of(*_DIVIDING, "source"), error)
        return
    try:
        rows = list(read.labels.values()) or [read.rows]
        check_rows(train, rows, names, request.called, int(source.values["shard_count"]))
    except UserError as error:
        if len(names) == 1 and kind != "images":
            yield _report("label-not-a-class", at_label, error)
        else:
            yield _report("data-too-few-rows", source.span_of("source"), error)


def _describe_labels(request: Request, labels: Mapping[str, int]) -> UserError | None:
    """Say that labels are names of single rows."""
    rows, distinct = sum(labels.values()), len(labels)
    if not distinct == rows >= _ALL_DIFFERENT:
        return None
    what = f"the first {rows:,} rows" if rows >= SAMPLED.rows else f"the {rows:,} rows"
    return UserError(
        f"label `{clip_text(request.label)}` of `{request.called}` has another value in each of {what}",
        "name a column of classes in `label`; what differs in every row is no class",
    )


def _check_gates(gates: Iterable[tuple[Span, str]], labels: Mapping[str, int]) -> Iterator[Problem]:
    """Report gates that the most frequent class passes, always said."""
    for span, gate in gates:
        largest = max(labels, key=lambda name: labels[name])
        share = labels[largest] / sum(labels.values())
        conditions = [*map(_CONDITION.fullmatch, gate.split(";"))]
        floors = [condition for condition in conditions if condition and condition[2].startswith(">")]
        if floors and all(condition and _is_met(condition, share) for condition in conditions):
            right = f"it is right in {100 * share:.3g} % of the rows"
            message = f"a model that always says `{clip_text(largest)}` passes this gate: {right}"
            better = f'`balanced_accuracy: "> {1.1 / len(labels):.2g}"`'
            help_ = f"write {better}, or `average_precision` for two classes"
            yield Problem("gate-constant-passes", span, message, help_)


def _is_met(condition: re.Match[str], share: float) -> bool:
    """Whether the most frequent class, always said, surely meets a condition, given its share of the rows."""
    metric, sign, bound = condition[1], condition[2], float(condition[3])
    if sign.startswith("<"):
        return metric in SHARES and bound > share
    return metric == "accuracy" and bound <= share - _SPREAD


def _read_media(step: Step, folder: Path | None) -> MediaOptions | None:
    """The inputs about pictures and text; None if one is only known when the pipeline runs."""
    declared = step.component.inputs if step.component is not None else {}
    names = tuple(name for name in MediaOptions._fields if name in declared)
    values: dict[str, Any] = {}
    for name, value in dict(literal_inputs(step, names)).items():
        if value is None and name not in step.inputs:
            continue
        if name not in _MEDIA_NUMBERS:
            if isinstance(value, bool) or not isinstance(value, str | int) or "${{" in str(value):
                return None
            values[name] = str(value)
        else:
            number = parse_number(value)
            values[name] = 0 if number is None else number
    return MediaOptions(**values, folder=folder)


def _describe_doubtful(labels: Mapping[str, int], called: str, *, complete: bool) -> UserError | None:
    """Describe the first doubtful class of the rows by class; ``called`` names the data in messages."""
    alike: dict[str, str] = {}
    for name in sorted(labels):
        visible = "".join(sign if sign.isprintable() else " " for sign in name)
        other = alike.setdefault(" ".join(visible.split()).casefold(), name)
        if other != name:
            return UserError(
                f"`{clip_text(other)}` and `{clip_text(name)}` of `{called}` are two classes that differ in"
                " capitals, blanks or invisible characters alone",
                "write them alike, unless they are meant to be two",
            )
    rows = sum(labels.values())
    single = next((name for name, count in sorted(labels.items()) if count == 1), None)
    if single is None or not complete or rows < _MANY_ROWS or len(labels) > FEW_VALUES:
        return None
    return UserError(
        f"class `{clip_text(single)}` of `{called}` has 1 of {rows:,} rows, so nothing validates it",
        "correct it if it is misspelt, else give it more rows or leave it out",
    )
