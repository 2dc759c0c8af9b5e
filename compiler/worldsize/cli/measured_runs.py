"""The runs that ``--from`` names, with their speeds: here, of a workspace, MLflow, or a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from worldsize.base.wording import quoted_list
from worldsize.cli import common, completion, workspace_options
from worldsize.cli.workspace_options import WorkspaceChoice

if TYPE_CHECKING:
    from worldsize.planning.estimates.calibration import Speed
    from worldsize.planning.estimates.measured_case import MeasuredRun

_MLFLOW = "mlflow:"
_CARD_FILE = ".json"


def from_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--from``, and where its runs are: ``runs`` names them, ``home`` and ``azure`` have them."""
    for add in (workspace_options.of_azure, common.runs_dir, _OPTION):
        command = add(command)
    return command


_OPTION = click.option(
    "--from",
    "runs",
    multiple=True,
    metavar="RUN[:STEP]",
    shell_complete=completion.complete_runs,
    help="Calibrate by a run of this workload: its id, `last`, or `mlflow:ID`; or by the `gpu.json` of a GPU;"
    " repeatable.",
)


def read_runs(names: Sequence[str], home: Path, azure: WorkspaceChoice | None) -> list[MeasuredRun]:
    """The speed of each run; exits with a message if there is no such run, or it reported no speed."""
    return [run for name in names for run in _read_named(name, home, azure)]


def _read_named(name: str, home: Path, azure: WorkspaceChoice | None) -> list[MeasuredRun]:
    if not name.endswith(_CARD_FILE):
        return [_read_run(name, home, azure)]
    from worldsize.planning.estimates.measured_case import UnusableRunError, read_card_file
    from worldsize.running.record.json_files import read_json

    document = read_json(Path(name))
    if document is None:
        common.refuse(f"`{name}` cannot be read as JSON", "`python tests/gpu/prove.py` writes a `gpu.json`")
    try:
        return read_card_file(name, document)
    except UnusableRunError as error:
        common.refuse(str(error))


def _read_run(name: str, home: Path, azure: WorkspaceChoice | None) -> MeasuredRun:
    from worldsize.planning.estimates.measured_case import MeasuredRun

    if name.startswith(_MLFLOW):
        return MeasuredRun(name, _read_tracked(name))
    run, _, step = name.partition(":")
    if azure is not None:
        return MeasuredRun(name, *_choose_step(run, step, _read_job(run, azure)))
    from worldsize.running.record.details import read_speeds

    speed, step = _choose_step(run, step, read_speeds(common.find_run(home, run)))
    return MeasuredRun(name, replace(speed, gpu=_find_gpu(name)), step)


def _find_gpu(name: str) -> str:
    """The GPU of this machine, where a run of it ran."""
    from worldsize.running.prepare.machine import detect_gpu_products
    from worldsize.running.record.details import find_gpu_here

    gpu = find_gpu_here()
    if gpu is None:
        products = detect_gpu_products()
        reason = f"of whose {products[0]} no speed is known" if products else "which has no GPU"
        help_ = "name a job of a workspace with `--azure`, or `mlflow:ID`"
        common.refuse(f"`{name}` ran on this machine, {reason}, and tells nothing of GPUs", help_)
    return gpu


def _read_job(name: str, azure: WorkspaceChoice) -> Mapping[str, Speed]:
    from worldsize.remote import jobs

    with azure.connect() as rest:
        return jobs.read_job(rest, name).speeds()


def _choose_step(run: str, step: str, speeds: Mapping[str, Speed]) -> tuple[Speed, str]:
    if step in speeds:
        return speeds[step], step
    if len(speeds) == 1 and not step:
        name, speed = next(iter(speeds.items()))
        return speed, name
    if not speeds:
        help_ = "the built-in trainers report it after their first steps"
        return common.refuse(f"`{run}` reported no speed", help_)
    wrong = f"step `{step}` of `{run}` reported no speed" if step else f"several steps of `{run}` trained"
    return common.refuse(wrong, f"write one of {quoted_list([f'{run}:{each}' for each in speeds])}")


def _read_tracked(name: str) -> Speed:
    from mlflow.exceptions import MlflowException

    from worldsize.running.record.details import read_mlflow_speed

    try:
        speed = read_mlflow_speed(name.removeprefix(_MLFLOW))
    except MlflowException as error:
        common.refuse(f"`{name}` cannot be read: {error.message}", "`MLFLOW_TRACKING_URI` names the server")
    if speed is None:
        common.refuse(f"`{name}` reported no speed", "the built-in trainers log `samples_per_second`")
    return speed
