"""The processes of an instance beside its GPUs: more, which cannot work, or fewer, which wastes some."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from worldsize.azureml import binding, command_launchers
from worldsize.azureml.command_launchers import InnerLauncher
from worldsize.azureml.fields import read_command
from worldsize.azureml.launch import STARTS_PROCESSES, Launch, find_inner_launchers
from worldsize.azureml.tree import Tree
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Finding, Fix, Related, relate
from worldsize.base.span import Span
from worldsize.base.wording import plural
from worldsize.rules.topology import _devices

_NAMES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_NUMBERS = re.compile(r"(?:-?\d+(?:,-?\d+)*)?")


def check_processes_exceed_gpus(context: Tree, launch: Launch) -> Iterator[Finding]:
    yield from _check_launchers(launch)
    processes, size = launch.processes, launch.size
    visible = find_visible_devices(launch)
    if launch.kind in STARTS_PROCESSES and visible is not None and processes.value is not None:
        exceeds = visible.count < processes.value <= (size.devices if size is not None else processes.value)
        if exceeds and processes.value > 1:
            yield _report_hidden(visible, processes.value, processes.span)
    if launch.kind not in STARTS_PROCESSES or size is None or not size.devices:
        return
    if processes.value is None or processes.span is None or processes.value <= size.devices:
        return
    gpus = plural(size.devices, "GPU")
    message = f"`process_count_per_instance` is {processes.value} but `{size.name}` has {gpus}"
    related = relate(launch.size_span, f"{gpus} per instance")
    # The number of instances that would have as many GPUs, if the job does not set one.
    may_grow = launch.instances.field is None and processes.value % size.devices == 0
    nodes = processes.value // size.devices if may_grow else None
    keeps_world = launch.instances.value and processes.value == launch.instances.value * size.devices
    fix = None if nodes else Fix(processes.span, str(size.devices), safe=bool(keeps_world))
    help_ = _help(launch, processes.value, size.devices, nodes)
    yield Finding(
        processes.span, message + _world(launch, processes.value, size.devices), help_, related, fix
    )


def _report_hidden(visible: Visible, starts: int, span: Span | None) -> Finding:
    message = f"`{visible.name}` shows {plural(visible.count, 'GPU')} to {starts} processes of an instance"
    related = relate(span, plural(starts, "process"))
    return Finding(visible.span, message, "leave it out: each process takes its own GPU", related=related)


def _check_launchers(launch: Launch) -> Iterator[Finding]:
    """A launcher that starts too many processes; another rule reports one inside several processes."""
    size, outer = launch.size, launch.processes.value if launch.kind in STARTS_PROCESSES else 1
    if size is None or not size.devices or outer != 1:
        return
    for inner in find_inner_launchers(launch):
        span = launch.span(inner.starts_word)
        if inner.name in command_launchers.MPI or inner.starts is None or span is None:
            continue
        visible = find_visible_devices(launch)
        if visible is not None and visible.count < inner.starts <= size.devices:
            yield _report_hidden(visible, inner.starts, span)
            continue
        highest = inner.highest or 0
        if inner.starts <= size.devices > highest:
            continue
        if inner.starts <= size.devices:
            numbers = f"0 to {size.devices - 1}" if size.devices > 1 else "0"
            message = f"`--include` names GPU {highest}, but `{size.name}` has only {numbers}"
            yield Finding(span, message, f"name GPUs {numbers}")
            continue
        gpus = plural(size.devices, "GPU")
        message = f"`{inner.name}` starts {inner.starts} processes per instance but `{size.name}` has {gpus}"
        related = relate(launch.size_span, f"{gpus} per instance")
        yield Finding(span, message, f"start {size.devices}, one process per GPU", related=related)


def _world(launch: Launch, count: int, devices: int) -> str:
    """Explain the classic mistake: the world size in place of the processes of an instance."""
    instances = launch.instances.value
    if instances is None or instances == 1 or count != instances * devices:
        return ""
    return f": {count} is the world size of all {instances} instances"


def _help(launch: Launch, count: int, devices: int, nodes: int | None) -> str:
    instances = launch.instances.value
    if nodes:
        return f"write {devices}, and {launch.job.keys.instances.format(nodes)} for {count} processes"
    if count % 8 == 0 and devices < 8 and instances == 1:
        return f"write {devices}, or choose a size with 8 GPUs"
    total = f": {instances} × {devices} processes" if instances else ""
    return f"write {devices}, one process per GPU{total}"


def check_device_not_there(context: Tree, launch: Launch) -> Iterator[Finding]:
    visible, size = find_visible_devices(launch), launch.size
    starts = (launch.processes.value or 1) if launch.kind in STARTS_PROCESSES else 1
    if visible is None or size is None or not size.devices or visible.count < starts > 1:
        return
    absent = [number for number in visible.numbers if number >= size.devices]
    numbers = f"0 to {size.devices - 1}" if size.devices > 1 else "0"
    related = relate(launch.size_span, plural(size.devices, "GPU") + " per instance")
    if absent:
        message = f"`{visible.name}` names GPU {absent[0]}, but `{size.name}` has only {numbers}"
        yield Finding(visible.span, message, f"name {numbers}, or leave it out", related)
    elif not visible.count:
        message = f"`{visible.name}` hides {'all ' if size.devices > 1 else ''}{plural(size.devices, 'GPU')}"
        yield Finding(
            visible.span, f"{message} of `{size.name}`", "leave it out, or use a size without GPUs", related
        )


class Visible(Struct):
    """The GPUs that the processes can see, and where that is written."""

    name: str  # of the variable
    numbers: list[int]
    span: Span

    @property
    def count(self) -> int:
        """How many there are: a negative number hides itself and those after it."""
        shown = enumerate(self.numbers)
        return next((position for position, number in shown if number < 0), len(self.numbers))


def find_visible_devices(launch: Launch) -> Visible | None:
    """Read the variable; None if it is not set, set more than once, or not a list of numbers."""
    settings = [setting for setting in launch.list_variables() if setting.name in _NAMES]
    if len(settings) != 1 or (span := settings[0].span) is None:
        return None
    text, command = settings[0].value.replace(" ", ""), settings[0].command
    is_for_all = command is None or command.words[0].text == "export" or len(launch.commands) == 1
    if _NUMBERS.fullmatch(text) is None or not is_for_all:
        return None
    return Visible(settings[0].name, [int(number) for number in text.split(",") if number], span)


_LAUNCHERS = compile_later(
    r"torchrun|torch\.distributed\.(?:run|launch)|accelerate|deepspeed|mpirun|horovodrun", re.IGNORECASE
)
# What drives several GPUs from one process, or starts processes itself.
_DRIVES_MORE = compile_later(
    r"accelerate|deepspeed|lightning|DataParallel|mp\.spawn|multiprocessing|subprocess|os\.system|device_map|"
    r"\bray\b|dask|vllm|(?<!OneDevice)(?-i:Strategy)|tensor_parallel|pipeline_parallel|(?:n|num|multi)_?gpus?\b|device_?count|devices\s*=|"
    r"VISIBLE_DEVICES|cuda:[1-9]|LOCAL_RANK|\bjax\b|joblib|rapids|dlpack|transformers|Trainer",
    re.IGNORECASE,
)
_TRAINS = compile_later(r"\.backward\(|\.fit\(|GradientTape|train_on_batch")
_USES_GPU = compile_later(r"[\"']cuda(?::0)?[\"']|\.cuda\(|tensorflow|keras")


def check_processes_below_gpus(context: Tree, launch: Launch) -> Iterator[Finding]:
    size = launch.size
    if size is None or size.devices < 2 or launch.kind not in (*STARTS_PROCESSES, None):
        return
    inner = next(find_inner_launchers(launch), None)
    finding = _by_variable(launch, inner)
    if finding is None and inner is not None:
        finding = _with_launcher(launch, inner)
    elif finding is None:
        finding = _by_trainer(context, launch) or _without(context, launch)
    if finding is not None:
        yield finding


def _by_variable(launch: Launch, inner: InnerLauncher | None) -> Finding | None:
    """`CUDA_VISIBLE_DEVICES` that hides GPUs; more processes than it shows are an error of their own."""
    visible, starts = find_visible_devices(launch), launch.processes.value if launch.kind else 1
    starts = inner.starts if inner is not None else starts
    if visible is None or launch.size is None or starts is None or starts > visible.count:
        return None
    if visible.count >= launch.size.devices:
        return None
    what = f"`CUDA_VISIBLE_DEVICES` shows {visible.count}"
    return _finding(launch, visible.span, what, visible.count, "leave it out, or choose a smaller size")


def _by_trainer(context: Tree, launch: Launch) -> Finding | None:
    """Lightning's `Trainer(devices=1)` in the only process of an instance."""
    if launch.size is None or (launch.processes.value if launch.kind else 1) != 1:
        return None
    for count, span in _devices.find_trainer_devices(context, launch):
        if count < launch.size.devices:
            help_ = f"write `devices={launch.size.devices}`, or choose a smaller size"
            return _finding(launch, span, f"`Trainer` uses {plural(count, 'device')}", count, help_)
    return None


def _without(context: Tree, launch: Launch) -> Finding | None:
    """A command that does not start processes itself."""
    processes = launch.processes
    count = 1 if launch.kind is None else processes.value
    if launch.size is None or count is None or count >= launch.size.devices:
        return None
    if processes.span is not None and launch.kind is not None:
        if count == 1 and not (_plain(context, launch) or _devices.drives_one_device(context, launch)):
            return None
        what = f"`process_count_per_instance` is {count}"
        return _finding(
            launch, processes.span, what, count, f"write {launch.size.devices}, one process per GPU"
        )
    joins = launch.kind is not None and _devices.drives_one_device(context, launch)
    if not joins and not _trains_on_one(context, launch):
        return None
    advice = f"`distribution: {{type: pytorch, process_count_per_instance: {launch.size.devices}}}`"
    if launch.kind is not None:
        what = "`process_count_per_instance` is 1 by default"
        help_ = f"write `process_count_per_instance: {launch.size.devices}`, one process per GPU"
        return _finding(launch, launch.kind_span, what, 1, help_)
    what = "the command is one process, which trains on one GPU,"
    help_ = f"choose a size with one GPU, or distribute the training: {advice}"
    return _finding(launch, launch.chosen_size_span, what, 1, help_)


def _with_launcher(launch: Launch, inner: InnerLauncher) -> Finding | None:
    """A launcher that starts fewer processes than there are GPUs."""
    outer = launch.processes.value if launch.kind in STARTS_PROCESSES else 1
    starts, size = inner.starts, launch.size
    if size is None or starts is None or outer != 1 or inner.name in command_launchers.MPI:
        return None
    if starts >= size.devices:
        return None
    if "VISIBLE_DEVICES" in read_command(launch.step.component) or (starts == 1 and not inner.options):
        return None
    if _is_planned(launch, inner):
        return None  # a quantity of the plan, which planning compares
    what = f"`{inner.name}` starts {plural(starts, 'process')} on an instance"
    by_option = f"write `--nproc_per_node {size.devices}`"
    help_ = by_option if inner.name in command_launchers.TORCH else "start one process per GPU"
    return _finding(launch, launch.span(inner.starts_word), what, starts, help_)


def _is_planned(launch: Launch, inner: InnerLauncher) -> bool:
    """Whether the number of processes is an input that the plan filled in."""
    expression = binding.parse_expression(inner.starts_word.bare)
    field = launch.step.inputs.get(expression.port or "") if expression is not None else None
    return field is not None and field.span is None


def _finding(launch: Launch, span: Span | None, what: str, count: int, help_: str) -> Finding | None:
    if span is None or launch.size is None:
        return None
    devices = launch.size.devices
    gpus, nodes = plural(devices, "GPU"), launch.instances.value or 1
    idle, total = nodes * (devices - count), nodes * devices
    message = f"{what} but `{launch.size.name}` has {gpus}: {idle} of {total} GPUs idle"
    near = launch.size_span is not None and launch.size_span != span
    related = (Related(launch.size_span, f"{gpus} per instance"),) if near and launch.size_span else ()
    return Finding(span, message, help_, related=related)


def _plain(context: Tree, launch: Launch) -> bool:
    """Whether one process uses only one GPU: a built-in trainer, or a script without a sign of more."""
    component = launch.step.component
    if context.is_built_in(component):
        return True
    if _LAUNCHERS.search(read_command(component)):
        return False
    texts = [source.text for source in launch.scripts(context)]
    return bool(texts) and not any(_DRIVES_MORE.search(text) or _LAUNCHERS.search(text) for text in texts)


def _trains_on_one(context: Tree, launch: Launch) -> bool:
    """Whether a script of the user trains, certainly on one GPU."""
    component = launch.step.component
    if component is None or context.is_built_in(component):
        return False
    from worldsize.scripts.program import list_started  # parses Python

    programs = list_started(context, launch)
    texts = [module.text for program in programs for module in program.modules]
    if not all(program.complete for program in programs) or _DRIVES_MORE.search(read_command(component)):
        return False
    if any(_DRIVES_MORE.search(text) or _LAUNCHERS.search(text) for text in texts):
        return False
    return any(map(_TRAINS.search, texts)) and any(map(_USES_GPU.search, texts))
