"""Plans the instances and processes of a step. Rules compare pinned counts with the VM size.

Azure ML starts the processes, or a launcher such as ``torchrun`` in the command of one starts the others.
"""

from __future__ import annotations

from typing import Any

from worldsize.azureml import binding, command_launchers, literals
from worldsize.azureml.command_launchers import PER_INSTANCE, InnerLauncher, find_launcher_call
from worldsize.azureml.launch import STARTS_PROCESSES
from worldsize.base.wording import plural, show_number
from worldsize.facts import vm_sizes
from worldsize.facts.vm_sizes import VmSize
from worldsize.planning.model import Interface, Launcher, Notes, Topology
from worldsize.spec.model import ComputeProfile, Located, Step


def plan_topology(
    step: Step, profile: ComputeProfile | None, interface: Interface | None, size: VmSize | None, notes: Notes
) -> Topology | None:
    """Plan the topology of a step; None if it cannot be derived. Problems are added to ``notes``.

    ``size`` is the VM size of the profile, None if it is unknown.
    """
    launcher = launcher_of(step, interface)
    pinned = step.instance_count
    instances = pinned.value if pinned else (interface and interface.instance_count) or 1
    devices = size.devices if size else 0
    inner = _read_inner_launcher(step, size, instances)
    inside = inner if launcher in ("none", "pytorch") else None
    started = pinned_count(step, "process_count_per_instance")
    if launcher in ("none", "tensorflow") and started and started.value != 1:
        _one_process(step, launcher, started, size, notes)
    if size is None and _needs_gpus(step, launcher, inside):
        _underivable(step, profile, notes)
        return None
    if launcher in ("none", "tensorflow") or (inside is not None and started is None):
        processes = 1
    else:
        processes = started.value if started is not None else count_processes(launcher, devices)
    workers, servers = (
        (pinned_count(step, "worker_count"), pinned_count(step, "parameter_server_count"))
        if launcher == "tensorflow"
        else (None, None)
    )
    nodes = workers.value if workers else instances
    # Azure ML has to start one process where a launcher starts the others, which a rule demands.
    local = processes if inside is None else inside.starts or max(devices, 1)
    total = count_ranks(launcher, nodes, processes, devices) if inside is None else nodes * local
    most = profile.max_instances if profile else None
    notes.wrong_counts = (
        nodes > instances
        or 0 < devices < max(processes, local)
        or (inside is not None and processes > 1)
        or (most is not None and instances > most.value)
    )
    topology = Topology(
        launcher=launcher,
        instance_type=profile.instance_type.value if profile and profile.instance_type else None,
        instance_count=instances,
        gpus_per_instance=size.gpus if size else None,
        process_count_per_instance=processes,
        world_size=total,
        worker_count=nodes if launcher == "tensorflow" else None,
        parameter_server_count=servers.value if servers else None,
        local_world_size=local if launcher in STARTS_PROCESSES or inside is not None else None,
        command_launcher=inside.name if inside is not None else None,
    )
    if not topology.is_distributed:
        notes.derive("world_size", 1, "one process", "not distributed")
    else:
        _explain(step, topology, size, inside, notes)
        unit = plural(devices, "GPU") if _one_each(launcher, local, devices) else plural(local, "process")
        node = "instance" if nodes == instances else "worker"
        notes.derive("world_size", total, f"{plural(nodes, node)} × {unit}", "W = n·p")
    _check_launched(step, inner, topology, notes)
    return topology


def launcher_of(step: Step, interface: Interface | None) -> Launcher:
    """What starts a step's processes.

    A component in a workspace cannot be read; then the counts of the step decide.
    """
    if step.distribution is not None:
        return step.distribution.type.value
    if step.command is not None:
        return "none"
    if interface is not None:
        return interface.launcher
    if step.worker_count or step.parameter_server_count:
        return "tensorflow"
    return "pytorch" if step.scale or step.process_count_per_instance else "none"


def _needs_gpus(step: Step, launcher: Launcher, inside: InnerLauncher | None) -> bool:
    """Whether the world size depends on the number of GPUs."""
    if inside is not None:
        return inside.starts is None
    if launcher == "tensorflow":
        return step.scale is not None
    return launcher != "none" and pinned_count(step, "process_count_per_instance") is None


def pinned_count(step: Step, name: str) -> Located[int] | None:
    """A count of processes that the user wrote in the step or in its ``distribution``."""
    outer: Located[int] | None = getattr(step, name)
    inner: Located[int] | None = getattr(step.distribution, name) if step.distribution else None
    return outer or inner


def _one_process(
    step: Step, launcher: Launcher, pinned: Located[int], size: VmSize | None, notes: Notes
) -> None:
    if launcher == "tensorflow":
        gpus = f"all {size.devices} GPUs" if size and size.devices > 1 else "its devices"
        message = (
            f"`process_count_per_instance` is {pinned.value}, but TensorFlow starts 1 process per instance,"
            f" which drives {gpus}"
        )
        notes.report("tensorflow-one-process", pinned.span, message, "remove `process_count_per_instance`")
    else:
        message = f"`process_count_per_instance` is {pinned.value} but step `{step.name}` is not distributed"
        help_ = "add `distribution: {type: pytorch}` to the step or to its component"
        notes.report("processes-without-distribution", pinned.span, message, help_)


def _underivable(step: Step, profile: ComputeProfile | None, notes: Notes) -> None:
    if profile is None:
        return  # the step names no profile, which its own rule reports
    typed = profile.instance_type
    if typed is not None:
        near = vm_sizes.suggest(typed.value)
        hint = f"did you mean `{near}`? else " if near else ""
        pin = f"write `process_count_per_instance:` in step `{step.name}`, one per GPU"
        if _drives_all(step):
            pin = "write a size of the catalogue: TensorFlow drives all GPUs of an instance"
        help_ = hint + pin
        message = f"`{typed.value}` is not in the catalogue of VM sizes, so its GPUs are unknown"
        notes.report("process-count-unknown", typed.span, message, help_)
        return
    message = (
        f"profile `{profile.name}` has no `instance_type`,"
        f" so the processes of step `{step.name}` cannot be counted"
    )
    help_ = "add `instance_type:` to the profile"
    if not _drives_all(step):
        help_ += ", or `process_count_per_instance:` to the step"
    notes.report("process-count-unknown", profile.span, message, help_)


def _drives_all(step: Step) -> bool:
    """Whether one process per instance drives all its GPUs, so that a count of processes does not help."""
    return step.distribution is not None and step.distribution.type.value == "tensorflow"


def _explain(
    step: Step, topology: Topology, size: VmSize | None, inside: InnerLauncher | None, notes: Notes
) -> None:
    """Rows of the table for what one instance is and runs."""
    launcher, processes = topology.launcher, topology.process_count_per_instance
    devices = size.devices if size else 0
    if size is not None and devices:
        card = "" if size.is_learned else f"{show_number(size.gpus)} × {size.gpu_model}"
        source = f"VM size {size.name}" + (f" in {size.source}" if size.is_learned else "")
        notes.derive("gpus_per_instance", devices, card, source)
    if topology.worker_count is not None:
        how, source = "one process an instance", "TensorFlow on Azure ML"
        if topology.worker_count != topology.instance_count:
            how, source = "", _given(step, "worker_count", notes)
        notes.derive("worker_count", topology.worker_count, how, source)
        if servers := topology.parameter_server_count:
            notes.derive("parameter_server_count", servers, "", _given(step, "parameter_server_count", notes))
        return
    name = "process_count_per_instance"
    pinned = pinned_count(step, name) is not None
    one_each = inside is None and _one_each(launcher, processes, devices)
    how = "one a GPU" if one_each else "" if pinned else "one an instance"
    source = _given(step, name, notes) if pinned else f"{launcher} on Azure ML"
    if inside is not None and not pinned:
        source = f"`{inside.name}` starts the others"
    notes.derive(name, processes, how, source)
    if inside is not None:
        started = topology.local_world_size or 1
        how = "one a GPU" if _one_each(launcher, started, devices) else ""
        source = "one a GPU" if inside.starts is None else "given in the command"
        if inside.starts_by_default and inside.starts is not None:
            source = f"default of `{inside.name}`"
        notes.derive("local_world_size", started, how, source)


def _given(step: Step, name: str, notes: Notes) -> str:
    return notes.given(name if getattr(step, name) else f"distribution.{name}")


def _one_each(launcher: Launcher, processes: int, devices: int) -> bool:
    """Whether every GPU has a replica of the model of its own."""
    return devices > 0 and (launcher == "tensorflow" or processes == devices)


def count_processes(launcher: Launcher, devices: int) -> int:
    """Processes that should run on each instance: one per GPU, and one on a CPU size.

    TensorFlow starts one, which drives every GPU of its instance.
    """
    return max(devices, 1) if launcher in STARTS_PROCESSES else 1


def count_ranks(launcher: Launcher, instances: int, processes: int, devices: int) -> int:
    """The replicas of the model whose gradients are averaged: ``W``.

    For pytorch and mpi ``n·p``; for TensorFlow's MultiWorkerMirroredStrategy one replica a GPU, ``n·g``; one
    where nothing is distributed, whatever the number of instances.
    """
    if launcher == "none":
        return 1
    return instances * (max(devices, 1) if launcher == "tensorflow" else processes)


def _read_inner_launcher(step: Step, size: VmSize | None, instances: int) -> InnerLauncher | None:
    """The launcher of a step's own command, or Ray in its script; None where that is unclear."""
    call = find_launcher_call(step.command.value) if step.command is not None else None
    return call and command_launchers.count_processes(
        call,
        lambda text: literals.parse_number(_read_word(step, text)),
        devices=size.devices if size is not None else None,
        instances=instances,
    )


def _check_launched(step: Step, inner: InnerLauncher | None, topology: Topology, notes: Notes) -> None:
    """Report options of the launcher that take a quantity of the plan which is another number here."""
    if inner is None or step.command is None or topology.local_world_size is None:
        return
    here = {
        "instance_count": topology.instance_count,
        "local_world_size": topology.local_world_size,
        "world_size": topology.world_size,
        "process_count_per_instance": topology.process_count_per_instance,
        "gpus_per_instance": topology.gpus_per_instance,
        "data_parallel_size": topology.data_parallel_size,
    }
    in_all = ("num_processes",) if inner.name == "accelerate launch" else ()
    for names, right, where in (
        (PER_INSTANCE, "local_world_size", "each instance"),
        (in_all, "world_size", "all instances"),
    ):
        for name in names:
            value = inner.options.get(name, (None, None))[1]
            quantity = _plan_quantity(step, value.bare) if value is not None else None
            planned = here.get(quantity or "")
            if value is None or planned is None or planned == here[right]:
                continue
            if right == "local_world_size" and planned > (topology.gpus_per_instance or planned):
                continue  # more than there are GPUs, which a rule reports
            number, started = literals.render_literal(int(planned)), plural(here[right] or 1, "process")
            message = f"`--{name}` is `{quantity}` of the plan, {number}, but {started} start on {where}"
            span = step.command.subspan(value.start, value.end)
            notes.report("launcher-processes-disagree", span, message, f"write `${{{{plan.{right}}}}}`")


def _read_word(step: Step, text: str) -> Any:
    """A word of the command, or the value of the step's input that it names."""
    expression = binding.parse_expression(text)
    if expression is None or expression.scope != "inputs":
        return text
    setting = step.with_.get(expression.port or "")
    return setting.value if setting is not None else None


def _plan_quantity(step: Step, text: str) -> str | None:
    """The quantity of the plan that a word is, also through an input of the step."""
    expression = binding.parse_expression(_read_word(step, text))
    return expression.port if expression is not None and expression.scope == "plan" else None
