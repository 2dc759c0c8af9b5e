"""The environment of a step's processes: what Azure ML presets, and what of the runner's own is kept out.

The names are those that Azure ML's documentation, SDK and examples agree on. They win over a step's own
``environment_variables``, because they do so there; defaults of ours give way to them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from worldsize.running import launchers
from worldsize.running.recording.folder import RunFolder
from worldsize.running.starting.inputs import Values
from worldsize.running.tasks import Task

# Set by another launcher around the runner, these would make a step believe it is part of that one's group.
LAUNCHER_VARIABLES = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "LOCAL_WORLD_SIZE",
     "GROUP_RANK", "TF_CONFIG", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME",
     "MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI", "WORLDSIZE_PROGRESS", "WORLDSIZE_HEARTBEATS"}
)  # fmt: skip
LAUNCHER_PREFIXES = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "TORCHELASTIC_", "AZUREML_", "AZURE_ML_", "AZ_BATCH")
PRESET_PREFIXES = (
    "AZUREML_", "AZURE_ML_", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_", "MLFLOW_TRACKING_URI",
    "MLFLOW_REGISTRY_URI", "WORLDSIZE_PROGRESS", "WORLDSIZE_HEARTBEATS",
)  # fmt: skip

DEFAULTS = {
    "PYTHONUNBUFFERED": "1",  # a log is read while it is written
    "MLFLOW_DISABLE_TELEMETRY": "true",  # nothing that runs here talks to anybody unasked
}


def environment(
    task: Task, run: RunFolder, values: Values, *, experiment: str, tracking: Mapping[str, str]
) -> dict[str, str]:
    """The variables that are the same in every process of a step.

    Args:
        task: The step.
        run: The run.
        values: Its inputs and outputs.
        experiment: The experiment's name.
        tracking: MLflow's variables, empty without MLflow.
    """
    return {**DEFAULTS, **task.environment_variables, **preset(task, run, values, experiment), **tracking}


def preset(task: Task, run: RunFolder, values: Values, experiment: str) -> dict[str, str]:
    """What Azure ML presets and no step can change."""
    return {
        "AZUREML_RUN_ID": f"{run.id}_{task.name}",
        "AZUREML_ROOT_RUN_ID": run.id,
        "AZUREML_ARM_PROJECT_NAME": experiment,
        "AZUREML_NODE_COUNT": str(task.instance_count),
        **{f"AZUREML_PARAMETER_{name}": text for name, text in values.literals.items()},
        **{f"AZURE_ML_INPUT_{name}": path for name, path in values.data.items()},
        **{f"AZURE_ML_OUTPUT_{name}": path for name, path in values.outputs.items()},
        "WORLDSIZE_PROGRESS": str(run.step(task.name).progress),
        "WORLDSIZE_HEARTBEATS": str(run.step(task.name).heartbeats),
    }


def overridden(task: Task) -> list[str]:
    """The step's own variables that have no effect, because the contract sets them."""
    return sorted(name for name in task.environment_variables if name.startswith(PRESET_PREFIXES))


def not_passed_on(tasks: Iterable[Task]) -> list[str]:
    """Variables of the runner itself that another launcher has set and that mean nothing to these steps."""
    theirs = [name for task in tasks for name in launchers.find(task.launcher).VARIABLES]
    return sorted({name for name in theirs if name in os.environ})


def inherited(bin_folder: Path) -> dict[str, str]:
    """The runner's environment as the steps inherit it.

    Args:
        bin_folder: Put first on PATH, so that ``python`` means the interpreter that runs this.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in LAUNCHER_VARIABLES and not name.startswith(LAUNCHER_PREFIXES)
    }
    return {**kept, "PATH": os.pathsep.join([str(bin_folder), *filter(None, [kept.get("PATH")])])}


def interpreter_folder(run: Path) -> Path:
    """A folder where ``python`` is this interpreter: its own, or one made for the run.

    Some installations have only ``python3`` beside it; a link would lose a virtual environment, so a
    two-line script stands in.
    """
    own = Path(sys.executable).parent
    if (own / "python").exists():
        return own
    folder = run / "bin"
    folder.mkdir(exist_ok=True)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    return folder
