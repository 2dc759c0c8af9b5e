"""GPUs that environments and scripts cannot use, or do not use."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from worldsize.azureml.command_line import HARMLESS
from worldsize.azureml.launch import STARTS_PROCESSES, Launch, read_launches
from worldsize.azureml.model import Job
from worldsize.azureml.tree import Tree
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Finding, Problem, relate
from worldsize.base.span import Span
from worldsize.base.wording import plural

if TYPE_CHECKING:
    from worldsize.scripts.program import Program


# What drives several GPUs from one process, or starts processes itself.
_SPREADS = compile_later(
    r"device_map|(?<!Distributed)(?<!Sharded)DataParallel\b|spawn|start_processes|subprocess|os\.system|popen|"
    r"execv|tensor_parallel|pipeline_parallel|cuda:[1-9]|MirroredStrategy|torchrun|accelerate|deepspeed|"
    r"range\(\s*torch\.cuda\.device_count|lightning|transformers|vllm|\bray\b|\bdask\b|\bjoblib\b|rapids|\bjax\b",
    re.IGNORECASE,
)
_JOINS = compile_later(r"\binit_process_group\(")
_WRAPS = compile_later(r"\bDistributedDataParallel\b|\bFullyShardedDataParallel\b|\bfully_shard\b")
_HOROVOD = compile_later(r"\.local_rank\(\)")
_TRAINERS = tuple(f"{top}.Trainer" for top in ("lightning", "lightning.pytorch", "pytorch_lightning"))
# Packages that never use a GPU, unless something else makes them.
_CPU_ONLY = frozenset(
    {"numpy", "pandas", "scipy", "sklearn", "matplotlib", "seaborn", "PIL", "tqdm", "yaml", "pyarrow"}
    | {"joblib", "requests", "packaging", "psutil", "regex", "dotenv", "click", "typer", "fire", "rich"}
    | {"fsspec", "h5py", "skimage", "imageio", "mlflow", "pydantic", "openpyxl", "statsmodels"}
    | {"fastparquet", "adlfs", "azure", "azureml", "mltable", "tabulate", "jsonlines", "simplejson"}
)
_TRAINS_ON_CPU = frozenset({"sklearn", "pandas", "scipy", "statsmodels", "skimage"})
_STARTS_OTHERS = frozenset({"subprocess", "ctypes", "runpy", "importlib", "pty"})
_ANY_GPU = compile_later(
    r"cuda|cuml|cudf|rapids|gpu|array_api_dispatch|os\.(?:system|popen|exec|spawn)", re.IGNORECASE
)


def _find_programs(context: Tree, launch: Launch) -> list[Program]:
    """The programs of a step; none if one of them is not read completely."""
    from worldsize.scripts.program import list_started  # parses Python

    programs = list_started(context, launch)
    return programs if all(program.complete for program in programs) else []


def drives_one_device(context: Tree, launch: Launch) -> bool:
    """Whether every process joins the others and trains on a GPU of its own."""
    programs = _find_programs(context, launch)
    texts = [module.text for program in programs for module in program.modules]
    if any(_SPREADS.search(text) for text in texts):
        return False
    torch = any(_JOINS.search(text) for text in texts) and any(_WRAPS.search(text) for text in texts)
    horovod = any(program.imports("horovod") for program in programs)
    return torch or (horovod and any(_HOROVOD.search(text) for text in texts))


def find_trainer_devices(context: Tree, launch: Launch) -> Iterator[tuple[int, Span]]:
    """`Trainer(devices=1)` of Lightning: how many GPUs a process uses, and where that is written."""
    from worldsize.scripts.interface.read import read_reached
    from worldsize.scripts.module import keyword_argument
    from worldsize.scripts.program import list_started
    from worldsize.scripts.settings import find_place, read_setting, read_value

    for program in list_started(context, launch):
        is_used = program.imports("lightning", "pytorch_lightning")
        calls = program.called(*_TRAINERS) if is_used else []
        for module, call in calls if len(calls) == 1 else ():
            devices = keyword_argument(call, "devices") or keyword_argument(call, "gpus")
            accelerator = read_setting(program, module, keyword_argument(call, "accelerator"))
            value = read_value(program, module, devices)
            if accelerator in ("cpu", "tpu") or devices is None or isinstance(value, bool):
                continue
            count = len(value) if isinstance(value, tuple) else value
            if isinstance(count, str) and count.isdigit():
                count = int(count)
            if isinstance(count, int) and count > 0 and read_reached(program).surely_runs(module, call):
                yield count, find_place(program, module, devices)


def _find_cpu_program(context: Tree, launch: Launch) -> Program | None:
    """The program of a step, if all its packages are known to compute only on the CPU."""
    programs = _find_programs(context, launch)
    started = [command for command in launch.commands if command.arguments]
    others = [command for command in started if command.arguments[0].bare not in HARMLESS]
    text = " ".join(word.text for command in started for word in command.words)
    if not programs or len(others) != len(programs) or _ANY_GPU.search(text):
        return None
    if any(_ANY_GPU.search(module.text) for program in programs for module in program.modules):
        return None
    tops = {name for program in programs for name in program.packages}
    beside = {name for program in programs for name in program.names_beside}
    harmless = _CPU_ONLY | sys.stdlib_module_names | beside
    if not tops <= harmless or tops & _STARTS_OTHERS or not tops & _TRAINS_ON_CPU:
        return None
    return programs[0]


def check_gpu_never_used(context: Tree, launch: Launch) -> Iterator[Problem]:
    size, component = launch.size, launch.step.component
    if size is None or not size.devices or component is None or component.command is None:
        return
    program = None if context.is_built_in(component) else _find_cpu_program(context, launch)
    span = launch.chosen_size_span
    if program is None or span is None:
        return
    gpus = plural(size.devices, "GPU")
    message = f"`{size.name}` has {gpus}, but `{program.path.name}` imports no package that uses one"
    help_ = "choose a size without GPUs for this step"
    yield Problem("gpu-never-used", span, message, help_, program.related)


_FLAGS = ("backend", "dist_backend", "distributed_backend", "ddp_backend")


def check_nccl_on_cpu(context: Tree, job: Job) -> Iterator[Finding]:
    for launch in read_launches(context, job):
        if launch.size is None or launch.size.gpus:
            continue
        for flag in launch.flags(*_FLAGS):
            span = launch.span(flag.value) if flag.value is not None else None
            if flag.value is not None and flag.value.bare.lower() == "nccl" and span is not None:
                yield _problem(launch, span)
    if any(_may_ask(context, launch) for launch in read_launches(context, job)):
        yield from _in_scripts(context, job)


def _may_ask(context: Tree, launch: Launch) -> bool:
    """Whether a step on CPUs runs a script of the user."""
    component = launch.step.component
    if component is None or launch.size is None or launch.size.gpus:
        return False
    return not context.is_built_in(component)


def _in_scripts(context: Tree, job: Job) -> Iterator[Finding]:
    # They parse Python, which a spec of built-in components need not wait for.
    from worldsize.scripts.interface.read import read_reached
    from worldsize.scripts.program import find_programs
    from worldsize.scripts.settings import find_nccl_calls

    for program in find_programs(context, job):
        if program.launch.size is None or program.launch.size.gpus:
            continue
        calls = list(find_nccl_calls(program))
        for module, call in calls:
            yield _problem(program.launch, module.span(call))
        reached = None if calls else read_reached(program)
        for module in program.modules if reached is not None else ():
            for call in module.called("torch.cuda.set_device"):
                if reached is not None and reached.surely_runs(module, call):
                    yield _problem(program.launch, module.span(call), "`torch.cuda.set_device`", "choose")


def _problem(
    launch: Launch, span: Span, what: str = "`nccl`", do: str = "write `gloo`, or choose"
) -> Finding:
    assert launch.size is not None
    message = f"{what} needs GPUs, but `{launch.size.name}` has none"
    related = relate(launch.size_span, "a size without GPUs")
    return Finding(span, message, f"{do} a size with GPUs", related=related)


def check_job(context: Tree, job: Job) -> Iterable[Problem]:
    return dict.fromkeys(_judge(context, job))  # steps that share a component share its fault


def _judge(context: Tree, job: Job) -> Iterator[Problem]:
    seen: set[object] = set()  # many steps share an environment and a size
    for launch in read_launches(context, job):
        component = launch.step.component
        if component is None or component.environment is None or component.folder is None:
            continue
        if launch.size is None or not launch.size.devices:
            continue
        trains = launch.kind in (*STARTS_PROCESSES, "tensorflow")
        key = (id(component.environment), launch.size.name, launch.size_span, trains)
        if key not in seen:
            seen.add(key)
            yield from _judge_environment(context, launch, trains=trains)


def _judge_environment(context: Tree, launch: Launch, *, trains: bool) -> Iterator[Problem]:
    from worldsize.azureml import gpu_support  # only steps with GPUs need it

    component, size = launch.step.component, launch.size
    assert component is not None
    assert size is not None
    is_users = not context.is_built_in(component)
    for framework in context.list_frameworks(component):
        problem = gpu_support.report_build(framework, size, launch.size_span, trains=trains, shown=is_users)
        if problem is not None:
            yield problem
