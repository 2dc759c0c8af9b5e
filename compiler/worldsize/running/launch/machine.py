"""What this machine offers: GPUs by nvidia-smi, else cores; and installed packages and programs.

A training component stops if its planned GPUs are missing. Only a run on a machine without GPUs may do
without them, and reports it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml import fields
from worldsize.azureml.model import Job
from worldsize.azureml.snapshot import Snapshot
from worldsize.azureml.tree import Tree
from worldsize.base import resources
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.facts import vm_sizes
from worldsize.planning.model import Plan
from worldsize.running.launch.launchers import PROGRAM
from worldsize.running.model.emulation import Network
from worldsize.running.model.results import join_some
from worldsize.running.model.task import Task, Text
from worldsize.scripts.program import find_programs
from worldsize.scripts.settings import find_nccl_calls

GPUS, SIZE, PRECISION = "planned_gpus_per_instance", "planned_instance_type", "precision"


class Machine(Struct, frozen=True):
    """Slots for processes: one per GPU if there are any, else one per core."""

    cores: int
    gpus: tuple[str, ...] = ()  # as CUDA_VISIBLE_DEVICES names them

    @property
    def slots(self) -> int:
        """How many training processes run at full speed side by side."""
        return len(self.gpus) or self.cores

    @property
    def unit(self) -> str:
        """The unit of a slot, in the singular."""
        return "GPU" if self.gpus else "core"


def detect_machine() -> Machine:
    """Detect cores and GPUs, respecting CUDA_VISIBLE_DEVICES and the CPU affinity."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return Machine(len(affinity(0)) if affinity is not None else os.cpu_count() or 1, _list_gpus())


def _list_gpus() -> tuple[str, ...]:
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        names = [name.strip() for name in chosen.split(",")]
        return tuple(name for name in names if name and name != "-1")
    return tuple(word for word in _ask_driver("index") if word.isdigit())


def detect_gpu_products() -> tuple[str, ...]:
    """What the driver calls each GPU of this machine; empty if there is none."""
    return tuple(name.strip() for name in _ask_driver("name") if name.strip())


def _ask_driver(field: str) -> list[str]:
    """One line for each GPU; none without an answer of the driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        words = [program, f"--query-gpu={field}", "--format=csv,noheader"]
        listing = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in listing.stdout.splitlines()]


def read_vm_sizes(tasks: Mapping[str, Task], plan: Plan | None) -> dict[str, str]:
    """The VM size of each step, by its plan or its ``resources.instance_type``."""
    vm_sizes = {}
    for name, task in tasks.items():
        resources = task.step.resources if task.step is not None else None
        instance_type = fields.read_member(resources or task.component.resources, "instance_type")
        if instance_type is not None and isinstance(instance_type.value, str):
            vm_sizes[name] = instance_type.value
    for name, step in plan.steps.items() if plan is not None else ():
        if step.topology.instance_type is not None:
            vm_sizes[name] = step.topology.instance_type
    return vm_sizes


def read_networks(sizes: Mapping[str, str]) -> dict[str, Network]:
    """The network of each step whose VM size, given by step, has one in the catalogue."""
    networks = {}
    for name, size in ((name, vm_sizes.lookup(size)) for name, size in sizes.items()):
        if size is not None and size.rdma and size.ib_gbps_per_node is not None:
            networks[name] = Network(f"InfiniBand of `{size.name}`", size.ib_gbps_per_node)
        elif size is not None and size.ethernet_gbps is not None:
            networks[name] = Network(f"Ethernet of `{size.name}`", size.ethernet_gbps)
    return networks


def fit_devices(
    tasks: Mapping[str, Task],
    sizes: Mapping[str, str],
    machine: Machine,
    learned: vm_sizes.Learned = vm_sizes.NOT_LEARNED,
) -> tuple[dict[str, Task], list[str]]:
    """Fit the planned GPUs of tasks to this machine; the tasks, and one notice a step.

    ``sizes`` are the VM sizes by step, and ``learned`` those that the project describes.
    """
    fitted, notices = {}, []
    for name, task in tasks.items():
        fitted[name] = task
        size = sizes.get(name) or task.read_text(SIZE)
        input_gpus = task.read_number(GPUS) or 0
        if input_gpus > 0:
            visible_gpus = min(input_gpus, _count_gpus_of_instance(task), len(machine.gpus))
            fitted[name] = replace(task, inputs={**task.inputs, GPUS: Text(visible_gpus)})
        vm_size = vm_sizes.lookup(size, learned) if size else None
        planned = input_gpus or (vm_size.gpus if vm_size is not None else 0)
        if planned and not machine.gpus:
            notices.append(_describe_devices(task, planned, size))
    return fitted, notices


def warn_of_nccl(job: Job, roots: Sequence[Path], machine: Machine) -> list[str]:
    """Name the scripts of a job that will fail here, because NCCL moves data between GPUs only.

    Only scripts below ``roots`` are read.
    """
    if machine.gpus:
        return []
    tree = Tree(roots[0], tuple(roots[1:]))
    notices = []
    for program in find_programs(tree, job):
        for module, call in find_nccl_calls(program):
            where = f"{Path(module.source.path).name}:{call.lineno}"
            notices.append(
                f"{program.launch.step.name}: `{where}` asks for NCCL, which needs GPUs,"
                " and this machine has none; use `gloo` where `torch.cuda.is_available()` is false"
            )
    return notices


def _count_gpus_of_instance(task: Task) -> int:
    """The GPUs of an instance that its processes use."""
    if task.worker_count is not None:
        return task.gpus_per_process
    return task.process_count_per_instance * task.launched_processes


def _describe_devices(task: Task, planned: float, size: str | None) -> str:
    gpus = f"{planned:g} GPU{'s' * (planned > 1)} an instance" + (f" (`{size}`)" if size else "")
    text = f"{task.name}: planned for {gpus}, running on CPUs here"
    precision = task.read_text(PRECISION)
    if precision == "fp16":
        return f"{text}, in fp16 if they have it; `--set {task.name}.{PRECISION}=fp32` runs it in fp32"
    return f"{text}, in bf16 as planned" if precision == "bf16" else text


# The modules of each extra of the package; pyproject.toml has their versions.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "run": ("matplotlib", "mlflow", "numpy", "pandas", "PIL", "psutil", "pyarrow", "sklearn", "torch"),
    "tensorflow": ("tensorflow",),
    "deepspeed": ("deepspeed",),
    "transformers": ("accelerate", "peft", "tokenizers", "transformers"),
}
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)
_LARGEST = 1 << 20  # bytes of a script that are read

INSTALL = (
    "`pip install 'worldsize[mpi]'`, or the system's package (Debian, Ubuntu: `apt install openmpi-bin`)"
)


def find_missing_packages(tasks: Mapping[str, Task], code: Mapping[str, Snapshot]) -> list[Problem]:
    """Report the packages that built-in components import and this Python lacks, as one problem.

    A user's own script is not checked, because its imports may be optional.
    """
    absent = {
        module: extra
        for extra, modules in EXTRAS.items()
        for module in modules
        if importlib.util.find_spec(module) is None
    }
    if not absent:
        return []
    needed: dict[str, list[str]] = {}
    for name, snapshot in code.items():
        if is_built_in(snapshot):
            optional = () if _wants_tokens(tasks[name]) else EXTRAS["transformers"]
            needed[name] = sorted((set(_list_imports(snapshot)) & absent.keys()).difference(optional))
    steps = [name for name, modules in needed.items() if modules]
    if not steps:
        return []
    modules = sorted({module for imported in needed.values() for module in imported})
    extras = ",".join(extra for extra in EXTRAS if extra in {absent[module] for module in modules})
    who = f"step `{steps[0]}` imports" if len(steps) == 1 else f"steps {_list_names(steps)} import"
    message = f"{who} {_list_names(modules)}, which this Python does not have"
    span = tasks[steps[0]].span or Span("pipeline", 1, 1, 1, 1)
    return [Problem("run-refused", span, message, f"run `pip install 'worldsize[{extras}]'`")]


def _wants_tokens(task: Task) -> bool:
    """Whether the inputs ask for a tokenizer or Hugging Face model: the libraries are imported only then."""
    values = {name: source.rendered for name, source in task.inputs.items() if isinstance(source, Text)}
    return values.get("tokenizer", "bytes") != "bytes" or values.get("model", "").startswith("hf:")


def is_built_in(snapshot: Snapshot) -> bool:
    """Whether code is that of a built-in component, wherever it lies: it has a package that these share."""
    shared = resources.components() / "_shared"
    return any((shared / folder).is_dir() for folder in {name.partition("/")[0] for name in snapshot.files})


def _list_imports(snapshot: Snapshot) -> Iterator[str]:
    for name in snapshot.files:
        if name.endswith(".py"):
            yield from _IMPORT.findall(snapshot.content(name, _LARGEST).decode("utf-8", "replace"))


def _list_names(names: Sequence[str]) -> str:
    return join_some([f"`{name}`" for name in names], 4)


def find_missing_programs(job: Job, tasks: Mapping[str, Task]) -> list[Problem]:
    """Report each missing program at the first step that needs it."""
    problems: dict[str, Problem] = {}
    for task in tasks.values():
        if task.launcher != "mpi":
            continue
        message = find_mpi_fault(search_path(task))
        if message is not None:
            text = f"step `{task.name}` is distributed with `mpi`, but {message}"
            distributed = task.step.distribution if task.step is not None else None
            kind = fields.read_member(distributed or task.component.distribution, "type")
            nearest = (kind.span if kind else None) or task.span
            span = nearest or Span(str(job.path or "pipeline"), 1, 1, 1, 1)
            problems.setdefault(message, Problem("run-refused", span, text, INSTALL))
    return list(problems.values())


def search_path(task: Task) -> str:
    """The PATH of the step's processes."""
    ours = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return task.environment_variables.get("PATH") or os.pathsep.join(ours)


def find_mpi_fault(path: str) -> str | None:
    """Why ``mpirun`` cannot be used: it is missing, does not start, or belongs to another MPI."""
    program = shutil.which(PROGRAM, path=path)
    if program is None:
        return f"there is no `{PROGRAM}` on this machine"
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"`{program}` does not start: {getattr(error, 'strerror', None) or 'it does not answer'}"
    if done.returncode != 0:
        first = (done.stderr.strip() or done.stdout.strip()).partition("\n")[0][:80]
        message = f"`{program} --version` ends with exit status {done.returncode}"
        return f"{message}: {first}" if first else message
    if "Open MPI" not in done.stdout and "OpenRTE" not in done.stdout:
        return f"`{program}` is not Open MPI, whose variables Azure ML's jobs read"
    return None
