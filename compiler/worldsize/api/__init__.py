"""The verbs for one spec: compile, and estimate memory, time and cost; and the estimate of one file.

A spec is read, validated, planned and resolved once: the check returns what it resolved, and the other
verbs use it. ``worldsize run`` uses what :func:`compile` returns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from worldsize.api import output_folder
from worldsize.api.forecast import Estimated, StepForecast, cost_step, describe_forecast
from worldsize.azureml.copying import allow_everything
from worldsize.azureml.files import Files
from worldsize.azureml.model import Job
from worldsize.base.source import Source
from worldsize.base.wording import plural
from worldsize.checking import CheckedSpec, boundary, check_spec, discover, in_budget, settings
from worldsize.checking.specs import make_spec_error
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.diagnostics.snippet import Sources
from worldsize.documents.errors import PipelineError, SpecError
from worldsize.facts.prices import read_price_list
from worldsize.planning.estimates.estimate import estimate as estimate_case
from worldsize.planning.estimates.measured_case import MeasuredRun, calibrate_from_runs
from worldsize.planning.memory import step_memory
from worldsize.planning.memory.step_memory import Need
from worldsize.planning.model import Plan
from worldsize.planning.plan_file import FORMAT, describe_step
from worldsize.resolving import imported_model, rows
from worldsize.resolving.planned import Planned
from worldsize.resolving.step_estimates import (
    estimate_steps,
    find_checkpoint_seconds,
    find_saving,
    read_tier,
)
from worldsize.resolving.workloads import explain_unknown, resolve_case
from worldsize.spec.load import read_estimate_file, report_spec

if TYPE_CHECKING:
    from worldsize.api.layout import Layout

_TAKE_PYTHON = (
    "`check`, `compile`, `run` and `submit` take pipelines in Python, and `worldsize.plan(job, …)` plans them"
)
_PYTHON = re.compile(r"\.py(?:$|[:#@])")  # a file, or a function in it


class Compiled(Struct, frozen=True):
    """What a compile wrote."""

    folder: Path
    files: tuple[str, ...]  # paths inside the folder, sorted
    plan: Plan
    warnings: tuple[Diagnostic, ...]  # findings that did not keep the spec from compiling
    sources: Sources
    job: Job  # the pipeline as it lies in the folder, each value with its place in the spec
    planned: Planned | None  # None of a pipeline in Python, which is not a spec

    def __repr__(self) -> str:
        return f"<Compiled: {plural(len(self.files), 'file')} in {self.folder}>"  # the fields hold every file

    @property
    def pipeline(self) -> Path:
        """The pipeline job, for ``az ml job create`` or ``worldsize run``."""
        return self.folder / "pipeline.yml"


def estimate_memory(checked: CheckedSpec, *, import_models: bool = False) -> dict[str, Need]:
    """The memory that each training step needs a process, where its model and samples are known.

    With ``import_models`` the code of users' own models runs, for their shapes; without it, such steps are
    left out.

    Raises:
        ModelImportError: A user's model cannot be imported.
        SpecError: The estimate takes too long.
    """
    planned, path = checked.planned, checked.planned.spec.path
    import_model = partial(imported_model.import_model, path.parent) if import_models else None
    with in_budget(path, checked.report.sources):
        return step_memory.estimate_steps(
            planned.job,
            checked.planned.complete_plan,
            import_model,
            planned.read_table,
            planned.vm_sizes,
            read_config=planned.read_config,
        )


def estimate(
    path: str | os.PathLike[str], region: str | None = None, runs: Sequence[MeasuredRun] = ()
) -> Estimated:
    """Estimate the speed of the workload of a file, as ``schemas/estimate.schema.json`` describes it.

    Args:
        path: The file.
        region: Of Azure, for the prices; by default that of ``worldsize.yml``, else East US.
        runs: That trained this workload, by which the estimate is calibrated.

    Raises:
        SpecError: The file has errors, or its workload cannot be trained so.
        UnusableRunError: A run tells nothing of the workload.
        PriceFileError: The prices that the project has read from Azure cannot be read again.
    """
    require_path(path, "worldsize.estimate", "the file of a workload")

    sources: dict[str, Source] = {}
    with in_budget(Path(path), sources):
        keys, problems, document = read_estimate_file(Path(path))
        root = None if document.problems else document.root
        if root is not None and discover.recognise_kind(document, named=True) == "spec":
            problems = [report_spec(root.span)]
        sources[document.path] = document.source
        project = settings.read_project_settings(Path(path).parent)
        case = resolve_case(keys, problems, project.vm_sizes) if keys is not None else None
    if case is None:
        raise make_spec_error(problems, sources)
    calibration = calibrate_from_runs(case.workload, runs, project.vm_sizes)
    answer = estimate_case(case.workload, case.training, case.cluster, calibration)
    prices = read_price_list(region or project.region, project.prices_file)
    unknown = None if answer is not None else explain_unknown(case)
    return Estimated(case, answer, cost_step(case, None, None, prices), prices.region, unknown, calibration)


def forecast_steps(
    checked: CheckedSpec, region: str | None = None, runs: Sequence[MeasuredRun] = ()
) -> dict[str, StepForecast]:
    """The time and cost of each training step, where its model, GPUs and network are known.

    Raises:
        PriceFileError: As :func:`estimate`.
        UnusableRunError: A run tells nothing of the step that it trained.
        SpecError: The estimate takes too long.
    """
    planned, path = checked.planned, checked.planned.spec.path
    project = settings.read_project_settings(path.parent)
    prices = read_price_list(region or project.region, project.prices_file)
    forecasts: dict[str, StepForecast] = {}
    with in_budget(path, checked.report.sources):
        for name, time in estimate_steps(planned, planned.read_table, runs).items():
            cost = None
            step, node = planned.step_plans[name], planned.job.steps[name]
            if time.case is not None:
                seconds = time.total_seconds.expected if time.total_seconds is not None else None
                cost = cost_step(time.case, seconds, find_checkpoint_seconds(step, node), prices)
            tier = read_tier(planned.spec, name)
            saving = find_saving(step, node, tier)
            forecasts[name] = StepForecast(time, cost, prices.region, saving, tier)
    return forecasts


def plan_document(
    plan: Plan,
    needs: Mapping[str, Need] | None = None,
    forecasts: Mapping[str, StepForecast] | None = None,
) -> dict[str, Any]:
    """A plan as ``schemas/plan.schema.json`` describes it, ready for JSON; with memory, time and cost."""
    steps = {name: describe_step(step) for name, step in plan.steps.items()}
    for name, need in (needs or {}).items():
        steps[name]["memory"] = {
            **to_builtins(need.breakdown),
            "total": need.breakdown.total,
            "available": need.available,
            "device": need.device,
        }
    for name, forecast in (forecasts or {}).items():
        steps[name]["forecast"] = describe_forecast(forecast)
    return {"format": FORMAT, "name": plan.name, "steps": steps}


def compile(  # noqa: A001
    spec: str | os.PathLike[str],
    out: str | os.PathLike[str],
    document: yaml.Document | None = None,
    runs: Sequence[MeasuredRun] = (),
) -> Compiled:
    """Compile a spec, which may be parsed already, into the folder ``out``; see :func:`worldsize.compile`."""
    path, folder = Path(spec), Path(out)
    allowed = boundary.find_allowed(path)
    checked = check_spec(path, document, readable=allowed or allow_everything)
    report = checked.report
    with in_budget(path, report.sources):
        layout = _lay_out(checked, folder, allowed, runs)
    output_folder.write_folder(layout.files, folder)
    files, planned = tuple(layout.files), checked.planned
    return Compiled(
        folder, files, checked.planned.complete_plan, report.diagnostics, report.sources, layout.job, planned
    )


def read_graph(compiled: Compiled, files: Files) -> Job:
    """The graph that a compile wrote, with the components as they lie in the folder.

    The pipeline is not read again, only the component files are, each once. A component that the spec wrote
    itself keeps its positions there. Problems are added to ``files``.
    """
    from worldsize.api.layout import load_components  # only a run needs it

    return load_components(compiled.job, compiled.folder, files)


def _lay_out(
    checked: CheckedSpec, folder: Path, allowed: boundary.Allowed | None, runs: Sequence[MeasuredRun]
) -> Layout:
    """The files that a spec becomes; nothing is written."""
    from worldsize.api.layout import lay_out_files

    if refused := boundary.raise_to_errors(checked.report.diagnostics, allowed):
        raise SpecError(refused, checked.report.sources)
    output_folder.check_target(folder)
    planned, sources = checked.planned, checked.report.sources
    if outside := boundary.find_not_copied(planned.problems, allowed):
        raise make_spec_error(outside, sources)
    layout = lay_out_files(planned, planned.complete_plan, folder, runs)
    problems = layout.problems or boundary.report_refused(layout.files, allowed, planned.spec.span)
    if problems:
        raise make_spec_error(problems, sources)
    return layout


def require_path(target: Any, verb: str, kind: str) -> None:
    """Refuse what is not a path: pipelines in Python are for other verbs.

    Raises:
        PipelineError: It is not a path, or names a function.
    """
    is_path = isinstance(target, str | os.PathLike)
    if is_path and not _PYTHON.search(os.fspath(target)):
        return
    shown = f"`{target}`" if is_path else f"a `{type(target).__name__}`"
    raise PipelineError(f"`{verb}` takes the path of {kind}, not {shown}", _TAKE_PYTHON)
