"""What a file given to `run` is: a spec, a job, or something that is neither and is told so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.running.errors import RunError

# Errors of the check that a run gets over, and mentions: a binding with text around it is put together,
# which the service may not do; an input that the component does not have is passed over.
MENTIONED = frozenset({"WS612", "WS624"})


def pipeline_file(target: Path, out: Path, settings: Mapping[str, str]) -> tuple[Path, Mapping[str, str]]:
    """The job file to run: the target itself, checked, or what the spec compiles to.

    Args:
        target: What the user named.
        out: Where a spec is compiled to.
        settings: Values for inputs, by name.

    Returns:
        The file, and the settings that are still to be applied to it.

    Raises:
        SpecError: The file has errors.
        RunError: It is nothing that can be run.
    """
    from worldsize import checking  # noqa: PLC0415 - the callers' import of this module stays quick
    from worldsize.api import compile as compile_spec  # noqa: PLC0415
    from worldsize.checking import boundary, discover  # noqa: PLC0415
    from worldsize.errors import SpecError  # noqa: PLC0415
    from worldsize.running.preparing import spec_settings  # noqa: PLC0415
    from worldsize.yaml import load  # noqa: PLC0415

    document = load(target)
    kind = discover.kind_of(document, named=True)
    if kind == "spec" or (kind is None and not _may_be_job(document.root)):
        if not settings:
            return compile_spec(target, out).pipeline, {}
        text, problems = spec_settings.apply(target, settings)
        if problems:
            raise RunError(problems)
        return compile_spec(target, out, text=text).pipeline, {}
    refused = _refused(kind, target, document.root)
    if refused is not None:
        raise RunError([Problem("run-refused", Span(str(target), 1, 1, 1, 1), *refused)])
    report = checking.check([target])
    checking.refuse_incomplete(report)
    if wrong := tuple(found for found in report.errors if found.code not in MENTIONED):
        raise SpecError(wrong, report.sources)
    if outside := boundary.as_errors(report.diagnostics, boundary.find_allowed(target)):
        raise SpecError(outside, report.sources)
    return target, settings


def _may_be_job(root: object) -> bool:
    from worldsize.yaml import Mapping as YamlMapping  # noqa: PLC0415

    return isinstance(root, YamlMapping) and bool({"jobs", "command", "type"} & set(root))


def _refused(kind: str | None, target: Path, root: object) -> tuple[str, str] | None:
    """Why a file of ours or Azure ML's is not run, and what is."""
    name = target.name
    if kind is not None and kind.endswith("-component"):
        help_ = f"write a pipeline with a step that says `component: ./{name}`, and run that"
        return f"`{name}` is a component, which is run as a step of a pipeline", help_
    if kind == "schedule":
        return f"`{name}` is a schedule", f"run the job that it starts{_scheduled(target, root)}"
    if kind in ("compute", "data", "environment"):
        return f"`{name}` describes {'an' if kind == 'environment' else 'a'} {kind} and is no job", _RUN
    if kind == "settings":
        return f"`{name}` holds the settings of a project", _RUN
    if kind == "other":
        return _of_the_service(name, root)
    return None


_RUN = "run a spec, a pipeline or a command, sweep or parallel job"


def _scheduled(target: Path, root: object) -> str:
    from worldsize.azureml import schedule  # noqa: PLC0415 - nobody runs schedules on purpose
    from worldsize.azureml.files import Files  # noqa: PLC0415
    from worldsize.yaml import Mapping as YamlMapping  # noqa: PLC0415

    if not isinstance(root, YamlMapping):
        return ""
    found, _ = schedule.read_schedule(root, target, Files(), lambda _: False)
    return f": `worldsize run {found.target}`" if found.target is not None else ""


def _of_the_service(name: str, root: object) -> tuple[str, str]:
    from worldsize.running.graph import faults  # noqa: PLC0415
    from worldsize.yaml import Mapping as YamlMapping  # noqa: PLC0415
    from worldsize.yaml import Scalar  # noqa: PLC0415

    given = root.get("type") if isinstance(root, YamlMapping) else None
    kind = given.text.lower() if isinstance(given, Scalar) else ""
    if kind in faults.KINDS:
        what, help_ = faults.KINDS[kind]
        return f"`{name}` is {what}", help_
    return f"`{name}` is nothing that runs", _RUN
