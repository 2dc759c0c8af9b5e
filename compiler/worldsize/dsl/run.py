"""`worldsize.run` and `resume`: runs on this machine, with what `worldsize.lab` emulates."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from worldsize.dsl.verbs import Target, find_file
from worldsize.lab import emulate
from worldsize.running import api
from worldsize.running.model.options import RunOptions
from worldsize.running.model.process import Process
from worldsize.running.model.results import RunResult, View


def run(
    target: Target,
    options: RunOptions | None = None,
    *,
    runs_dir: str | os.PathLike[str] = ".worldsize",
    track: bool = True,
    view: View | None = None,
) -> RunResult:
    """Run a spec, a compiled pipeline, a native pipeline or job, or a pipeline in Python on this machine.

    A spec is checked, planned and compiled first; what runs is the compiled pipeline. A plan for more
    processes than there are GPUs (or cores) runs with as many as fit and more accumulation, so that the
    global batch stays the same.

    Args:
        target: The spec or job file; also ``"file.py:function"``, whose code runs, or a pipeline job of
            azure-ai-ml.
        options: How to run it.
        runs_dir: Where runs, MLflow's database and artifacts are kept.
        track: Whether MLflow records the run; without MLflow installed it does not, and says so.
        view: Shows the run; by default nothing does.

    Returns:
        The finished run. A failed step does not raise: see ``RunResult.state``.

    Raises:
        PipelineError: The pipeline cannot be loaded.
        SpecError: The spec or job has errors. Nothing was started.
        RunError: It cannot be run on this machine. Nothing was started.
        OSError: The runs' folder cannot be written.
    """
    return api.run(
        find_file(target), options or RunOptions(), runs_dir=runs_dir, track=track, view=view, emulate=emulate
    )


def dry_run(target: Target, options: RunOptions) -> dict[str, tuple[Process, ...]]:
    """The processes that :func:`run` would start, by step; nothing is started or kept.

    Raises:
        PipelineError, SpecError, RunError: As :func:`run`.
    """
    return api.dry_run(find_file(target), options, emulate=emulate)


def resume(
    root: str | os.PathLike[str],
    *,
    settings: Mapping[str, str] | None = None,
    ask: Callable[[str], str] | None = None,
    view: View | None = None,
) -> RunResult:
    """Resume a run: steps that have succeeded and whose outputs are unchanged do not run again.

    The spec or pipeline is read again. A step that has changed runs again, and so do the steps that read its
    outputs. If a spec is gone, its compiled pipeline in the run's folder is used. A step that was
    interrupted starts from the beginning, but its output named ``checkpoints`` is kept.

    Args:
        root: The run's folder.
        settings: The secrets among the values that the run was given, which are not stored.
        ask: Gives the value of a secret that ``settings`` lacks; without it the run cannot be resumed.
        view: Shows the run; by default nothing does.

    Returns:
        The finished run, as of :func:`worldsize.run`; its ``seconds`` are those since it was resumed.

    Raises:
        ResumeError: The run is active, has succeeded, or lacks a usable record.
        SpecError: The pipeline has errors now.
        RunError: The pipeline cannot be run on this machine now.
        OSError: The run's folder cannot be read or written.
    """
    return api.resume(root, settings=settings, ask=ask, view=view, emulate=emulate)
