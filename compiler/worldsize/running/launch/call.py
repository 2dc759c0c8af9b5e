"""Makes the call of a task, with inputs, command and environment, and the folder that it runs in.

The names in the environment are those on which Azure ML's documentation, SDK and examples agree. As there,
they override a step's own ``environment_variables``, which in turn override our defaults.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from worldsize.azureml import binding
from worldsize.azureml.copying import Archive, copy_listed
from worldsize.azureml.literals import PRIMITIVES
from worldsize.azureml.snapshot import Snapshot
from worldsize.base import untrusted
from worldsize.running.launch.launchers import LAUNCHERS, PYTORCH_VARIABLES
from worldsize.running.model.folder import OTHERS, RunFolder
from worldsize.running.model.process import Call, Scale
from worldsize.running.model.task import (
    ARTIFACTS,
    CHECKPOINTS,
    File,
    Joined,
    Output,
    Source,
    StepValues,
    Task,
    Text,
    is_text,
    keeps_checkpoints,
)

# The contract, which no step can change.
PRESET_PREFIXES = (
    "AZUREML_", "AZURE_ML_", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_", "MLFLOW_TRACKING_URI",
    "MLFLOW_REGISTRY_URI", "WORLDSIZE_PROGRESS", "WORLDSIZE_HEARTBEATS",
)  # fmt: skip
# If another launcher started the runner, these would make a step believe that it belongs to that group.
LAUNCHER_PREFIXES = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "TORCHELASTIC_", "AZ_BATCH")
LAUNCHER_VARIABLES = PYTORCH_VARIABLES | {"LOCAL_WORLD_SIZE", "GROUP_RANK", "TF_CONFIG"}
WORKSPACE_VARIABLES = frozenset(
    {"AZUREML_ARM_SUBSCRIPTION", "AZUREML_ARM_RESOURCEGROUP", "AZUREML_ARM_WORKSPACE_NAME"}
)  # set around the runner: the workspace that a step's own clients find
DEFAULTS = {
    "PYTHONUNBUFFERED": "1",  # logs are read while they are written
    "MLFLOW_DISABLE_TELEMETRY": "true",  # a run sends no data to others by default
}

_CHOSEN = ("OMP_NUM_THREADS",)  # which a run sets unless the user has


def resolve_inputs(task: Task, run: RunFolder, show: Callable[[Path], str] = str) -> StepValues:
    """Resolve the inputs and outputs of a task; ``show`` renders the paths of data outside the run."""
    literals: dict[str, str] = {}
    data: dict[str, str] = {}
    for name, source in task.inputs.items():
        if source is not None:
            (literals if is_text(source) else data)[name] = render_source(source, task, run, show)
    absent = frozenset(name for name, source in task.inputs.items() if source is None)
    outputs = {name: _output_path(task.name, name, run) for name in task.outputs}
    return StepValues(literals, data, absent, outputs)


def render_source(source: Source, task: Task, run: RunFolder, show: Callable[[Path], str]) -> str:
    """The text of a source; ``show`` renders the paths of data outside the run."""
    if isinstance(source, Text):
        return source.rendered
    if isinstance(source, File):
        return show(source.path.absolute())
    if isinstance(source, Output) and source.is_value and run.root.exists():
        return untrusted.read_text(_output_path(source.step, source.port, run)).strip()
    if isinstance(source, Output):
        return _output_path(source.step, source.port, run)
    if isinstance(source, Joined):
        return "".join(render_source(part, task, run, show) for part in source.parts)
    return run.step_id(task.name)


def _output_path(step: str, port: str, run: RunFolder) -> str:
    folder = run.step(step)
    # ./outputs and ./logs are in the working folder.
    path = folder.code if port == ARTIFACTS else folder.outputs / port
    return os.path.realpath(path) if path.is_symlink() else str(path)  # a reused step has links


def make_call(
    task: Task,
    run: RunFolder,
    values: StepValues,
    *,
    experiment: str,
    tracking: Mapping[str, str],
    cores: int,
    gpus: tuple[str, ...] = (),
    on_cpu: bool = False,
) -> Call:
    """Make the call of a task: its command, environment and processes."""
    return Call(
        **{name: getattr(task, name) for name in Scale.__struct_fields__},
        step=task.name,
        command=binding.fill_command(task.command, values.inputs, values.outputs).strip(),
        launched_processes=task.launched_processes,
        env={
            **DEFAULTS,
            **{name: os.environ[name] for name in _CHOSEN if name in os.environ},
            **task.environment_variables,
            **preset_variables(task, run, values, experiment),
            **tracking,
        },
        gpus=gpus,
        on_cpu=on_cpu,
        cores=cores,
        shell=find_shell(),
    )


def find_shell() -> str:
    """Bash, as in Azure ML's images; the POSIX shell if it is not installed."""
    return "bash" if shutil.which("bash") else "sh"


def preset_variables(task: Task, run: RunFolder, values: StepValues, experiment: str) -> dict[str, str]:
    """The variables that Azure ML presets and no step can change."""
    return {
        "AZUREML_RUN_ID": run.step_id(task.name),
        "AZUREML_ROOT_RUN_ID": run.id,
        "AZUREML_ARM_PROJECT_NAME": experiment,
        "AZUREML_NODE_COUNT": str(task.instance_count),
        **{f"AZUREML_PARAMETER_{name}": text for name, text in values.literals.items()},
        **{f"AZURE_ML_INPUT_{name}": path for name, path in values.data.items()},
        **{f"AZURE_ML_OUTPUT_{name}": path for name, path in values.outputs.items()},
        "WORLDSIZE_PROGRESS": str(run.step(task.name).progress),
        "WORLDSIZE_HEARTBEATS": str(run.step(task.name).heartbeats),
    }


def mlflow_variables(uri: str, experiment: str, experiment_id: str, run_id: str) -> dict[str, str]:
    """What makes ``mlflow.start_run()`` join the step's own run and registry."""
    return {
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_REGISTRY_URI": uri,
        "MLFLOW_EXPERIMENT_NAME": experiment,
        "MLFLOW_EXPERIMENT_ID": experiment_id,
        "MLFLOW_RUN_ID": run_id,
    }


def find_overridden(task: Task) -> list[str]:
    """The step's own variables that have no effect, because the contract sets them."""
    return sorted(name for name in task.environment_variables if name.startswith(PRESET_PREFIXES))


def find_not_passed_on(tasks: Iterable[Task]) -> list[str]:
    """Variables of the runner that another launcher has set, and that these steps do not get."""
    theirs = [name for task in tasks for name in LAUNCHERS[task.launcher].variables]
    return sorted({name for name in theirs if name in os.environ})


def inherited_environment(bin_folder: Path) -> dict[str, str]:
    """The runner's environment as the steps inherit it, with a folder for ``python`` first on PATH."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in WORKSPACE_VARIABLES
        or (name not in LAUNCHER_VARIABLES and not name.startswith(PRESET_PREFIXES + LAUNCHER_PREFIXES))
    }
    return {**kept, "PATH": os.pathsep.join([str(bin_folder), *filter(None, [kept.get("PATH")])])}


def make_interpreter_folder(run: Path) -> Path:
    """A folder in which ``python`` is this interpreter: its own, or one made for the run.

    Some installations have only ``python3`` there. A link would lose a virtual environment, so a two-line
    script is written instead.
    """
    python_folder = Path(sys.executable).parent
    if (python_folder / "python").exists():
        return python_folder
    folder = run / "bin"
    folder.mkdir(exist_ok=True)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    return folder


_PRESENT = ("outputs", "logs")  # Azure ML makes these in the working folder and keeps what lands there


def prepare_step_folder(task: Task, code: Snapshot, run: RunFolder) -> None:
    """Make the folder of a step that is about to start."""
    step = run.step(task.name)
    step.logs.mkdir(parents=True, exist_ok=True)
    step.progress.touch()  # made here, so that it is private whatever the umask of the step
    make_outputs(task, run)
    link_inputs(task, run)
    copy_snapshot(code, step.code)


def clear_step_folder(task: Task, run: RunFolder, *, interrupted: bool) -> None:
    """Clear the folder of a step for another attempt.

    A step with an output named ``checkpoints`` resumes, so what an interrupted attempt has written stays: its
    best model and its log belong to the checkpoints. Of an attempt that completed only ``checkpoints`` stays.
    A step without them begins anew, in empty folders. The logs move to ``logs/attempt-N``, N from 1.
    """
    step = run.step(task.name)
    earlier = len(list(step.logs.glob("attempt-*")))
    old = step.logs / f"attempt-{earlier + 1}"
    old.mkdir(parents=True)
    for path in [*step.logs.glob("*.log"), *step.progress.parent.glob(step.progress.name)]:
        path.rename(old / path.name)
    for folder in (step.code, step.inputs, step.heartbeats):
        shutil.rmtree(folder, ignore_errors=True)
    if interrupted and keeps_checkpoints(task):
        return
    for path in step.outputs.glob("*"):
        if path.name != CHECKPOINTS:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def copy_snapshot(code: Snapshot, folder: Path) -> None:
    """Copy a snapshot into a new folder. A copy, because a command may write into its working folder."""
    folder.mkdir()
    folders = {folder}
    for name, source in code.files.items():
        target = folder / name
        if target.parent not in folders:
            target.parent.mkdir(parents=True, exist_ok=True)
            folders.add(target.parent)
        if isinstance(source, Archive):
            source.copy_to(target)
        else:
            target.chmod(copy_listed(source, target) & ~OTHERS)
    for name in _PRESENT:
        (folder / name).mkdir(exist_ok=True)


def make_outputs(task: Task, run: RunFolder) -> None:
    """Make a folder for each output; for a file, or a value in one, only the folder that will contain it."""
    folder = run.step(task.name).outputs
    folder.mkdir(parents=True, exist_ok=True)
    for name, type_ in task.outputs.items():
        if name == ARTIFACTS:
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(Path("..") / run.step(task.name).code.name)
        elif type_ != "uri_file" and type_ not in PRIMITIVES:
            (folder / name).mkdir(exist_ok=True)  # it exists if it was kept from an earlier attempt


def link_inputs(task: Task, run: RunFolder) -> None:
    """Make links to the inputs. Commands get the real paths, because `cp -r` and `find` stop at links."""
    folder = run.step(task.name).inputs
    for name, source in task.inputs.items():
        if source is not None and not is_text(source):
            path = render_source(source, task, run, str)
            folder.mkdir(exist_ok=True)
            with contextlib.suppress(OSError):  # a path with text around it may not exist
                (folder / name).symlink_to(path)
