"""Lightning counts on other processes or nodes than the job starts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding, Fix, relate
from worldsize.base.wording import plural
from worldsize.rules.context import Context
from worldsize.scripts.edits import add_argument
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, constant_value, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.settings import find_place, read_number

_PACKAGES = ("lightning", "pytorch_lightning", "lightning_fabric")
_KINDS = ("Trainer", "Fabric")


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    expected = _count_expected(program)
    if expected is None or not program.imports(*_PACKAGES):
        return
    for module in program.modules:
        for name, call in module.calls:
            is_trainer = name.rpartition(".")[2] in _KINDS and name.partition(".")[0] in _PACKAGES
            if is_trainer and _reads_ranks(module, call) and read_reached(program).runs(module, call):
                yield from _judge_nodes(program, module, call, expected[1])
                yield from _judge_devices(program, module, call, expected[0])


def _reads_ranks(module: Module, call: ast.Call) -> bool:
    """Whether Lightning reads the ranks of the launcher, and no other plugin of a cluster decides."""
    node = keyword_argument(call, "plugins")
    plugins = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    return node is None or all(
        isinstance(plugin, ast.Call)
        and (module.name_of(plugin.func) or "").rpartition(".")[2]
        in ("LightningEnvironment", "TorchElasticEnvironment")
        for plugin in plugins
    )


def _count_expected(program: Program) -> tuple[int | None, int | None] | None:
    """The processes of an instance and the instances, None where unknown."""
    launch, inner = program.launch, program.inner
    instances = launch.instances.value
    if inner is not None:
        return (
            (inner.starts, instances) if program.kind == "pytorch" and launch.processes.value == 1 else None
        )
    if launch.kind == "pytorch":  # in one process of an instance Lightning starts the others itself
        return launch.processes.value if launch.processes.value != 1 else None, instances
    return (None, instances) if launch.kind is None and instances == 1 else None


def _judge_nodes(
    program: Program, module: Module, call: ast.Call, instances: int | None
) -> Iterator[Finding]:
    node = keyword_argument(call, "num_nodes")
    if instances is None or (node is None and any(one.arg is None for one in call.keywords)):
        return
    count = read_number(program, module, node) if node is not None else 1
    if count is None or count == instances:
        return
    written = f"`num_nodes` is {count}{'' if node is not None else ' by default'}"
    message = f"{written}, but the job has {plural(instances, 'instance')}"
    related = (*relate(program.launch.instances.span, plural(instances, "instance")), *program.related)
    span = find_place(program, module, node) if node is not None else module.span(call.func)
    fix = _write(module, call, node, f"num_nodes={instances}")
    yield Finding(span, message, f"write `num_nodes={instances}`", related=related, fix=fix)


def _write(module: Module, call: ast.Call, node: ast.expr | None, argument: str) -> Fix | None:
    """Edit a number that is written in the call, or add the argument."""
    if node is None:
        return add_argument(module, call, argument) if call.args or call.keywords else None
    number = argument.partition("=")[2]
    is_number = isinstance(node, ast.Constant) and type(node.value) is int
    return Fix(module.full_span(node), number, safe=False) if is_number else None


def _judge_devices(
    program: Program, module: Module, call: ast.Call, processes: int | None
) -> Iterator[Finding]:
    launch = program.launch
    node = keyword_argument(call, "devices") or keyword_argument(call, "gpus")
    count = len(node.elts) if isinstance(node, ast.List) else read_number(program, module, node)
    if isinstance(constant_value(node), str) or node is None or count is None or count < 1:
        return
    if processes is None:
        size = launch.size
        if (
            size is None
            or not 0 < size.devices < count
            or constant_value(keyword_argument(call, "accelerator")) == "cpu"
        ):
            return
        message = f"`devices` is {count}, but `{size.name}` has {plural(size.devices, 'GPU')}"
        related = relate(launch.size_span, "the size")
        help_ = f"write `devices={size.devices}`"
    elif count != processes:
        message = f"`devices` is {count}, but {plural(processes, 'process')} start on each instance"
        related = relate(launch.processes.span or launch.kind_span, plural(processes, "process"))
        help_ = f"write `devices={processes}`"
        if program.inner is None:
            help_ += f", or `process_count_per_instance: {count}`"
    else:
        return
    fix = _write(module, call, node, help_.split("`")[1])
    yield Finding(
        find_place(program, module, node), message, help_, related=(*related, *program.related), fix=fix
    )
