"""What the commands that plan share: values for inputs, runs with known speeds, and what they refuse.

The runs that ``--from`` names are here, in a workspace, in MLflow, or in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from worldsize.base.wording import quoted_list
from worldsize.cli import common, run_folders, workspace_options
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.documents import yaml
from worldsize.planning.estimates.measured_case import MeasuredRun, read_card_file
from worldsize.remote import jobs
from worldsize.rules import engine
from worldsize.running.launch.machine import detect_gpu_products
from worldsize.running.prepare import overrides
from worldsize.running.record import details
from worldsize.running.record.history import load_run
from worldsize.running.record.json_files import read_json

if TYPE_CHECKING:
    from worldsize.documents.yaml import Document
    from worldsize.planning.estimates.calibration import Speed

_MLFLOW = "mlflow:"
_CARD_FILE = ".json"
_FROM = click.option(
    "--from",
    "runs",
    multiple=True,
    metavar="RUN[:STEP]",
    shell_complete=run_folders.complete_runs,
    help="Calibrate by a run of this workload: its id, `last`, or `mlflow:ID`; or by the `gpu.json` of a GPU;"
    " repeatable.",
)
region_option = click.option("--region", metavar="REGION", help="The Azure region of the prices.")


def from_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--from``, and where its runs are: ``runs`` names them, ``home`` and ``azure`` have them."""
    return common.add_options(workspace_options.of_azure(command), _FROM, run_folders.runs_dir)


def override_spec(spec: Path, settings: Sequence[str]) -> Document | None:
    """The spec with other values, None without settings; exits if a setting names no input."""
    if not settings:
        return None
    document, problems = overrides.override_spec(yaml.load(spec), common.parse_settings(settings))
    if problems:
        common.show_findings(list(engine.diagnose(problems)), {})
        raise SystemExit(1)
    return document


def read_runs(names: Sequence[str], home: Path, azure: WorkspaceChoice | None) -> list[MeasuredRun]:
    """The speed of each run; exits with a message if there is no such run, or it reported no speed."""
    return [run for name in names for run in _read_named(name, home, azure)]


def _read_named(name: str, home: Path, azure: WorkspaceChoice | None) -> list[MeasuredRun]:
    if not name.endswith(_CARD_FILE):
        return [_read_run(name, home, azure)]
    document = read_json(Path(name))
    if document is None:
        common.refuse(f"`{name}` cannot be read as JSON", "`python tests/gpu/prove.py` writes a `gpu.json`")
    return read_card_file(name, document)


def _read_run(name: str, home: Path, azure: WorkspaceChoice | None) -> MeasuredRun:
    if name.startswith(_MLFLOW):
        return MeasuredRun(name, _read_tracked(name))
    run, _, step = name.partition(":")
    if azure is not None:
        with azure.connect() as rest:
            return MeasuredRun(name, *_choose_step(run, step, jobs.read_job(rest, run).speeds()))
    speed, step = _choose_step(run, step, details.read_speeds(load_run(run_folders.find_run(home, run))))
    return MeasuredRun(name, replace(speed, gpu=_find_gpu(name)), step)


def _find_gpu(name: str) -> str:
    """The GPU of this machine, where a run of it ran."""
    gpu = details.find_gpu_here()
    if gpu is None:
        products = detect_gpu_products()
        reason = f"of whose {products[0]} no speed is known" if products else "which has no GPU"
        help_ = "name a job of a workspace with `--azure`, or `mlflow:ID`"
        common.refuse(f"`{name}` ran on this machine, {reason}, and tells nothing of GPUs", help_)
    return gpu


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
    return common.refuse(wrong, f"write one of {quoted_list([f'{run}:{step_name}' for step_name in speeds])}")


def _read_tracked(name: str) -> Speed:
    from mlflow.exceptions import MlflowException

    try:
        speed = details.read_mlflow_speed(name.removeprefix(_MLFLOW))
    except MlflowException as error:
        common.refuse(f"`{name}` cannot be read: {error.message}", "`MLFLOW_TRACKING_URI` names the server")
    if speed is None:
        common.refuse(f"`{name}` reported no speed", "the built-in trainers log `samples_per_second`")
    return speed
