"""Training arguments of Hugging Face that contradict each other, or the DeepSpeed configuration they name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from worldsize.base.problem import Finding, Related
from worldsize.documents.yaml import json_text
from worldsize.documents.yaml.nodes import Mapping, Scalar, find_node
from worldsize.rules.context import Context
from worldsize.scripts.interface.read import read_interface, read_reached
from worldsize.scripts.module import Module, constant_value, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.settings import read_value

_PACKAGES = ("transformers", "trl", "optimum", "sentence_transformers", "setfit")
# Where the configuration says what an argument says too, with the default of the argument.
_SAME: tuple[tuple[str, str, object], ...] = (
    ("train_micro_batch_size_per_gpu", "per_device_train_batch_size", 8),
    ("gradient_accumulation_steps", "gradient_accumulation_steps", 1),
    ("gradient_clipping", "max_grad_norm", 1.0),
    ("optimizer.params.lr", "learning_rate", 5e-5),
    ("optimizer.params.weight_decay", "weight_decay", 0.0),
    ("scheduler.params.warmup_max_lr", "learning_rate", 5e-5),
    ("scheduler.params.warmup_num_steps", "warmup_steps", 0),
    ("fp16.enabled", "fp16", False),
    ("bf16.enabled", "bf16", False),
)
_TRUE = ("true", "t", "yes", "y", "1")
_STRATEGIES = frozenset({"no", "steps", "epoch"})


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if not program.imports(*_PACKAGES):
        return
    yield from _judge_command(program)
    for module in program.modules:
        for name, call in module.calls:
            last = name.rpartition(".")[2]
            is_arguments = name.partition(".")[0] in _PACKAGES and last.endswith(
                ("TrainingArguments", "SFTConfig")
            )
            if is_arguments and read_reached(program).runs(module, call):
                yield from _judge_precisions(program, module, call)
                yield from _judge_config(context, program, module, call)


def _judge_command(program: Program) -> Iterator[Finding]:
    """The same in the words that the command gives to `HfArgumentParser`."""
    interface = read_interface(program)
    if interface is None or not any(option.name == "fp16_full_eval" for option in interface.options):
        return
    flags = {flag.name: flag for flag in program.command.flags()}
    texts = {name: flag.value.bare if flag.value is not None else "true" for name, flag in flags.items()}
    true = {name for name, text in texts.items() if text.lower() in _TRUE}
    span = program.launch.span(flags["bf16"].word) if {"fp16", "bf16"} <= true else None
    if span is not None:
        message = "`--fp16` and `--bf16` are both given, and `TrainingArguments` takes one of them"
        yield Finding(span, message, "remove one of them", related=program.related)
    evaluates, saves = (
        texts.get("eval_strategy", texts.get("evaluation_strategy")),
        texts.get("save_strategy"),
    )
    if "load_best_model_at_end" not in true or evaluates == saves or not {evaluates, saves} < _STRATEGIES:
        return
    span = program.launch.span(flags["save_strategy"].word)
    if span is not None:
        message = (
            f"the model is saved by `{saves}` and evaluated by `{evaluates}`: the best one cannot be known"
        )
        help_ = f"write `--save_strategy {evaluates}`, or leave out `--load_best_model_at_end`"
        yield Finding(span, message, help_, related=program.related)


def _judge_precisions(program: Program, module: Module, call: ast.Call) -> Iterator[Finding]:
    half, brain = keyword_argument(call, "fp16"), keyword_argument(call, "bf16")
    if half is not None and brain is not None and constant_value(half) is constant_value(brain) is True:
        message = "`fp16` and `bf16` are both true, but `TrainingArguments` takes only one of them"
        related = (Related(module.span(half), "the other"), *program.related)
        yield Finding(module.span(brain), message, "remove one of them", related=related)


def _judge_config(context: Context, program: Program, module: Module, call: ast.Call) -> Iterator[Finding]:
    node = keyword_argument(call, "deepspeed")
    name, folder = read_value(program, module, node), program.launch.code_folder
    if node is None or not isinstance(name, str) or folder is None or name.startswith("/"):
        return
    path = Path(folder, name)
    source = context.text(path)
    if source is None:
        if name.endswith(".json") and context.is_folder(folder) and not context.exists(path):
            message = f"there is no `{name}` in the code of the step"
            help_ = "name a file relative to the folder of the code"
            yield Finding(module.span(node), message, help_, related=program.related)
        return
    root, _ = json_text.read_json(source)
    if not isinstance(root, Mapping):
        return
    for key, argument, default in _SAME:
        passed = keyword_argument(call, argument)
        value = default if passed is None else read_value(program, module, passed)
        if passed is None and any(one.arg is None for one in call.keywords):
            continue
        written = find_node(root, *key.split("."))
        if not isinstance(written, Scalar) or not isinstance(value, int | float) or written.value == value:
            continue
        is_off = written.value is False and value is True and key == "fp16.enabled"
        if isinstance(written.value, str) or is_off:
            continue
        by_default = "" if passed is not None else " by default"
        message = f"`{key}` is {written.text}, but `{argument}` is {value}{by_default}: the trainer stops"
        where = module.span(passed if passed is not None else node)
        related = (Related(where, "the training arguments"), *program.related)
        yield Finding(written.span, message, 'write `"auto"`, which takes the argument', related=related)
