"""What differs between two runs: parameters, code, data, environment, metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from worldsize.base.wording import show_number
from worldsize.planning.estimates import prediction
from worldsize.reporting.curves import read_run_metrics, read_tracked
from worldsize.reporting.model import read_mapping
from worldsize.running.model.folder import show_path
from worldsize.running.record.history import RunRecord
from worldsize.running.record.json_files import is_file_name, read_json
from worldsize.running.reuse.step_cache import MADE
from worldsize.running.reuse.store import find_original
from worldsize.tracking.runs import read_shared_tags

_TAGS = {
    "commit": "mlflow.source.git.commit",
    "branch": "mlflow.source.git.branch",
    "uncommitted changes": "azureml.git.dirty",
}
_INPUT = "input `"
_SURROUNDINGS = frozenset({"environment", "resources"})
_LAUNCH = frozenset({
    "launcher", "instance_count", "process_count_per_instance", "worker_count", "parameter_server_count",
    "gpus_per_process",
})  # fmt: skip
SECTIONS = ("run", "parameters", "code", "data", "environment", "metrics")


class Difference(Struct, frozen=True):
    """One thing in which two runs differ; None where a run does not have it."""

    section: str
    name: str
    first: str | float | None
    second: str | float | None

    @property
    def change(self) -> float | None:
        """By how much a number has changed."""
        numbers = isinstance(self.first, float) and isinstance(self.second, float)
        return self.second - self.first if numbers else None  # type: ignore[operator]


def compare_runs(first: RunRecord, second: RunRecord) -> list[Difference]:
    """What differs, by section; nothing for runs that are alike in all that is recorded.

    Of a step that only one of them has, only the state is compared.
    """
    shared = list(find_shared_steps(first, second))
    differences = _compare("run", _describe(first), _describe(second))
    differences += _compare("parameters", _parameters(first, shared), _parameters(second, shared))
    differences += _compare_parts(_parts(first), _parts(second))
    differences += _compare("environment", _environment(first), _environment(second))
    differences += _compare_processes(first, second, shared)
    differences += _compare("metrics", _metrics(first, shared), _metrics(second, shared))
    return sorted(differences, key=lambda difference: SECTIONS.index(difference.section))


def _compare(
    section: str, first: Mapping[str, str | float], second: Mapping[str, str | float]
) -> list[Difference]:
    names = dict.fromkeys([*first, *second])
    return [
        Difference(section, name, first.get(name), second.get(name))
        for name in names
        if first.get(name) != second.get(name)
    ]


def _describe(run: RunRecord) -> dict[str, str | float]:
    states: dict[str, str | float] = {
        f"{name} state": "succeeded" if step.state == "reused" else step.state
        for name, step in run.steps.items()
    }
    pipeline = show_path(run.pipeline) if run.label == run.pipeline else run.label
    return {"pipeline": pipeline, "state": run.state, **states}


def find_shared_steps(first: RunRecord, second: RunRecord) -> Iterable[str]:
    """The names of the steps that both runs have, in the order of the first."""
    return (name for name in first.steps if name in second.steps)


def _parameters(run: RunRecord, steps: Iterable[str]) -> dict[str, str | float]:
    """The parameters of steps by their names; predictions follow from the others."""
    return {
        f"{step}.{name}": value
        for step in steps
        for name, value in run.steps[step].parameters.items()
        if name not in prediction.INPUTS
    }


def _parts(run: RunRecord) -> dict[tuple[str, str], str]:
    """The digests of what each step consisted of, by step and part, without its parameters."""
    digests: dict[tuple[str, str], str] = {}
    for name in filter(is_file_name, run.steps):
        original = find_original(run.root, name)
        made = read_json(run.root.parent / original.run / "steps" / original.step / MADE) or {}
        values = {f"{_INPUT}{parameter}`" for parameter in run.steps[name].parameters}
        parts = read_mapping(made.get("parts"))
        digests |= {(name, str(part)): str(parts[part]) for part in parts if str(part) not in values}
    return digests


def _compare_parts(
    first: Mapping[tuple[str, str], str], second: Mapping[tuple[str, str], str]
) -> Iterable[Difference]:
    """What differs by content, of steps that both runs have; parameters are compared by their values."""
    for (step, part), digest in first.items():
        other = second.get((step, part))
        if other is None or other == digest or part in _LAUNCH or part == "format":
            continue
        section = "data" if part.startswith(_INPUT) else "environment" if part in _SURROUNDINGS else "code"
        shown = part.removeprefix(_INPUT).rstrip("`") if section == "data" else part.replace("_", " ")
        yield Difference(section, f"{step}: {shown}", digest[:12], other[:12])


def _environment(run: RunRecord) -> dict[str, str | float]:
    tags = read_tracked(read_shared_tags, run.root.absolute().parent.parent, run.id)
    rows: dict[str, str | float] = {
        f"--{name.replace('_', '-')}": str(value)
        for name, value in read_mapping(run.request.get("options")).items()
        if name != "settings" and value is not None  # the settings are among the parameters
    }
    rows |= {name: str(run.request[name]) for name in ("worldsize", "python") if run.request.get(name)}
    rows |= {name: tags[tag] for name, tag in _TAGS.items() if tag in tags}
    return rows


def _compare_processes(first: RunRecord, second: RunRecord, steps: Iterable[str]) -> Iterable[Difference]:
    """The numbers of processes of steps that ran in both."""
    for name in steps:
        counts = len(first.steps[name].processes), len(second.steps[name].processes)
        if all(counts) and counts[0] != counts[1]:
            yield Difference("environment", f"{name} processes", float(counts[0]), float(counts[1]))


def _metrics(run: RunRecord, steps: Iterable[str]) -> dict[str, str | float]:
    """The metrics by step, where the step is known; the time of the run last."""
    prefixes = tuple(f"{step}." for step in steps)
    by_step = {name: value for name, value in read_run_metrics(run).items() if name.startswith(prefixes)}
    return {**by_step, "seconds": round(run.seconds, 1)}


def show_value(value: str | float | None) -> str:
    """A value for a table."""
    return "–" if value is None else show_number(value)
