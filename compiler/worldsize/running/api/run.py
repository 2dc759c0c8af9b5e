"""`worldsize.run`: a spec or any pipeline, executed on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from worldsize.running.api.execution import Services, execute
from worldsize.running.environments.interpreters import make_interpreters
from worldsize.running.launch.call import inherited_environment, make_interpreter_folder
from worldsize.running.launch.redaction import hide_in_compiled
from worldsize.running.launch.reserve import remove_abandoned_folders, remove_abandoned_mpi_folders
from worldsize.running.launch.supervisor import Supervisor
from worldsize.running.model.folder import HOME, RunFolder
from worldsize.running.model.options import RunOptions
from worldsize.running.model.process import Process
from worldsize.running.model.results import RunResult
from worldsize.running.model.view import View
from worldsize.running.nodes import namespaces
from worldsize.running.prepare.preparation import prepare
from worldsize.running.record.folder import create_run_folder, hold_lock, private_files
from worldsize.running.record.request import save_request
from worldsize.running.record.tracking import Tracking
from worldsize.running.reuse.store import Store
from worldsize.running.show.preview import preview_processes
from worldsize.running.show.views import QuietView

Target = str | os.PathLike[str]


def run(
    target: Target,
    options: RunOptions = RunOptions(),
    *,
    runs_dir: Target = HOME,
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
        view: Shows the run; by default nothing does.

    Returns:
        The finished run. A failed step does not raise: see :attr:`RunResult.state`.

    Raises:
        SpecError: The spec or job has errors. Nothing was started.
        RunError: It cannot be run on this machine. Nothing was started.
        OSError: The runs' folder cannot be written.
    """
    home, began, view = Path(runs_dir), time.monotonic(), view or QuietView()
    with contextlib.ExitStack() as stack:
        umask = stack.enter_context(private_files())
        folder = create_run_folder(home)
        try:
            lock = stack.enter_context(hold_lock(folder.root, patience=1.0))  # others may look at the run
            eager = options.force or Store(home).empty
            services = stack.enter_context(
                start_services(folder, home, lock, track=track, eager=eager, umask=umask)
            )
            prepared = prepare(Path(target), folder.pipeline, options, track=track)
            interpreters = stack.enter_context(
                make_interpreters(prepared.environments, home, services.supervisor, view.notice)
            )
            hide_in_compiled(folder.pipeline, prepared.mask)
            save_request(folder, prepared, track=track)
            folder.events.touch()
        except BaseException:  # nothing has run, so there is nothing to keep
            shutil.rmtree(folder.root, ignore_errors=True)
            raise
        return execute(prepared, folder, services, view=view, began=began, interpreters=interpreters)


@contextlib.contextmanager
def start_services(
    folder: RunFolder, home: Path, lock: int, *, track: bool, eager: bool, umask: int
) -> Iterator[Services]:
    """The processes that serve a run; they start while its pipeline is read.

    Args:
        folder: The run's folder.
        home: What runs share.
        lock: The descriptor of the run's lock.
        track: Whether MLflow records the run.
        umask: Of the steps.
        eager: Whether the tracker is certainly needed; else it starts with the first step that runs.
    """
    remove_abandoned_mpi_folders()
    remove_abandoned_folders(namespaces.PREFIX)
    with contextlib.ExitStack() as stack:
        tracking = stack.enter_context(Tracking(home, wanted=track))
        if eager:
            tracking.start()
        environment = inherited_environment(make_interpreter_folder(folder.root))
        yield Services(home, tracking, stack.enter_context(Supervisor(environment, lock, umask)))


def dry_run(target: Target, options: RunOptions = RunOptions()) -> dict[str, tuple[Process, ...]]:
    """The processes that :func:`run` would start, by step; nothing is started or kept.

    Raises:
        SpecError: The spec or job has errors.
        RunError: It cannot be run on this machine.
    """
    with tempfile.TemporaryDirectory() as temporary:
        prepared = prepare(Path(target), Path(temporary) / "pipeline", options)
        return preview_processes(
            prepared.tasks, prepared.machine, prepared.experiment, prepared.emulation.shown, prepared.mask
        )
