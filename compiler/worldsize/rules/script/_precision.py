"""Number formats and kernels that the GPUs of the step's VM size do not have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Problem, relate
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Scalar, find_node
from worldsize.facts import cuda
from worldsize.rules.script._library_settings import read_accelerate_config
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, constant_value, is_conditional, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.settings import read_value
from worldsize.scripts.values import open_variable

_ASKS = ("is_bf16_supported", "get_device_capability", "get_device_properties", "is_torch_bf16_gpu_available")
_BF16 = ("torch.bfloat16", "tensorflow.bfloat16")
_DTYPES = ("dtype", "torch_dtype", "param_dtype", "compute_dtype", "bnb_4bit_compute_dtype")
_FLASH = ("flash_attention_2", "flash_attention_3")
_TAKES_DTYPE = ("to", "autocast", "set_default_dtype", "type")


_CALLS = frozenset({*_TAKES_DTYPE, "fp8_autocast", "fp8_model_init", "bfloat16", "set_global_policy"})
_KEYWORDS = frozenset(
    {*_DTYPES, "bf16", "tf32", "bf16_full_eval", "precision", "mixed_precision", "attn_implementation"}
    | {"use_flash_attention_2"}
)


class _Format(NamedTuple):
    what: str
    slug: str
    least: tuple[int, int]  # the first compute capability that has it
    since: str
    help: str


_FORMATS = {
    "bf16": _Format(
        "bfloat16", "precision-not-in-hardware", (8, 0), "Ampere", "use float16 with a scaled loss"
    ),
    "fp8": _Format("FP8", "kernels-not-for-gpu", (8, 9), "Ada, Hopper", "use bfloat16"),
    "tf32": _Format("TF32", "kernels-not-for-gpu", (8, 0), "Ampere", "remove it"),
    "flash": _Format("FlashAttention 2", "kernels-not-for-gpu", (8, 0), "Ampere", "write `sdpa`"),
}
_Use = tuple[str, Span, Module | None, ast.AST | None]


def check_program(context: Tree, program: Program) -> Iterator[Problem]:
    size = program.launch.size
    gpu = cuda.find_gpu(size.gpu_model) if size is not None and size.devices else None
    if size is None or gpu is None or gpu.capability is None:
        return
    if gpu.capability >= max(form.least for form in _FORMATS.values()):
        return
    if any({launch.size_name for launch in program.launches} - {program.launch.size_name}):
        return
    asks = program.refers(*_ASKS)
    said: set[str] = set()
    for kind, span, module, node in _find_uses(context, program):
        form = _FORMATS[kind]
        if gpu.capability >= form.least or kind in said or (asks and module is not None):
            continue
        if module is not None and node is not None and not read_reached(program).runs(module, node):
            continue
        said.add(kind)
        message = (
            f"the GPUs of `{size.name}` ({size.gpu_model}) have compute capability"
            f" {_show(gpu.capability)}, but {form.what} needs {_show(form.least)}"
        )
        help_ = f"{form.help}, or choose a size with GPUs of {form.since} or newer"
        related = (*relate(program.launch.size_span, size.gpu_model), *program.related)
        yield Finding(span, message, help_, related=related).under(form.slug)


def _find_uses(context: Tree, program: Program) -> Iterator[_Use]:
    for module, (name, call) in program.find(_list_candidates):
        kind = _judge_call(program, module, name, call)
        if kind is not None and not _is_chosen(module, call):
            yield kind[0], module.span(kind[1]), module, call
    for flag in program.command.flags():
        value = flag.value.bare.lower() if flag.value is not None else ""
        is_on = flag.name in ("bf16", "tf32") and value not in ("false", "0", "no") and "$" not in value
        kind_name = flag.name if is_on else None
        if flag.name in ("mixed_precision", "precision") and value in ("bf16", "fp8"):
            kind_name = value
        span = program.launch.span(flag.value or flag.word) if kind_name else None
        if kind_name and span is not None and (not is_on or program.imports("transformers", "trl")):
            yield kind_name, span, None, None
    config = read_accelerate_config(context, program)
    node = find_node(config, "mixed_precision")
    is_option = program.inner is not None and "mixed_precision" in program.inner.options
    if isinstance(node, Scalar) and node.value in ("bf16", "fp8") and not is_option:
        yield str(node.value), node.span, None, None
    if not program.says("deepspeed", "ds_config"):
        return
    from worldsize.rules.shared.deepspeed import find_configs  # knows all of DeepSpeed's keys

    for root in find_configs(context, program.launch):
        enabled = find_node(root, "bf16", "enabled")
        if isinstance(enabled, Scalar) and enabled.value is True:
            yield "bf16", enabled.span, None, None


def _list_candidates(module: Module) -> list[tuple[str, ast.Call]]:
    """The calls that ask for a format in some program."""
    return [
        (name, call)
        for name, call in module.calls
        if (last := name.rpartition(".")[2]) in _CALLS
        or last.startswith("flash_attn_")
        or any(one.arg in _KEYWORDS for one in call.keywords)
    ]


def _judge_call(program: Program, module: Module, name: str, call: ast.Call) -> tuple[str, ast.AST] | None:
    """The format that a call surely asks for, and the word that does."""
    last = name.rpartition(".")[2]
    if last in ("fp8_autocast", "fp8_model_init"):
        enabled = keyword_argument(call, "enabled")
        return ("fp8", call) if enabled is None or constant_value(enabled) is True else None
    if last.startswith("flash_attn_") and name.startswith("flash_attn."):
        return "flash", call
    if last == "bfloat16" and not call.args and name not in _BF16:
        return "bf16", call
    for argument in call.args[:2]:
        is_dtype = last in _TAKES_DTYPE and _is_bf16(module, argument)
        if is_dtype or (last == "set_global_policy" and constant_value(argument) == "mixed_bfloat16"):
            return "bf16", argument
    kinds = ((_judge_keyword(program, module, last, one), one.value) for one in call.keywords)
    return next(((kind, value) for kind, value in kinds if kind is not None), None)


def _judge_keyword(program: Program, module: Module, last: str, one: ast.keyword) -> str | None:
    if one.arg in _DTYPES:
        is_bf16 = _is_bf16(module, one.value)
        return "bf16" if is_bf16 and last not in ("zeros", "ones", "tensor", "empty", "randn") else None
    if one.arg in ("bf16", "tf32", "bf16_full_eval") and last.endswith(("Arguments", "Config")):
        value = read_value(program, module, one.value)
        return one.arg[:4] if value is True else None
    if one.arg in ("precision", "mixed_precision"):
        value = read_value(program, module, one.value)
        text = str(value).lower()
        return "bf16" if text.startswith("bf16") else "fp8" if text in ("fp8", "transformer-engine") else None
    if one.arg == "attn_implementation" and constant_value(one.value) in _FLASH:
        return "flash"
    return "flash" if one.arg == "use_flash_attention_2" and constant_value(one.value) is True else None


def _is_chosen(module: Module, call: ast.Call) -> bool:
    """Whether a call stands under a condition, which may be about the GPU."""
    ancestors = (above for above, _ in module.ancestors(call))
    return is_conditional(module, call) or any(isinstance(above, ast.IfExp) for above in ancestors)


def _is_bf16(module: Module, node: ast.AST) -> bool:
    """Whether a value is the type itself, also through a variable that is set once."""
    return module.name_of(open_variable(module, node) or node) in _BF16


def _show(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
