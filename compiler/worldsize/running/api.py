"""`worldsize.run` and `worldsize.resume`: execute a spec or any pipeline on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs
from msgspec.structs import replace

from worldsize.azureml.references import classify
from worldsize.base import untrusted
from worldsize.base.wording import describe_os_error, plural
from worldsize.documents.secrecy.masking import HIDDEN
from worldsize.documents.secrecy.names import is_secret
from worldsize.running.engine.attempt import Restarting, RunContext
from worldsize.running.engine.hangs import HangWatcher
from worldsize.running.engine.schedule import Extensions, Schedule, catch_signals
from worldsize.running.engine.sweep import Sweep
from worldsize.running.environments.interpreters import Enter, make_interpreters
from worldsize.running.environments.layers import installed_version
from worldsize.running.launch.call import inherited_environment, make_interpreter_folder
from worldsize.running.launch.redaction import hide_in_compiled, redact_parameters
from worldsize.running.launch.reserve import MPI_PARENT, MPI_PREFIX, NODES_PREFIX, remove_abandoned_folders
from worldsize.running.launch.supervisor import GRACE_SECONDS, MARGIN_SECONDS, Supervisor
from worldsize.running.model.emulation import Emulate
from worldsize.running.model.errors import ResumeError
from worldsize.running.model.folder import HOME, RunFolder, read_reference
from worldsize.running.model.options import RunOptions
from worldsize.running.model.process import Process
from worldsize.running.model.results import DONE, RunResult, RunState, StepResult, View
from worldsize.running.model.task import Graph, Task, Text, read_default
from worldsize.running.prepare.preparation import Prepared, prepare
from worldsize.running.record.details import read_metrics, read_registrations
from worldsize.running.record.folder import (
    AliveError,
    EventLog,
    create_run_folder,
    find_foreign_link,
    find_runner,
    hold_lock,
    private_files,
)
from worldsize.running.record.history import RECORD, RunRecord, load_run
from worldsize.running.record.json_files import read_json, write_json
from worldsize.running.record.tracking import Tracking, run_tags
from worldsize.running.reuse.digests import Digests
from worldsize.running.reuse.step_cache import ReuseCache
from worldsize.running.reuse.store import Store
from worldsize.running.show.preview import preview_processes
from worldsize.running.show.views import MaskedView, QuietView

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
    emulate: Emulate | None = None,
) -> RunResult:
    """Run a spec or job file on this machine; see :func:`worldsize.run`.

    ``run_id`` is the id of the run, which names its folder and its run in MLflow; by default the time.
    ``name_step`` gives the id of a step's run in MLflow. ``checked`` means that a job was checked before, by
    rules of the caller's choice. ``emulate`` provides what the options may emulate.

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
            # other processes may look at the run
            lock = stack.enter_context(hold_lock(folder.root, patience=1.0))
            eager = options.force or Store(home).empty
            services = stack.enter_context(
                start_services(folder, home, lock, track=track, eager=eager, umask=umask)
            )
            prepared = prepare(
                Path(target), folder.pipeline, options, track=track, checked=checked, emulate=emulate
            )
            enter = stack.enter_context(
                make_interpreters(prepared.environments, home, services.supervisor, view.notice)
            )
            hide_in_compiled(folder.pipeline, prepared.mask)
            save_request(folder, prepared, track=track)
            folder.events.touch()
        except BaseException:  # nothing has run, so nothing is kept
            shutil.rmtree(folder.root, ignore_errors=True)
            raise
        return execute(prepared, folder, services, view=view, began=began, enter=enter)


@contextlib.contextmanager
def start_services(
    folder: RunFolder, home: Path, lock: int, *, track: bool, eager: bool, umask: int
) -> Iterator[Services]:
    """Start the processes that serve a run, while its pipeline is read.

    ``lock`` is the descriptor of the run's lock, ``umask`` that of the steps. With ``eager`` the tracker
    starts now, otherwise with the first step that runs.
    """
    remove_abandoned_folders(MPI_PREFIX, MPI_PARENT)
    remove_abandoned_folders(NODES_PREFIX)
    with contextlib.ExitStack() as stack:
        tracking = stack.enter_context(Tracking(home, wanted=track))
        if eager:
            tracking.start()
        environment = inherited_environment(make_interpreter_folder(folder.root))
        yield Services(home, tracking, stack.enter_context(Supervisor(environment, lock, umask)))


def dry_run(
    target: Target, options: RunOptions = RunOptions(), *, emulate: Emulate | None = None
) -> dict[str, tuple[Process, ...]]:
    """The processes that :func:`run` would start, by step; nothing is started or kept.

    Raises:
        SpecError: The spec or job has errors.
        RunError: It cannot be run on this machine.
    """
    with tempfile.TemporaryDirectory() as temporary:
        prepared = prepare(Path(target), Path(temporary) / "pipeline", options, emulate=emulate)
        return preview_processes(
            prepared.tasks, prepared.machine, prepared.experiment, prepared.emulation.preview, prepared.mask
        )


def resume(
    root: str | os.PathLike[str],
    *,
    settings: Mapping[str, str] | None = None,
    ask: Callable[[str], str] | None = None,
    view: View | None = None,
    emulate: Emulate | None = None,
) -> RunResult:
    """Resume the run in a folder; see :func:`worldsize.resume`.

    ``emulate`` provides what the options of the run may emulate.
    """
    began, view = time.monotonic(), view or QuietView()
    folder = RunFolder(Path(root).resolve())
    with contextlib.ExitStack() as stack:
        umask = stack.enter_context(private_files())
        lock = stack.enter_context(_hold_lock(folder.root))
        earlier = load_run(folder.root, mine=True)
        if earlier.state == "succeeded":
            raise ResumeError(f"run `{folder.id}` has succeeded", "run the pipeline again to repeat it")
        if (link := find_foreign_link(folder)) is not None:
            message = f"`{link.relative_to(folder.root)}` of run `{folder.id}` is a link out of its home"
            raise ResumeError(message, "run the pipeline again: resuming would write through it")
        request = _add_secrets(load_request(folder), folder, dict(settings or {}), ask)
        home = folder.root.parent.parent
        services = stack.enter_context(
            start_services(folder, home, lock, track=request.track, eager=True, umask=umask)
        )
        prepared = _prepare_again(request, folder, earlier, emulate)
        hide_in_compiled(folder.pipeline, prepared.mask)
        enter = stack.enter_context(
            make_interpreters(prepared.environments, home, services.supervisor, view.notice)
        )
        return execute(prepared, folder, services, view=view, began=began, enter=enter, earlier=earlier)


def _is_secret(request: RunRequest, name: str) -> bool:
    return name in request.withheld or is_secret(name)


def _add_secrets(
    request: RunRequest, folder: RunFolder, settings: Mapping[str, str], ask: Callable[[str], str] | None
) -> RunRequest:
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
            message = f"processes of run `{root.name}` are still being stopped"
            help_ = "try again in a minute"
        raise ResumeError(message, help_) from None


def _prepare_again(
    request: RunRequest, folder: RunFolder, earlier: RunRecord, emulate: Emulate | None
) -> Prepared:
    # What a fault of the user's interrupted is to end now, so that no fault is injected again.
    target, options = request.target, replace(request.options, kill=(), drop_link=(), chaos=None)
    if (fault := untrusted.find_fault(target)) is not None:
        raise ResumeError(f"`{target}` cannot be read: {fault}", "put the file back")
    if not target.exists():
        if not request.compiled:
            raise ResumeError(f"`{target}` is gone", "put it back, or run another pipeline")
        # It contains the settings already, except for secrets.
        kept = {name: text for name, text in options.settings.items() if _is_secret(request, name)}
        target, mode = folder.pipeline / "pipeline.yml", options.environment or "current"  # as its spec had
        options = replace(options, settings=kept, environment=mode)
    prepared = prepare(target, folder.pipeline, options, track=request.track, emulate=emulate)
    if target != request.target:
        _refuse_masked(prepared, request.target)
    lost = f"{plural(earlier.damaged, 'line')} of the event log cannot be read" if earlier.damaged else None
    if earlier.started is None:
        lost = "the beginning of the event log is missing"
    notices = [f"{lost}; steps that are not known to be done run again"] if lost else []
    return replace(prepared, target=request.target, notices=(*prepared.notices, *notices))


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


class Services(Struct, frozen=True):
    """The processes that serve a run, and the folder that runs share."""

    home: Path  # what runs share
    tracking: Tracking  # the line to MLflow
    supervisor: Supervisor  # forks the guards of the steps


def execute(
    prepared: Prepared,
    folder: RunFolder,
    services: Services,
    *,
    view: View,
    began: float,
    enter: Enter,
    earlier: RunRecord | None = None,
) -> RunResult:
    """Run every step of a prepared pipeline.

    ``began`` is the monotonic time at which the user began to wait; ``earlier`` is the record of a run that
    is resumed.
    """
    view, tracking = MaskedView(view, prepared.mask), services.tracking
    _describe_run(tracking, prepared, folder, again=earlier is not None)
    for text in prepared.notices:
        view.notice(text)
    with EventLog(folder.events, mask=prepared.mask) as log, view:
        if earlier is not None and earlier.died is not None:
            log.write("run_died", earlier.died)  # the files that tell when it did are written again
        event = "run_started" if earlier is None else "run_resumed"
        log.write(event, run=folder.id, pipeline=str(prepared.target), steps=list(prepared.tasks))
        context = RunContext(
            folder,
            dict(prepared.code),
            prepared.machine,
            log,
            services.supervisor,
            experiment=prepared.experiment,
            enter_environment=enter,
            place=prepared.emulation.place,
            mask=prepared.mask,
            environment=prepared.environments.mode,
        )
        with (
            catch_signals() as interrupts,
            make_extensions(
                prepared, context, services, view, stopping=interrupts.happened, earlier=earlier
            ) as extensions,
        ):
            steps = Schedule(
                prepared.tasks,
                context,
                extensions,
                view=view,
                tracking=tracking,
                interrupts=interrupts,
                keep_going=prepared.graph.keep_going,
            ).execute()
        result = _make_result(prepared, folder, steps, interrupts.received, time.monotonic() - began)
        _link_outputs(prepared.graph, folder, steps)
        result = _finish_tracking(tracking, result, log)
        log.write("run_ended", state=result.state, seconds=round(result.seconds, 3))
        if log.fault is not None:
            view.warn(f"the event log is incomplete: {describe_os_error(log.fault)}")
    return result


def _finish_tracking(tracking: Tracking, result: RunResult, log: EventLog) -> RunResult:
    """Close the record in MLflow; the result says where it is and what it lacks."""
    result = replace(result, tracking_uri=tracking.uri if tracking.started else None)
    tracking.finish(result.state, result.metrics)
    if tracking.unavailable:
        result = replace(result, untracked=tracking.unavailable, record_incomplete=tracking.incomplete)
        log.write("run_untracked", reason=tracking.unavailable, incomplete=tracking.incomplete)
    return result


def _describe_run(tracking: Tracking, prepared: Prepared, folder: RunFolder, *, again: bool) -> None:
    """Send the tracker what MLflow shows of the run."""
    parameters = {
        f"{task.name}.{name}": value
        for task in prepared.tasks.values()
        for name, value in redact_parameters(task.inputs, LONGEST_VALUE, prepared.mask).items()
    }
    name = prepared.job.display_name or prepared.job.name
    tracking.begin(
        prepared.experiment,
        prepared.mask.text(str(name.value)) if name else folder.id,
        lambda: run_tags(prepared.target, folder.id, prepared.target.absolute().parent),
        parameters,
        again=again,
        run_id=folder.id if folder.name_step is not None else None,
        name_step=folder.name_step,
    )


def _make_result(
    prepared: Prepared, folder: RunFolder, steps: Mapping[str, StepResult], signals: list[int], seconds: float
) -> RunResult:
    states = {step.state for step in steps.values() if step.parent is None}
    state: RunState = "succeeded" if states <= set(DONE) else "failed"
    if signals and state == "failed":
        state = "interrupted"
    outputs = {name: step.outputs for name, step in steps.items()}
    return RunResult(
        id=folder.id,
        folder=folder.root,
        state=state,
        steps=steps,
        seconds=seconds,
        metrics=read_metrics(outputs),
        registrations=tuple(
            # The reason that a step wrote for not registering may quote its inputs.
            replace(model, reason=prepared.mask.text(model.reason) if model.reason else None)
            for model in read_registrations(outputs)
        ),
        notices=tuple(map(prepared.mask.text, prepared.notices)),
        signal=signals[0] if signals else None,
    )


def _link_outputs(graph: Graph, folder: RunFolder, steps: Mapping[str, StepResult]) -> None:
    """Link the outputs that the pipeline declares, which users look for first."""
    for name, output in graph.outputs.items():
        path = steps[output.step].outputs.get(output.port)
        if path is not None and path.exists():
            with contextlib.suppress(OSError):
                folder.outputs.mkdir(exist_ok=True)
                (folder.outputs / name).symlink_to(path)


@contextlib.contextmanager
def make_extensions(
    prepared: Prepared,
    context: RunContext,
    services: Services,
    view: View,
    *,
    stopping: Callable[[], bool],
    earlier: RunRecord | None,
) -> Iterator[Extensions]:
    """Add what the options of a run ask for to its schedule, until the run ends.

    ``stopping`` ends the hashing of a long file.
    """
    run, max_restarts = context.run, prepared.options.max_restarts
    make_faults = prepared.emulation.make_faults
    faults = make_faults(view.notice) if make_faults is not None else None
    restarts = dict(prepared.restarts) if max_restarts is None else {}
    if faults is not None and max_restarts is None:
        restarts |= {name: max(restarts.get(name, 0), count) for name, count in faults.restarts.items()}
    store, done = Store(services.home), earlier.steps.values() if earlier is not None else ()
    yield Extensions(
        cache=ReuseCache(
            run,
            prepared.tasks,
            context.code,
            store,
            Digests(store.digests, stop=stopping),
            prepared.environments,
            view.notice,
            force=prepared.options.force or prepared.graph.force_rerun,
            earlier=frozenset(step.name for step in done if step.state in DONE),
        ),
        restarts=Restarting(max_restarts or 0, restarts, run.id, view.notice),
        watchers=[HangWatcher(view.notice).tick, *([faults.tick] if faults is not None else [])],
        expansions={
            name: Sweep(prepared.tasks[name], plan, run, services.tracking, context.log)
            for name, plan in prepared.graph.sweeps.items()
        },
    )
    for line in faults.report() if faults is not None else ():
        view.notice(line)


VERSION = 1
LONGEST_VALUE = 500  # characters; a longer text is data


class RunRequest(Struct, frozen=True):
    """The target and the options of a run."""

    target: Path
    options: RunOptions
    track: bool
    compiled: bool  # from a spec; the compiled pipeline is in the run's folder
    withheld: tuple[str, ...] = ()  # of `--set`: secrets, whose values are not stored


def save_request(folder: RunFolder, prepared: Prepared, *, track: bool) -> None:
    """Write the request, with the needs and parameters of each step."""
    withheld = [
        name
        for name, value in prepared.options.settings.items()
        if is_secret(name) or prepared.mask.text(value) != value
    ]
    document = {
        "version": VERSION,
        "target": str(prepared.target.absolute()),
        "reference": read_reference(prepared.target),
        "title": prepared.mask.text(prepared.title),
        "options": _describe_options(prepared.options, withheld),
        "withheld": withheld,
        "track": track,
        "compiled": (folder.pipeline / "pipeline.yml").exists(),
        "cwd": str(Path.cwd()),
        "worldsize": installed_version("worldsize"),
        "python": sys.version.split()[0],
        "steps": {
            name: {
                "needs": sorted(task.needs),
                "parameters": redact_parameters(task.inputs, LONGEST_VALUE, prepared.mask),
                "defaults": _find_defaults(task),
            }
            for name, task in prepared.tasks.items()
        },
    }
    write_json(folder.root / RECORD, document, flush=True)


def _find_defaults(task: Task) -> list[str]:
    """The parameters of a step that have the default of its component."""
    ports = task.component.inputs.items()
    declared = {name: read_default(port) for name, port in ports if port.default is not None}
    return sorted(name for name, text in declared.items() if task.inputs.get(name) == text)


def load_request(folder: RunFolder) -> RunRequest:
    """Read the request of a run.

    Raises:
        ResumeError: There is none, or it is damaged or of a newer version.
    """
    path, name = folder.root / RECORD, f"run `{folder.id}`"
    document = read_json(path)
    again = "run the pipeline again"
    if document is None and not path.exists():
        help_ = f"it stopped before its first step: {again}"
        raise ResumeError(f"{name} has no record of what it ran", help_)
    written = document.get("version") if document is not None else None
    if isinstance(written, int) and written > VERSION:
        message = f"{name} was made by a newer Worldsize, {document.get('worldsize')}" if document else name
        raise ResumeError(message, "resume it with that version, or a newer one")
    try:
        if written == VERSION:
            return msgspec.convert(document, RunRequest, dec_hook=lambda kind, text: kind(text))
    except (TypeError, ValueError):
        pass
    raise ResumeError(f"`{RECORD}` of {name} is damaged, so what it ran is not known", again)


def _describe_options(options: RunOptions, withheld: Collection[str]) -> dict[str, Any]:
    """The options as JSON, without secrets, and with absolute paths."""
    values = structs.asdict(options)
    values["settings"] = {name: text for name, text in options.settings.items() if name not in withheld}
    values["assets"] = {
        name: os.path.abspath(path) if classify(path) == "local" else path  # noqa: PTH100 - no link is followed
        for name, path in options.assets.items()
    }
    return values
