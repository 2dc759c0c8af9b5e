"""Each process uses the GPU that its local rank names."""

from __future__ import annotations

import ast
import re

from worldsize.adopting.options.parsers import Parser
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.reading import list_modules_beside, read_beside
from worldsize.adopting.source.script import Script
from worldsize.scripts.module import constant_value, keyword_argument, variable_writes

_GPU = re.compile(r"cuda|gpu|torch\.accelerator|current_accelerator|\bmps\b|\bxpu\b", re.IGNORECASE)
_NUMBER = re.compile(r"device|gpu|gpu_id|cuda_id|device_id|cuda_device")
_REASON = "each process uses the GPU of its local rank, which `set_device` makes the current one"


def refuse_several_gpus(script: Script) -> None:
    """Refuse a script that spreads one model over GPUs itself."""
    for node in script.module.kinds.get(ast.Constant, ()):
        if isinstance(node.value, str) and re.fullmatch(r"cuda:[1-9]", node.value):
            help_ = "train on one GPU first: each process gets its own"
            raise script.refuse(node, f"this script uses several GPUs itself: `{node.value}`", help_)


def may_use_gpu(script: Script, parser: Parser) -> bool:
    """Whether the script, or a module beside it, names a GPU; else it trains on the processor."""
    if any(each.name in ("device", "accelerator") for each in parser.options.declared):
        return True
    beside = (read_beside(path) for _, _, path in list_modules_beside(script.module))
    modules = [script.module, *(each for each in beside if each is not None)]
    return any(module.holding(_GPU.search) for module in modules)


def use_own_gpu(script: Script, header: Header, parser: Parser) -> None:
    """Take the numbers of GPUs out: ``cuda`` is the GPU that the process has chosen."""
    module = script.module
    for node in module.kinds.get(ast.Constant, ()):
        if isinstance(node.value, str) and re.fullmatch(r"cuda:0", node.value):
            written = script.written(node)
            script.replace(node, written.replace("cuda:0", "cuda"), "WS905", _REASON)
    for name, call in module.calls:
        if name.endswith(".cuda") and len(call.args) == 1 and constant_value(call.args[0]) == 0:
            script.replace(call.args[0], "", "WS905", _REASON)
        elif name.endswith("cuda.set_device") and call.args:
            script.replace(call.args[0], header.names.local_rank, "WS905", _REASON)
        elif name == "torch.device" and [constant_value(each) for each in call.args] == ["cuda", 0]:
            script.replace(call.args[1], header.names.local_rank, "WS905", _REASON)
    for variable, _, statement in variable_writes(module):
        if variable == "CUDA_VISIBLE_DEVICES":
            script.delete(statement, "WS905", "every process would see the same GPU")
    _use_numbered_gpu(script, header)
    _set_option(script, header, parser)
    _drop_data_parallel(script)


def _use_numbered_gpu(script: Script, header: Header) -> None:
    """``gpu_id = 0`` of a script."""
    for node in script.module.kinds.get(ast.Assign, ()):
        name = getattr(node.targets[0], "id", "")
        if _NUMBER.fullmatch(name) and type(constant_value(node.value)) is int:
            script.replace(node.value, header.names.local_rank, "WS905", _REASON)


def _set_option(script: Script, header: Header, parser: Parser) -> None:
    """``--gpu 0`` of a script: its value is the local rank wherever it is read.

    Raises:
        AdoptError: Where its value is kept cannot be told.
    """
    for each in parser.options.declared:
        if not _NUMBER.fullmatch(each.name) or not isinstance(each.flag.default, int | None):
            continue
        if isinstance(each.node, ast.Call) and keyword_argument(each.node, "action") is not None:
            continue  # `--gpu` alone: whether there is one
        value = parser.place.format(each.name)
        if parser.function is not None or parser.name:
            line = f"    {value} = {header.names.local_rank}  # each process uses the GPU of its local rank"
            parser.then += ["if torch.cuda.is_available():", line]
        elif each.flag.type == "int":
            help_ = "keep what is parsed in a variable, `args = parser.parse_args()`"
            message = f"`{each.flag.option}` names a GPU, and every process would take the same"
            raise script.refuse(each.node, message, help_)


def _drop_data_parallel(script: Script) -> None:
    reason = "one process per GPU takes the place of `DataParallel`"
    names: set[str] = set()
    for call in script.module.called("nn.DataParallel", "DataParallel"):
        if not call.args:
            continue
        model = script.written(call.args[0])
        statement = script.statement(call)
        names.add(model)
        if isinstance(statement, ast.Assign) and script.written(statement.targets[0]) == model:
            script.delete(statement, "WS915", reason)
        else:
            if isinstance(statement, ast.Assign):
                names.add(script.written(statement.targets[0]))
            script.replace(call, model, "WS915", reason)
    for node in script.module.kinds.get(ast.Attribute, ()) if names else ():
        if node.attr == "module" and script.written(node.value) in names:
            script.replace(node, script.written(node.value), "WS915", reason)
