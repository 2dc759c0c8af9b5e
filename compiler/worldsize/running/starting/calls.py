"""From a task to the call that a launcher multiplies: its command rendered, its environment set."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from worldsize.azureml import command
from worldsize.running.recording.folder import RunFolder
from worldsize.running.starting import contract
from worldsize.running.starting.inputs import Values
from worldsize.running.starting.processes import Call
from worldsize.running.tasks import Task


def of(
    task: Task,
    run: RunFolder,
    values: Values,
    *,
    experiment: str,
    tracking: Mapping[str, str],
    cores: int,
    gpus: tuple[str, ...] = (),
) -> Call:
    """The call of a task.

    Args:
        task: The step.
        run: The run.
        values: What its placeholders stand for.
        experiment: The experiment's name.
        tracking: MLflow's variables.
        cores: Cores of the machine, shared out among the processes.
        gpus: The GPUs lent to the step, empty where there are none.
    """
    return Call(
        step=task.name,
        launcher=task.launcher,
        command=command.render(task.command, values.inputs, values.outputs).strip(),
        instance_count=task.instance_count,
        process_count_per_instance=task.process_count_per_instance,
        worker_count=task.worker_count,
        parameter_server_count=task.parameter_server_count,
        env=contract.environment(task, run, values, experiment=experiment, tracking=tracking),
        gpus=gpus,
        cores=cores,
        shell=shell(),
    )


def shell() -> str:
    """Bash, as in Azure ML's images; the POSIX shell where it is not installed."""
    return "bash" if shutil.which("bash") else "sh"
