"""The configuration file of `accelerate launch` counts on other machines or GPUs than the job has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from worldsize.azureml.command_line import Word
from worldsize.base.problem import Finding, Problem
from worldsize.base.span import Span
from worldsize.base.wording import plural
from worldsize.documents.yaml.nodes import Mapping, Scalar
from worldsize.rules.context import Context
from worldsize.scripts.program import Program

_LOCAL = ("localhost", "127.0.0.1")


def check_program(context: Context, program: Program) -> Iterator[Finding | Problem]:
    yield from _judge_file(context, program)
    config = read_accelerate_config(context, program)
    instances = program.launch.instances.value
    if config is None or instances is None or program.inner is None:
        return
    flags = program.inner.options
    machines, processes = (_number(config, name) for name in ("num_machines", "num_processes"))
    if machines is not None and machines != instances and "num_machines" not in flags:
        message = f"`num_machines` is {machines}, but the job has {plural(instances, 'instance')}"
        yield _report(program, config, "num_machines", message, f"write {instances}")
        return
    devices = program.launch.size.devices if program.launch.size is not None else 0
    if (
        processes is not None
        and devices
        and "num_processes" not in flags
        and processes != instances * devices
    ):
        gpus = f"{plural(instances * devices, 'GPU')} on {plural(instances, 'instance')}"
        message = f"`num_processes` is {processes}, but the job has {gpus}"
        help_ = f"write {instances * devices}, the processes of all machines"
        finding = _report(program, config, "num_processes", message, help_)
        yield finding if processes > instances * devices else finding.under("processes-below-gpus")
    if instances < 2:
        return
    if _number(config, "machine_rank") is not None and "machine_rank" not in flags:
        message = f"`machine_rank` is {_number(config, 'machine_rank')} on each of the {instances} instances"
        yield _report(
            program, config, "machine_rank", message, "add `--machine_rank $NODE_RANK` to the command"
        )
    address = config.get("main_process_ip")
    if address is None and "main_process_ip" not in flags and "rdzv_backend" not in flags:
        span = program.launch.span(program.inner.word)
        message = f"no `main_process_ip`, in the command or its file: {instances} machines never meet"
        if span is not None:
            yield Finding(span, message, "add `--main_process_ip $MASTER_ADDR` to the command")
    if isinstance(address, Scalar) and address.value in _LOCAL and "main_process_ip" not in flags:
        message = (
            f"`main_process_ip` is `{address.value}` on each of the {instances} instances, so they never meet"
        )
        yield _report(
            program, config, "main_process_ip", message, "add `--main_process_ip $MASTER_ADDR` to the command"
        )


def _judge_file(context: Context, program: Program) -> Iterator[Finding]:
    """Report a configuration file that is not in the code."""
    folder, value = program.launch.code_folder, _find_config_word(program)
    if folder is None or value is None or value.bare.startswith("~") or not context.is_folder(folder):
        return
    span = program.launch.span(value)
    if span is not None and not context.exists(Path(folder, value.bare)):
        message = f"there is no `{value.bare}` in the code of the step"
        yield Finding(span, message, "name a file relative to the folder of the code")


def read_accelerate_config(context: Context, program: Program) -> Mapping | None:
    """The configuration file that the command names."""
    folder, value = program.launch.code_folder, _find_config_word(program)
    if folder is None or value is None:
        return None
    path = Path(folder, value.bare)
    if context.text(path) is None or path.suffix not in (".yaml", ".yml"):
        return None
    root = context.document(path).root
    return root if isinstance(root, Mapping) else None


def _find_config_word(program: Program) -> Word | None:
    """The word of the command with the path of the file in the code."""
    inner = program.inner
    if inner is None or inner.name != "accelerate launch":
        return None
    _, value = inner.options.get("config_file", (None, None))
    return None if value is None or "$" in value.bare or value.bare.startswith("/") else value


def _number(config: Mapping, name: str) -> int | None:
    node = config.get(name)
    return node.value if isinstance(node, Scalar) and type(node.value) is int else None


def _report(program: Program, config: Mapping, name: str, message: str, help_: str) -> Finding:
    node = config.get(name)
    span: Span = node.span if node is not None else config.span
    return Finding(span, message, help_, related=program.related)
