"""`worldsize.run`: a spec or any pipeline, executed on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from worldsize.running import execution
from worldsize.running.environments import interpreters
from worldsize.running.nodes import namespaces
from worldsize.running.options import RunOptions
from worldsize.running.preparing import preparation
from worldsize.running.recording import folder, life, privacy, record, tracking
from worldsize.running.results import RunResult
from worldsize.running.reuse.store import Store
from worldsize.running.showing import preview
from worldsize.running.showing.view import Quiet, View
from worldsize.running.starting import contract, private, scratch
from worldsize.running.starting.processes import Process
from worldsize.running.supervising.supervise import Warden

Target = str | os.PathLike[str]


def run(
    target: Target,
    options: RunOptions = RunOptions(),
    *,
    runs_dir: Target = folder.HOME,
    track: bool = True,
    view: View | None = None,
) -> RunResult:
    """Run a spec, a compiled pipeline or a native Azure ML pipeline or command job on this machine.

    A spec is checked, planned and compiled first; what runs is the compiled pipeline. A plan for more
    processes than there are GPUs (or cores) runs with as many as fit and more accumulation, so that the
    global batch stays the same.

    Args:
        target: The spec or job file.
        options: How to run it.
        runs_dir: Where runs, MLflow's database and artifacts are kept.
        track: Whether MLflow records the run; without MLflow installed it does not, and says so.
        view: Shows what goes on; by default nothing does.

    Returns:
        The finished run. A failed step is no exception: see :attr:`RunResult.state`.

    Raises:
        SpecError: The spec or job has errors. Nothing was started.
        RunError: It cannot be run on this machine. Nothing was started.
        OSError: The runs' folder cannot be written.
    """
    home, path = Path(runs_dir), Path(target)
    begun, shown = time.monotonic(), view or Quiet()
    with contextlib.ExitStack() as stack:
        umask = stack.enter_context(privacy.private_files())
        place = folder.create(home)
        try:
            lock = stack.enter_context(life.held(place.root, patience=1.0))  # for others who look at it
            eager = options.force or Store(home).empty
            staff = stack.enter_context(office(place, home, lock, track=track, eager=eager, umask=umask))
            prepared = preparation.prepare(path, place.pipeline, options, track=track)
            environments = interpreters.made(prepared.environments, home, staff[1], shown.notice)
            entered = stack.enter_context(environments)
            privacy.hide_in_compiled(place.pipeline, prepared.mask)
            record.save(place, prepared, track=track)
            place.events.touch()
        except BaseException:  # nothing has run, and a run of nothing says nothing to anybody
            shutil.rmtree(place.root, ignore_errors=True)
            raise
        return execution.execute(prepared, place, home, *staff, view=shown, begun=begun, interpreters=entered)


@contextlib.contextmanager
def office(
    place: folder.RunFolder, home: Path, lock: int, *, track: bool, eager: bool, umask: int
) -> Iterator[tuple[tracking.Tracking, Warden]]:
    """The processes that serve a run, which start while its pipeline is read.

    Args:
        place: The run's folder.
        home: What runs share.
        lock: The descriptor of the run's lock.
        track: Whether MLflow records the run.
        umask: Of the steps.
        eager: Whether the tracker is certainly needed; else it starts with the first step that is run.
    """
    private.sweep()
    scratch.sweep(namespaces.PREFIX)
    with contextlib.ExitStack() as stack:
        tracker = stack.enter_context(tracking.Tracking(home, wanted=track))
        if eager:
            tracker.start()
        environment = contract.inherited(contract.interpreter_folder(place.root))
        yield tracker, stack.enter_context(Warden(environment, lock, umask))


def dry_run(target: Target, options: RunOptions = RunOptions()) -> dict[str, tuple[Process, ...]]:
    """The processes that :func:`run` would start, by step; nothing is started or kept.

    Raises:
        SpecError: The spec or job has errors.
        RunError: It cannot be run on this machine.
    """
    with tempfile.TemporaryDirectory() as temporary:
        prepared = preparation.prepare(Path(target), Path(temporary) / "pipeline", options)
        return preview.plan(
            prepared.tasks, prepared.machine, prepared.experiment, prepared.emulation.shown, prepared.mask
        )
