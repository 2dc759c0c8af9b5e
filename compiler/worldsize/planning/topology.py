"""Plans instances and processes of a step; verifies pinned counts against the VM size."""

from __future__ import annotations

from datetime import date

from worldsize.base.problem import Fix, Related
from worldsize.base.wording import plural, show_number
from worldsize.facts import frameworks, vm_sizes
from worldsize.facts.vm_sizes import VmSize
from worldsize.planning.model import Interface, Launcher, Notes, Topology
from worldsize.spec.model import ComputeProfile, Located, Step


def plan_topology(
    step: Step, profile: ComputeProfile | None, interface: Interface | None, notes: Notes, today: date
) -> Topology | None:
    """Plan the topology of a step; None if it cannot be derived. Problems are added to ``notes``."""
    launcher = launcher_of(step, interface)
    size = _size(profile, notes, today, needed=_needs_gpus(step, launcher))
    instances = _instances(step, profile, interface, notes)
    devices = size.devices if size else 0
    processes = _processes(step, launcher, profile, size, notes)
    if processes is None:
        return None
    total = count_ranks(launcher, instances, processes, devices)
    workers = _workers(step, instances, notes) if launcher == "tensorflow" else None
    given = read_server_count(step) if launcher == "tensorflow" else None
    _explain(step, notes, launcher, size, instances=instances, processes=processes)
    if launcher != "none":
        unit = (
            plural(devices, "GPU")
            if _one_each(launcher, processes, devices)
            else plural(processes, "process")
        )
        notes.derive("world_size", total, f"{plural(instances, 'instance')} × {unit}", "W = n·p")
    return Topology(
        launcher=launcher,
        instance_type=profile.instance_type.value if profile and profile.instance_type else None,
        instance_count=instances,
        gpus_per_instance=size.gpus if size else None,
        process_count_per_instance=processes,
        world_size=total,
        worker_count=workers,
        parameter_server_count=given.value if given else None,
    )


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


def _needs_gpus(step: Step, launcher: Launcher) -> bool:
    """Whether the world size depends on the number of GPUs."""
    if launcher == "tensorflow":
        return step.scale is not None
    return launcher != "none" and _pin(step, "process") is None


_PINS = {
    "process": "process_count_per_instance",
    "worker": "worker_count",
    "server": "parameter_server_count",
}


def _pin(step: Step, which: str) -> Located[int] | None:
    name = _PINS[which]
    outer: Located[int] | None = getattr(step, name)
    inner: Located[int] | None = getattr(step.distribution, name) if step.distribution else None
    return outer or inner


def read_server_count(step: Step) -> Located[int] | None:
    """TensorFlow's parameter servers, as the step or its distribution counts them."""
    return _pin(step, "server")


def _size(profile: ComputeProfile | None, notes: Notes, today: date, *, needed: bool) -> VmSize | None:
    """The VM size of a profile; reports unknown and retired sizes."""
    if profile is None or profile.instance_type is None:
        return None
    typed = profile.instance_type
    size = vm_sizes.lookup(typed.value)
    if size is None:
        if not needed:
            near = vm_sizes.suggest(typed.value)
            help_ = f"did you mean `{near}`?" if near else "check the name with `az ml compute list-sizes`"
            notes.report("vm-size-unknown", typed.span, _unknown(typed.value), help_)
        return None
    status, day = size.status_on(today), size.retirement_date
    if status == "retired":
        when = f"Azure retired it on {day}" if day else "it no longer deploys"
        message = f"no instance of `{typed.value}` can be had: {when}"
        notes.report("vm-size-retired", typed.span, message, "choose a current size with as many GPUs")
    elif status == "retiring":
        message = f"`{typed.value}` will be retired by Azure on {day}"
        notes.report("vm-size-retiring", typed.span, message, "move to a current size before that day")
    return size


def _unknown(name: str) -> str:
    return f"`{name}` is not in the catalogue of VM sizes, so its GPUs are unknown"


def _instances(step: Step, profile: ComputeProfile | None, interface: Interface | None, notes: Notes) -> int:
    pinned = step.instance_count
    count = pinned.value if pinned else (interface and interface.instance_count) or 1
    most = profile.max_instances if profile else None
    if pinned and profile and most and count > most.value:
        message = f"`instance_count` is {count} but profile `{profile.name}` has `max_instances` {most.value}"
        help_ = f"write at most {most.value}, or raise `max_instances` to {count}"
        label = Related(most.span, "the most instances of the cluster")
        notes.report("instance-count-exceeds-max", pinned.span, message, help_, label)
    return count


def _processes(
    step: Step, launcher: Launcher, profile: ComputeProfile | None, size: VmSize | None, notes: Notes
) -> int | None:
    """Processes on each instance: derived, or pinned and verified."""
    pinned = _pin(step, "process")
    if launcher in ("none", "tensorflow"):
        if pinned and pinned.value != 1:
            _one_process(step, launcher, pinned, size, notes)
        if size is None and _needs_gpus(step, launcher):
            _underivable(step, profile, notes)
            return None
        return 1
    if pinned is None:
        if size is None:
            _underivable(step, profile, notes)
            return None
        return count_processes(launcher, size.devices)
    if size is not None and size.devices:
        _against_gpus(pinned, size, notes, profile)
    return pinned.value


def _one_process(
    step: Step, launcher: Launcher, pinned: Located[int], size: VmSize | None, notes: Notes
) -> None:
    if launcher == "tensorflow":
        gpus = f"all {size.devices} GPUs" if size and size.devices > 1 else "its devices"
        message = (
            f"`process_count_per_instance` is {pinned.value}, but TensorFlow starts 1 process per instance,"
            f" which drives {gpus}"
        )
        notes.report("tensorflow-one-process", pinned.span, message, "remove it")
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
        pin = f"write `process_count_per_instance:` in step `{step.name}`, one a GPU"
        if _drives_all(step):
            pin = "write a size of the catalogue: TensorFlow drives all GPUs of an instance"
        help_ = hint + pin
        notes.report("process-count-unknown", typed.span, _unknown(typed.value), help_)
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


def _against_gpus(pinned: Located[int], size: VmSize, notes: Notes, profile: ComputeProfile | None) -> None:
    wanted, devices = pinned.value, size.devices
    related: tuple[Related, ...] = ()
    if profile and profile.instance_type:
        related = (Related(profile.instance_type.span, f"{plural(devices, 'GPU')} an instance"),)
    message = f"`process_count_per_instance` is {wanted} but `{size.name}` has {plural(devices, 'GPU')}"
    if wanted > devices:
        help_ = f"write {devices}, or remove it: one process a GPU is derived"
        fix = Fix(pinned.span, str(devices))
        notes.report("processes-exceed-gpus", pinned.span, message, help_, *related, fix=fix)
    elif wanted < devices:
        help_ = f"write {devices}, or remove it; {plural(devices - wanted, 'GPU')} an instance would idle"
        notes.report("processes-below-gpus", pinned.span, message, help_, *related)


def _workers(step: Step, instances: int, notes: Notes) -> int:
    pinned_count = _pin(step, "worker")
    if pinned_count is not None and pinned_count.value != instances:
        message = f"`worker_count` is {pinned_count.value} but `instance_count` is {instances}"
        related: tuple[Related, ...] = ()
        if step.instance_count:
            related = (Related(step.instance_count.span, "one worker an instance"),)
        help_ = f"write {instances}, or remove it: it is derived"
        notes.report("worker-count-disagrees", pinned_count.span, message, help_, *related)
    return instances


def _explain(
    step: Step, notes: Notes, launcher: Launcher, size: VmSize | None, *, instances: int, processes: int
) -> None:
    """Rows of the table for what one instance is and runs."""
    if launcher == "none":
        notes.derive("world_size", 1, "one process", "not distributed")
        return
    devices = size.devices if size else 0
    if size is not None and devices:
        card = f"{show_number(size.gpus)} × {size.gpu_model}"
        notes.derive("gpus_per_instance", devices, card, f"VM size {size.name}")
    if launcher == "tensorflow":
        notes.derive("worker_count", instances, "one process an instance", "TensorFlow on Azure ML")
        given = read_server_count(step)
        if given is not None and given.value:
            notes.derive("parameter_server_count", given.value, "", _given_servers(step, notes))
        return
    pinned = _pin(step, "process")
    place = "distribution.process_count_per_instance"
    if step.process_count_per_instance:
        place = "process_count_per_instance"
    how = "one a GPU" if _one_each(launcher, processes, devices) else "" if pinned else "one an instance"
    source = notes.given(place) if pinned else f"{launcher} on Azure ML"
    notes.derive("process_count_per_instance", processes, how, source)


def _given_servers(step: Step, notes: Notes) -> str:
    place = "" if step.parameter_server_count else "distribution."
    return notes.given(f"{place}parameter_server_count")


def _one_each(launcher: Launcher, processes: int, devices: int) -> bool:
    """Whether every GPU has a replica of the model of its own."""
    return devices > 0 and (launcher == "tensorflow" or processes == devices)


def count_processes(launcher: Launcher, devices: int) -> int:
    """Processes that should run on each instance.

    Args:
        launcher: what starts them. TensorFlow starts one, which drives every GPU of its instance.
        devices: GPUs that a process sees on the instance; 0 on a CPU size, which gets one process.
    """
    framework = frameworks.lookup(launcher)
    return max(devices, 1) if framework is not None and framework.process_per_gpu else 1


def count_ranks(launcher: Launcher, instances: int, processes: int, devices: int) -> int:
    """The replicas of the model whose gradients are averaged: ``W``.

    For pytorch and mpi ``n·p``; for TensorFlow's MultiWorkerMirroredStrategy one replica a GPU, ``n·g``; one
    where nothing is distributed, whatever the number of instances.
    """
    if launcher == "none":
        return 1
    return instances * (max(devices, 1) if launcher == "tensorflow" else processes)
