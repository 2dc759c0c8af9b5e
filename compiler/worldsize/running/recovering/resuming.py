"""`worldsize.resume`: a run whose runner or machine died, or that failed, goes on where it was."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from worldsize.planning.numbers import plural
from worldsize.running import api
from worldsize.running.environments import interpreters
from worldsize.running.execution import execute
from worldsize.running.preparing import preparation
from worldsize.running.preparing.preparation import Prepared
from worldsize.running.recording import history, life, privacy, record
from worldsize.running.recording.folder import RunFolder
from worldsize.running.recording.history import RunRecord
from worldsize.running.recording.record import Asked
from worldsize.running.results import RunResult
from worldsize.running.showing.view import Quiet, View
from worldsize.running.starting.sources import Text
from worldsize.running.supervising.supervise import GRACE_SECONDS, MARGIN_SECONDS
from worldsize.secrecy.masking import HIDDEN
from worldsize.secrecy.names import is_secret


class ResumeError(Exception):
    """A run cannot go on; it is as it was. ``help`` says what to do."""

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
    """Go on with a run: steps that had succeeded and whose outputs are what they were are not run again.

    The spec or pipeline is read again, and a step that has changed runs again, as do those that read what it
    makes. Where a spec is gone, what it was compiled to is still in the run's folder. A step that was
    interrupted begins anew, but finds its output named ``checkpoints`` as it was.

    Args:
        root: The run's folder.
        settings: The secrets among the values that the run was given: they are not kept.
        ask: Gives the value of a secret that ``settings`` lacks; without it the run cannot go on.
        view: Shows what goes on; by default nothing does.

    Returns:
        The finished run, as of :func:`worldsize.run`; its ``seconds`` are those since it was resumed.

    Raises:
        ResumeError: The run goes on, has succeeded, or says too little of itself.
        SpecError: The pipeline has errors now.
        RunError: The pipeline cannot be run on this machine now.
        OSError: The run's folder cannot be read or written.
    """
    begun = time.monotonic()
    place = RunFolder(Path(root).resolve())
    with contextlib.ExitStack() as stack:
        umask = stack.enter_context(privacy.private_files())
        lock = stack.enter_context(_held(place.root))
        earlier = history.load(place.root, mine=True)
        if earlier.state == "succeeded":
            raise ResumeError(f"run `{place.id}` has succeeded", "run the pipeline again to repeat it")
        try:
            asked = record.load(place)
        except record.RecordError as error:
            raise ResumeError(str(error), error.help) from None
        asked = _with_secrets(asked, place, dict(settings or {}), ask)
        home = place.root.parent.parent
        office = stack.enter_context(
            api.office(place, home, lock, track=asked.track, eager=True, umask=umask)
        )
        prepared = _prepare(asked, place, earlier)
        privacy.hide_in_compiled(place.pipeline, prepared.mask)
        shown = view or Quiet()
        environments = interpreters.made(prepared.environments, home, office[1], shown.notice)
        entered = stack.enter_context(environments)
        return execute(
            prepared, place, home, *office, view=shown, begun=begun, earlier=earlier, interpreters=entered
        )


def _is_secret(asked: Asked, name: str) -> bool:
    return name in asked.withheld or is_secret(name)


def _with_secrets(
    asked: Asked, place: RunFolder, given: Mapping[str, str], ask: Callable[[str], str] | None
) -> Asked:
    """What was asked for with the secrets that were given then, given once more."""
    for name in given:
        if not _is_secret(asked, name):
            help_ = "run the pipeline again to change it"
            raise ResumeError(f"`{name}` is not a secret, and stays as the run was given it", help_)
    found = {**asked.options.settings, **given}
    missing = [name for name in asked.withheld if name not in found]
    if missing and ask is None:
        names = ", ".join(f"`{name}`" for name in missing)
        words = " ".join(f"--set {name}=…" for name in missing)
        message = f"run `{place.id}` was given {names}, and the values of secrets are not kept"
        raise ResumeError(message, f"give {'it' if len(missing) == 1 else 'them'} again: `{words}`")
    found |= {name: ask(name) for name in missing if ask is not None}
    return replace(asked, options=replace(asked.options, settings=found))


@contextlib.contextmanager
def _held(root: Path) -> Iterator[int]:
    """The run's lock; what its dead runner left is given the time that it may take to end."""
    try:
        with life.held(root, patience=GRACE_SECONDS + MARGIN_SECONDS) as lock:
            yield lock
    except life.AliveError:
        said = f"run `{root.name}` goes on"
        help_ = f"follow it with `worldsize logs {root.name} STEP --follow`"
        if life.runner(root) is None:
            said, help_ = f"processes of run `{root.name}` are still being ended", "try again in a minute"
        raise ResumeError(said, help_) from None


def _prepare(asked: Asked, place: RunFolder, earlier: RunRecord) -> Prepared:
    target, options = asked.target, asked.options
    if not target.exists():
        if not asked.compiled:
            raise ResumeError(f"`{target}` is gone", "put it back, or run another pipeline")
        # The settings are in it already, but for secrets.
        kept = {name: text for name, text in options.settings.items() if _is_secret(asked, name)}
        target, options = place.pipeline / "pipeline.yml", replace(options, settings=kept)
    prepared = preparation.prepare(target, place.pipeline, options, track=asked.track)
    if target != asked.target:
        _refuse_masked(prepared, asked.target)
    notices = [*prepared.notices]
    if earlier.started is None:
        notices.append("the event log has no beginning; what is not known to be done runs again")
    elif earlier.damaged:
        lines = plural(earlier.damaged, "line")
        notices.append(f"{lines} of the event log cannot be read; what is not known to be done runs again")
    return replace(prepared, target=asked.target, notices=tuple(notices))


def _refuse_masked(prepared: Prepared, spec: Path) -> None:
    """A compiled copy has no secrets; where the spec is gone they have to be given."""
    for task in prepared.tasks.values():
        masked = [
            f"{task.name}.{name}"
            for name, source in task.inputs.items()
            if isinstance(source, Text) and HIDDEN in source.rendered
        ]
        if masked:
            message = f"`{spec}` is gone, and the copy of it does not hold the secret `{masked[0]}`"
            raise ResumeError(message, f"put it back, or add `--set {masked[0]}=…`")
        if HIDDEN in task.environment_variables.values():
            message = f"`{spec}` is gone, and the copy of it does not hold the secrets of step `{task.name}`"
            raise ResumeError(message, "put it back")
