"""`worldsize.run` and `worldsize.resume`: execute a spec or any pipeline on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from worldsize.base import untrusted
from worldsize.base.wording import plural
from worldsize.documents.secrecy.masking import HIDDEN
from worldsize.documents.secrecy.names import is_secret
from worldsize.running.api.execution import Services, execute
from worldsize.running.environments.interpreters import make_interpreters
from worldsize.running.launch.call import inherited_environment, make_interpreter_folder
from worldsize.running.launch.redaction import hide_in_compiled
from worldsize.running.launch.reserve import remove_abandoned_folders, remove_abandoned_mpi_folders
from worldsize.running.launch.supervisor import GRACE_SECONDS, MARGIN_SECONDS, Supervisor
from worldsize.running.model.folder import HOME, RunFolder
from worldsize.running.model.options import RunOptions
from worldsize.running.model.process import Process
from worldsize.running.model.results import RunResult, View
from worldsize.running.model.source import Text
from worldsize.running.nodes import namespaces
from worldsize.running.prepare.preparation import Prepared, prepare
from worldsize.running.record.folder import (
    AliveError,
    create_run_folder,
    find_runner,
    hold_lock,
    private_files,
)
from worldsize.running.record.history import RunRecord, load_run
from worldsize.running.record.request import RequestError, RunRequest, load_request, save_request
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
    run_id: str | None = None,
    name_step: Callable[[str], str] | None = None,
    checked: bool = False,
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
        run_id: The id of the run, which names its folder and its run in MLflow; by default the time.
        name_step: Gives the id of a step's run in MLflow; by default MLflow chooses it.
        checked: Whether a job was checked before, by rules of the caller's choice.

    Returns:
        The finished run. A failed step does not raise: see :attr:`RunResult.state`.

    Raises:
        SpecError: The spec or job has errors. Nothing was started.
        RunError: It cannot be run on this machine. Nothing was started.
        OSError: The runs' folder cannot be written, or holds a run of this id.
    """
    home, began, view = Path(runs_dir), time.monotonic(), view or QuietView()
    with contextlib.ExitStack() as stack:
        umask = stack.enter_context(private_files())
        folder = replace(create_run_folder(home, run_id=run_id), name_step=name_step)
        try:
            lock = stack.enter_context(
                hold_lock(folder.root, patience=1.0)
            )  # other processes may look at the run
            eager = options.force or Store(home).empty
            services = stack.enter_context(
                start_services(folder, home, lock, track=track, eager=eager, umask=umask)
            )
            prepared = prepare(Path(target), folder.pipeline, options, track=track, checked=checked)
            interpreters = stack.enter_context(
                make_interpreters(prepared.environments, home, services.supervisor, view.notice)
            )
            hide_in_compiled(folder.pipeline, prepared.mask)
            save_request(folder, prepared, track=track)
            folder.events.touch()
        except BaseException:  # nothing has run, so nothing is kept
            shutil.rmtree(folder.root, ignore_errors=True)
            raise
        return execute(prepared, folder, services, view=view, began=began, interpreters=interpreters)


@contextlib.contextmanager
def start_services(
    folder: RunFolder, home: Path, lock: int, *, track: bool, eager: bool, umask: int
) -> Iterator[Services]:
    """Start the processes that serve a run, while its pipeline is read.

    ``lock`` is the descriptor of the run's lock, ``umask`` that of the steps. With ``eager`` the tracker
    starts now, otherwise with the first step that runs.
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
            prepared.tasks, prepared.machine, prepared.experiment, prepared.emulation.preview, prepared.mask
        )


class ResumeError(Exception):
    """A run cannot be resumed and is unchanged. ``help`` says what to do."""

    def __init__(self, message: str, help: str) -> None:  # noqa: A002 - the word diagnostics use
        super().__init__(message)
        self.help = help


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
    began, view = time.monotonic(), view or QuietView()
    folder = RunFolder(Path(root).resolve())
    with contextlib.ExitStack() as stack:
        umask = stack.enter_context(private_files())
        lock = stack.enter_context(_hold_lock(folder.root))
        earlier = load_run(folder.root, mine=True)
        if earlier.state == "succeeded":
            raise ResumeError(f"run `{folder.id}` has succeeded", "run the pipeline again to repeat it")
        try:
            request = load_request(folder)
        except RequestError as error:
            raise ResumeError(str(error), error.help) from None
        request = _add_secrets(request, folder, dict(settings or {}), ask)
        home = folder.root.parent.parent
        services = stack.enter_context(
            start_services(folder, home, lock, track=request.track, eager=True, umask=umask)
        )
        prepared = _prepare_again(request, folder, earlier)
        hide_in_compiled(folder.pipeline, prepared.mask)
        interpreters = stack.enter_context(
            make_interpreters(prepared.environments, home, services.supervisor, view.notice)
        )
        return execute(
            prepared, folder, services, view=view, began=began, interpreters=interpreters, earlier=earlier
        )


def _is_secret(request: RunRequest, name: str) -> bool:
    return name in request.withheld or is_secret(name)


def _add_secrets(
    request: RunRequest, folder: RunFolder, settings: Mapping[str, str], ask: Callable[[str], str] | None
) -> RunRequest:
    """The request with the secrets that it does not store."""
    for name in settings:
        if not _is_secret(request, name):
            help_ = "run the pipeline again to change it"
            raise ResumeError(f"`{name}` is not a secret, and a resumed run keeps its value", help_)
    complete = {**request.options.settings, **settings}
    missing = [name for name in request.withheld if name not in complete]
    if missing and ask is None:
        names = ", ".join(f"`{name}`" for name in missing)
        words = " ".join(f"--set {name}=…" for name in missing)
        message = f"run `{folder.id}` was given {names}, and Worldsize does not store secrets"
        raise ResumeError(message, f"give {'it' if len(missing) == 1 else 'them'} again: `{words}`")
    complete |= {name: ask(name) for name in missing if ask is not None}
    return replace(request, options=replace(request.options, settings=complete))


@contextlib.contextmanager
def _hold_lock(root: Path) -> Iterator[int]:
    """Hold the run's lock; wait for the processes of a dead runner to end."""
    try:
        with hold_lock(root, patience=GRACE_SECONDS + MARGIN_SECONDS) as lock:
            yield lock
    except AliveError:
        message = f"run `{root.name}` is still active"
        help_ = f"follow it with `worldsize logs {root.name} STEP --follow`"
        if find_runner(root) is None:
            message, help_ = (
                f"processes of run `{root.name}` are still being stopped",
                "try again in a minute",
            )
        raise ResumeError(message, help_) from None


def _prepare_again(request: RunRequest, folder: RunFolder, earlier: RunRecord) -> Prepared:
    target, options = request.target, request.options
    if (fault := untrusted.find_fault(target)) is not None:
        raise ResumeError(f"`{target}` cannot be read: {fault}", "put the file back")
    if not target.exists():
        if not request.compiled:
            raise ResumeError(f"`{target}` is gone", "put it back, or run another pipeline")
        # It contains the settings already, except for secrets.
        kept = {name: text for name, text in options.settings.items() if _is_secret(request, name)}
        target, options = folder.pipeline / "pipeline.yml", replace(options, settings=kept)
    prepared = prepare(target, folder.pipeline, options, track=request.track)
    if target != request.target:
        _refuse_masked(prepared, request.target)
    notices = [*prepared.notices]
    if earlier.started is None:
        notices.append(
            "the beginning of the event log is missing; steps that are not known to be done run again"
        )
    elif earlier.damaged:
        lines = plural(earlier.damaged, "line")
        notices.append(
            f"{lines} of the event log cannot be read; steps that are not known to be done run again"
        )
    return replace(prepared, target=request.target, notices=tuple(notices))


def _refuse_masked(prepared: Prepared, spec: Path) -> None:
    """Refuse a compiled copy whose secrets are masked, because its spec is gone and they were not given."""
    for task in prepared.tasks.values():
        masked = [
            f"{task.name}.{name}"
            for name, source in task.inputs.items()
            if isinstance(source, Text) and HIDDEN in source.rendered
        ]
        if masked:
            message = f"`{spec}` is gone, and its copy does not contain the secret `{masked[0]}`"
            raise ResumeError(message, f"put it back, or add `--set {masked[0]}=…`")
        if HIDDEN in task.environment_variables.values():
            message = f"`{spec}` is gone, and its copy does not contain the secrets of step `{task.name}`"
            raise ResumeError(message, "put it back")
