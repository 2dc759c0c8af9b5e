"""What the graph has of a training step: its inputs, the samples it reads, whether its memory may matter.

A check of small examples need not load the formulas: the bound here is coarse, and never too small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from worldsize.azureml import literals
from worldsize.azureml.model import Binding, Component, Job, Literal, Step
from worldsize.planning.model import COUNTED, StepPlan
from worldsize.planning.options import parse_count
from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL
from wssources import planned_rows
from wssources.media_options import BPE, BYTES_TOKENIZER, DEFAULT_VOCABULARY

PREDICTION = "predicted_memory_bytes"  # the input that tells a training step the memory planned for it
SHARDING = "shard_data"  # the built-in component
HARMLESS = 2**30  # bytes that every VM size of the catalogue has for a process
BYTES = 256  # a language model reads and predicts bytes
_DIGITS = (1, 8, 8), 10  # scikit-learn's handwritten digits
_TRAINERS = ("train_ddp", "train_horovod", "train_deepspeed")  # known inside; Keras has not been measured
_TEXT_INPUTS = ("text", "task", "tokenizer", "vocabulary_size")
_SIZES = ("gpt_layers", "gpt_heads", "gpt_width")


class Samples(Struct, frozen=True):
    """``task`` is that of a manifest, ``shape`` one sample as the model gets it, ``outputs`` the classes."""

    task: str
    shape: tuple[int, ...]
    outputs: int


SOURCE_TASKS = {planned_rows.DIGITS: CLASSIFICATION, planned_rows.PYTHON_SOURCE: LANGUAGE_MODEL}

ReadTable = Callable[[Step], Samples | None]
"""Reads the shape of a small local table that a sharding step is given."""
ReadConfig = Callable[[Step], Mapping[str, Any] | None]
"""Reads the ``config.json`` of the Hugging Face model that a step trains."""


def is_sharding(component: Component | None) -> bool:
    """Whether a step's component is the built-in one that shards data."""
    return component is not None and component.name is not None and component.name.value == SHARDING


def find_sharding(job: Job, step: Step) -> Step | None:
    """The step that shards what a step reads; None where its ``shards`` are not bound to one."""
    shards = step.inputs.get("shards")
    expression = shards.value.expression if shards and isinstance(shards.value, Binding) else None
    source = job.steps.get(expression.step or "") if expression is not None else None
    return source if source is not None and is_sharding(source.component) else None


def is_trainer(step: Step) -> bool:
    """Whether a step's component is one whose models are known inside."""
    name = step.component.name if step.component is not None else None
    return name is not None and name.value in _TRAINERS


def read_samples(job: Job, step: Step, *, text: bool, read_table: ReadTable | None = None) -> Samples | None:
    """What a training step reads; None where the data would have to be looked into, or cannot be.

    ``text`` says whether its model reads nothing but text; ``read_table`` reads small local tables.
    """
    source = find_sharding(job, step)
    if source is None:
        return None
    values = literal_inputs(source, ("source", "format", "sequence_length", *_TEXT_INPUTS))
    if values["source"] == planned_rows.DIGITS:
        return None if text else Samples("classification", *_DIGITS)
    if not text and values["source"] != planned_rows.PYTHON_SOURCE and values["format"] != "text":
        return read_table(source) if read_table is not None else None
    length = literals.parse_number(values["sequence_length"])
    vocabulary = _read_vocabulary(values)
    if length is None or length < 1 or vocabulary is None:
        return None
    return Samples("language_model", (int(length),), vocabulary)


def read_text(job: Job, step: Step, plan: StepPlan) -> tuple[str | None, int] | None:
    """The task and the tokens of a row of text; the task is None where only a table's columns decide it.

    The rows of a table of texts are counted only if they have labels: a language model's are packed.
    """
    source = find_sharding(job, step)
    if source is None:
        return None
    values = literal_inputs(source, ("sequence_length", "text", "task"))
    length, task = parse_count(values["sequence_length"]), values["task"] or "auto"
    if not length or task not in ("auto", CLASSIFICATION, LANGUAGE_MODEL):
        return None
    if task == "auto":
        rows = plan.find_row("rows")
        labelled = "label" in source.inputs or (rows is not None and rows.source == COUNTED)
        task = LANGUAGE_MODEL if values["text"] is None else CLASSIFICATION if labelled else None
    return task, length


def _read_vocabulary(values: Mapping[str, Any]) -> int | None:
    """Tokens of a language model's text; None for whole texts, or where only a tokenizer's file tells."""
    if values["text"] is not None or values["task"] == "classification":
        return None
    if values["tokenizer"] in (None, BYTES_TOKENIZER):
        return BYTES
    size = literals.parse_number(values["vocabulary_size"])
    return int(size) or DEFAULT_VOCABULARY if values["tokenizer"] == BPE and size is not None else None


def literal_inputs(step: Step, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Inputs as the step gives them, else the component's defaults; None where neither is a literal."""
    values: dict[str, Any] = dict.fromkeys(names)
    for name in names:
        argument = step.inputs.get(name)
        port = step.component.inputs.get(name) if step.component is not None else None
        if argument is not None:
            values[name] = argument.value.value if isinstance(argument.value, Literal) else None
        elif port is not None and port.default is not None:
            values[name] = port.default.value
    if "source" in values and values["source"] is None and is_sharding(step.component):
        bound = {*step.inputs, *step.unwired}
        if "source" not in bound:
            values["source"] = planned_rows.default_source(has_data="data" in bound)
    return values


def may_matter(job: Job, step: Step, plan: StepPlan) -> bool:
    """Whether a training step may need more than :data:`HARMLESS` bytes a process, and that can be known."""
    training = plan.training
    if training is None or not is_trainer(step):
        return False
    values = literal_inputs(step, ("model", *_SIZES))
    samples = training.batch_size_per_device
    if plan.topology.pipeline_parallel_size > 1:
        samples *= training.gradient_accumulation_steps
    if str(values["model"]).startswith("hf:"):
        return True
    if values["model"] in ("mlp", "cnn"):
        return samples * 2**18 > HARMLESS  # the built-in pictures leave 0.1 MB each
    read = read_samples(job, step, text=True) if values["model"] == "gpt" else None
    if read is None:
        return False
    sizes = [literals.parse_number(values[name]) for name in _SIZES]
    layers, heads, width = (size or 1 for size in sizes)
    weights = layers * (13 * width * width + 20 * width) + (88 + 2 * read.outputs) * width
    kept = read.shape[0] * (layers * (32 * width + heads + 8) + 6 * read.outputs)
    return 40 * weights + 4 * samples * kept > HARMLESS
