"""The rank in the whole job is used as the number of a GPU, of which each instance has its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.command_launchers import MPI
from worldsize.azureml.launch import read_inner_launchers
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, constant_value
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import is_read_from

_CALLS = ("cuda.set_device", "cuda.device", "torch.device", ".cuda", ".to", "cuda.get_device_name")
_KEYWORDS = ("device_ids", "output_device", "device", "device_id")
_PREFIXES = ("cuda:", "GPU:", "/GPU:", "/gpu:", "/device:GPU:")


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    launch = program.launch
    inner = next(
        (launcher for launcher in read_inner_launchers(context, launch) if launcher.name not in MPI), None
    )
    per_instance = program.per_instance if inner is None else inner.starts or 0
    if (launch.instances.value or 1) < 2 or launch.kind not in ("pytorch", "mpi") or per_instance < 2:
        return
    for flag in program.command.flags():
        value = flag.value
        span = launch.span(value) if value is not None and value.bare in ("$RANK", "${RANK}") else None
        if flag.name == "local_rank" and span is not None:
            message = f"`RANK` counts all processes, but each instance numbers its {per_instance} from 0"
            yield Finding(span, message, "write `$LOCAL_RANK`")
            return
    reached = read_reached(program)
    for module in program.modules:
        for node in module.once(list_devices):
            if is_read_from(reached, module, node, "global_rank") and reached.runs(module, node):
                local = (
                    "OMPI_COMM_WORLD_LOCAL_RANK" if launch.kind == "mpi" and inner is None else "LOCAL_RANK"
                )
                message = (
                    f"`{ast.unparse(node)[:60]}` is the rank in the whole job, but an instance numbers"
                    f" its {per_instance} processes and GPUs from 0"
                )
                help_ = f'write `int(os.environ["{local}"])`'
                yield Finding(module.span(node), message, help_, related=program.related)
                return


def list_devices(module: Module) -> list[ast.expr]:
    """The expressions that choose a GPU by its number."""
    devices = [node for name, call in module.calls for node in _read_call(name, call)]
    devices += [
        node.value
        for node in module.kinds.get(ast.Assign, ())
        if any(getattr(target, "attr", "") == "visible_device_list" for target in node.targets)
    ]
    for text in module.kinds.get(ast.JoinedStr, ()):
        if len(text.values) == 2 and constant_value(text.values[0]) in _PREFIXES:
            devices += [part.value for part in text.values if isinstance(part, ast.FormattedValue)]
    for node in module.kinds.get(ast.BinOp, ()):
        if constant_value(node.left) in ("cuda:", "cuda:%d", "cuda:%s"):
            devices.append(node.right)
    return devices


def _read_call(name: str, call: ast.Call) -> Iterator[ast.expr]:
    """The same for one call."""
    if f".{name}".endswith(_CALLS):
        yield from call.args[:2]
    for one in call.keywords:
        if one.arg in _KEYWORDS:
            yield from one.value.elts if isinstance(one.value, ast.List | ast.Tuple) else [one.value]
    if name.endswith("set_visible_devices"):  # of TensorFlow, `gpus[rank]`
        yield from (inner.slice for inner in ast.walk(call) if isinstance(inner, ast.Subscript))
    formatted = isinstance(call.func, ast.Attribute) and constant_value(call.func.value) == "cuda:{}"
    if name == "?.format" and formatted:
        yield from call.args
