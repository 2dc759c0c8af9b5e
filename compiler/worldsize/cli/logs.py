"""`worldsize logs`: prints the logs of a step's processes."""

from __future__ import annotations

import contextlib
import glob
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import click

from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import quoted_list
from worldsize.cli import common, run_folders, workspace_options
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.remote import jobs
from worldsize.remote.logs import RemoteLogs
from worldsize.remote.rest import Rest
from worldsize.running.launch.logs import Follower, by_number
from worldsize.running.record import history
from worldsize.running.record.folder import is_alive
from worldsize.running.record.history import load_run

TICK_SECONDS = 0.1
AZURE_TICK_SECONDS = 2.0
EPILOG = """\b
Examples:
  worldsize logs train                        of the newest run, every process one after the other
  worldsize logs last train --rank 3 --follow the log of rank 3, until the step ends
  worldsize logs last train --process ps-0    a process that has no rank
  worldsize logs 2026 train --lines 20        the end of each
  worldsize logs last train --attempt 1       what it wrote before it was restarted or resumed
  worldsize logs JOB train --azure --follow   of a job in a workspace in Azure

RUN may be left out: it is the newest. STEP may be left out where the run has one step.
"""


@click.command(epilog=EPILOG)
@click.argument("run", metavar="[RUN]", default="last", shell_complete=run_folders.complete_runs_and_steps)
@click.argument("step", metavar="[STEP]", required=False, shell_complete=run_folders.complete_steps)
@run_folders.runs_dir
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="Only this rank.")
@click.option("--process", metavar="NAME", help="Only this process: the name of its log, without `.log`.")
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of a step that was restarted or resumed: what this attempt wrote. The default is the newest.",
)
@click.option("-f", "--follow", is_flag=True, help="Continue until the step ends.")
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="Only the last lines of each.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: an object for each line.")
@workspace_options.of_azure
def command(
    run: str,
    step: str | None,
    home: Path,
    rank: int | None,
    process: str | None,
    *,
    attempt: int | None,
    azure: WorkspaceChoice | None,
    follow: bool,
    lines: int | None,
    as_json: bool,
) -> None:
    """Print a step's logs; with several processes each line names its process."""
    if rank is not None and process is not None:
        raise click.UsageError("give --rank or --process, not both")
    if attempt is not None and azure is not None:
        raise click.UsageError("`--attempt` is for runs here: Azure ML keeps the logs of the newest attempt")
    with contextlib.ExitStack() as stack:
        if azure is None:
            logs: _LocalLogs | RemoteLogs = _open_local(*_find_local(home, run, step), attempt)
        else:
            logs = _open_remote(stack.enter_context(azure.connect()), run, step)
        tick = TICK_SECONDS if azure is None else AZURE_TICK_SECONDS
        _print(logs, _Selection(rank, process, lines, as_json), follow=tick if follow else None)


def _find_local(home: Path, run: str, step: str | None) -> tuple[Path, str | None]:
    """The folder of the run, and the step; a word may name a step of the newest run."""
    if step is None and run != "last":
        with contextlib.suppress(LookupError):
            newest = history.find_run(home, "last")
            is_run = any(root.name.startswith(run) for root in history.list_runs(home))
            if not is_run and run in history.load_run(newest).steps:
                return newest, run
    return run_folders.find_run(home, run), step


def _open_remote(rest: Rest, run: str, step: str | None) -> RemoteLogs:
    job = jobs.read_job(rest, run)
    record = job.record
    if record.reason and not any(step.started for step in record.steps.values()):
        common.refuse(f"no step of `{job.name}` has started: {record.reason}")
    chosen = job.steps[_choose_step(job.name, step, list(job.steps))]
    if chosen.id is None:
        common.refuse(f"step `{chosen.name}` of `{job.name}` has not started")
    return RemoteLogs(rest, chosen.id)


def _open_local(root: Path, step: str | None, attempt: int | None) -> _LocalLogs:
    steps = list(load_run(root).steps)
    if step is None or not (root / "steps" / step).is_dir():
        step = _choose_step(root.name, step, steps)
    folder = root / "steps" / step / "logs"
    earlier = sorted(folder.glob("attempt-*"), key=lambda path: by_number(path.name))
    newest = len(earlier) + 1
    if attempt is None and earlier:
        numbers = "1" if newest == 2 else f"1 to {newest - 1}"
        common.say_sentences(f"note: this is attempt {newest}; `--attempt` prints {numbers}", err=True)
    if attempt is None or attempt == newest:
        return _LocalLogs(root, step, folder)
    if attempt > newest:
        common.refuse(f"step `{step}` has no attempt {attempt}", f"its newest is {newest}")
    return _LocalLogs(root, step, earlier[attempt - 1])


def _choose_step(run: str, step: str | None, steps: list[str]) -> str:
    """The step that is meant; exits if the run has no such step."""
    if step is None and len(steps) == 1:
        return steps[0]
    if step is None:
        common.refuse(f"which step of `{run}`?", f"its steps are {quoted_list(steps)}")
    if step not in steps:
        help_ = did_you_mean(step, steps) if steps else "its event log contains no step"
        common.refuse(f"run `{run}` has no step `{step}`", help_)
    return step


class _LocalLogs:
    """The logs of a step of a run on this machine, those of one attempt in ``folder``."""

    def __init__(self, root: Path, step: str, folder: Path) -> None:
        self._root, self._step, self._folder = root, step, folder
        self._followers: dict[str, Follower] = {}
        self.has_ended, self.failure = False, None

    def followers(self) -> Mapping[str, Follower]:
        """A reader of each file; read after the state, so that nothing before the end is missing."""
        self.has_ended = self._folder.name.startswith("attempt-") or self._read_end()
        for path in [*self._folder.glob("*.log"), *self._list_trial_logs()]:
            trial = path.parents[1].name.rpartition(".")[2]
            name = path.stem if path.parent == self._folder else f"{trial} {path.stem}"
            if name not in self._followers:
                self._followers[name] = Follower(path)
        return self._followers

    def _list_trial_logs(self) -> Iterable[Path]:
        """The newest logs of the trials, if the step is a sweep, which has no processes itself."""
        return (
            () if self._folder.is_dir() else self._root.glob(f"steps/{glob.escape(self._step)}.*/logs/*.log")
        )

    def _read_end(self) -> bool:
        alive = is_alive(self._root)
        record = load_run(self._root).steps.get(self._step)
        ended = record is not None and record.state in ("succeeded", "reused", "failed", "stopped")
        return ended or not alive


class _Selection(NamedTuple):
    """Which processes and lines to print, and how."""

    rank: int | None
    process: str | None
    last: int | None  # how many lines of each process; None for all
    as_json: bool

    def wants(self, name: str) -> bool:
        """Whether a process is printed; TensorFlow's workers are ranks too."""
        name = name.rpartition(" ")[2]  # the trial of a sweep stands before it
        if self.process is not None:
            return name == self.process
        return self.rank is None or name in (f"rank-{self.rank}", f"worker-{self.rank}")

    def __str__(self) -> str:
        if self.process is not None:
            return f"process `{self.process}`"
        return "this step" if self.rank is None else f"rank {self.rank}"

    def format(self, name: str, line: str, *, several: bool) -> str:
        """A line as it is printed."""
        if self.as_json:
            return json.dumps({"process": name, "line": line})
        return f"[{name.replace('-', ' ')}] {line}" if several else line


def _print(logs: _LocalLogs | RemoteLogs, selection: _Selection, *, follow: float | None) -> None:
    """Print the logs; ``follow`` is the time between two looks in seconds, None to look once."""
    seen: set[str] = set()
    while True:
        followers = logs.followers()
        over = logs.has_ended or follow is None
        chosen = sorted(filter(selection.wants, followers), key=by_number)
        if not chosen and follow is None:
            _refuse_missing(selection, sorted(followers, key=by_number), logs.failure)
        for name in chosen:
            lines = followers[name].lines(final=over)
            skipped = 0 if name in seen or selection.last is None else max(0, len(lines) - selection.last)
            for line in lines[skipped:]:
                click.echo(selection.format(name, line, several=len(followers) > 1))
        seen.update(chosen)
        if over or follow is None:
            return
        time.sleep(follow)


def _refuse_missing(what: _Selection, available: list[str], failure: str | None) -> None:
    if failure is not None and not available:
        common.refuse(f"there is no log of {what}: {failure}")
    common.refuse(
        f"there is no log of {what}",
        f"there are {quoted_list(available)}" if available else "none of its processes has started",
    )
