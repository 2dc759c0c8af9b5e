"""The rank in the whole job is used as the number of a GPU, of which each instance has its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.script._interfaces import read_reached
from worldsize.rules.script._module import Module, constant_value, variable_read
from worldsize.rules.script._program import Program
from worldsize.rules.script._reached import Reached, find_scope
from worldsize.rules.topology._launchers import MPI, read_inner_launchers

_CALLS = ("cuda.set_device", "cuda.device", "torch.device", ".cuda", ".to", "cuda.get_device_name")
_KEYWORDS = ("device_ids", "output_device", "device", "device_id")
_RANK_CALLS = frozenset(
    {
        "torch.distributed.get_rank",
        "dist.get_rank",
        "hvd.rank",
        "horovod.torch.rank",
        "horovod.tensorflow.rank",
    }
    | {"horovod.keras.rank", "horovod.tensorflow.keras.rank"}
)
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    launch = program.launch
    inner = next((each for each in read_inner_launchers(context, launch) if each.name not in MPI), None)
    per_instance = program.per_instance if inner is None else inner.starts or 0
    if (launch.instances.value or 1) < 2 or launch.kind not in ("pytorch", "mpi") or per_instance < 2:
        return
    reached = read_reached(program)
    for module in program.modules:
        for node in module.once(_list_devices):
            if _is_global_rank(reached, module, node) and reached.runs(module, node):
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


def _list_devices(module: Module) -> list[ast.expr]:
    """The expressions that choose a GPU by its number."""
    devices: list[ast.expr] = []
    for name, call in module.calls:
        if f".{name}".endswith(_CALLS):
            devices += call.args[:2]
        for one in call.keywords:
            if one.arg in _KEYWORDS:
                devices += one.value.elts if isinstance(one.value, ast.List | ast.Tuple) else [one.value]
        if (
            name == "?.format"
            and isinstance(call.func, ast.Attribute)
            and constant_value(call.func.value) == "cuda:{}"
        ):
            devices += call.args
    for text in module.kinds.get(ast.JoinedStr, ()):
        if len(text.values) == 2 and constant_value(text.values[0]) == "cuda:":
            devices += [part.value for part in text.values if isinstance(part, ast.FormattedValue)]
    for node in module.kinds.get(ast.BinOp, ()):
        if constant_value(node.left) in ("cuda:", "cuda:%d", "cuda:%s"):
            devices.append(node.right)
    return devices


def _is_global_rank(reached: Reached, module: Module, node: ast.AST, depth: int = 5) -> bool:
    """Whether an expression is surely the rank in the whole job."""
    if isinstance(node, ast.Name | ast.Attribute):
        place = find_scope(module, node), node.id if isinstance(node, ast.Name) else f".{node.attr}"
        known: dict[object, bool] = module.memo.setdefault(_is_global_rank, {})
        if place not in known:
            known[place] = False  # where it is set to itself
            values = _find_values(reached, module, node)
            known[place] = bool(values and depth) and all(
                _is_global_rank(reached, *each, depth - 1) for each in values
            )
        return known[place]
    if isinstance(node, ast.Call):
        name = module.name_of(node.func)
        if name in ("int", "str") and len(node.args) == 1 and depth:
            return _is_global_rank(reached, module, node.args[0], depth - 1)
        return name in _RANK_CALLS or variable_read(node) in _RANKS
    return variable_read(node) in _RANKS


def _find_values(
    reached: Reached, module: Module, name: ast.Name | ast.Attribute
) -> list[tuple[Module, ast.AST]]:
    """What a name is set to: by assignments, or by the calls of the function that has it as a parameter."""
    if isinstance(name, ast.Attribute):
        return [(module, each) for each in module.once(_list_values).get(name.attr, [])]
    scope = find_scope(module, name)
    arguments = getattr(scope, "args", None)
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)] if arguments is not None else []
    if name.id not in names:
        return [(module, value) for value in module.once(_list_values).get(name.id, [])]
    position = names.index(name.id)
    values: list[tuple[Module, ast.AST]] = []
    for other in reached.modules:
        for _, call in other.callers.get(getattr(scope, "name", ""), ())[:20]:
            keyword = [one.value for one in call.keywords if one.arg == name.id]
            given = call.args[position : position + 1] or keyword
            if len(given) != 1:
                return []
            values.append((other, given[0]))
    mentioned = sum(
        each.id == getattr(scope, "name", "")
        for other in reached.modules
        for each in other.kinds.get(ast.Name, ())
    )
    return values if mentioned == len(values) else []  # else something else calls it, such as `mp.spawn`


def _list_values(module: Module) -> dict[str, list[ast.AST]]:
    """What each variable and attribute is set to; a value that is not known stands as the tree."""
    values: dict[str, list[ast.AST]] = {}
    for node in (*module.kinds.get(ast.Name, ()), *module.kinds.get(ast.Attribute, ())):
        if isinstance(node.ctx, ast.Load):
            continue
        above = module.parents.get(node)
        simple = isinstance(above, ast.Assign) or (
            isinstance(above, ast.AnnAssign) and above.value is not None
        )
        value = (
            above.value
            if isinstance(above, ast.Assign | ast.AnnAssign) and simple and above.value
            else module.tree
        )
        values.setdefault(node.id if isinstance(node, ast.Name) else node.attr, []).append(value)
    for arg in module.kinds.get(ast.arg, ()):
        if arg.arg in values:
            values[arg.arg].append(module.tree)
    return values
