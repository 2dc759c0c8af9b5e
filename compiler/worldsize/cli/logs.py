"""`worldsize logs`: prints the logs of a step's processes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worldsize.cli import common

if TYPE_CHECKING:
    from worldsize.running.launch.logs import Follower

TICK_SECONDS = 0.1
EPILOG = """\b
Examples:
  worldsize logs last train                   every process, one after the other
  worldsize logs last train --rank 3 --follow the log of rank 3, until the step ends
  worldsize logs last train --process ps-0    a process that has no rank
  worldsize logs 2026 train --lines 20        the end of each
"""


@click.command(epilog=EPILOG)
@click.argument("run", metavar="RUN")
@click.argument("step", metavar="STEP")
@common.runs_dir
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="Only this rank.")
@click.option("--process", metavar="NAME", help="Only this process: the name of its log, without `.log`.")
@click.option("-f", "--follow", is_flag=True, help="Continue until the step ends.")
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="Only the last lines of each.")
def command(
    run: str, step: str, home: Path, rank: int | None, process: str | None, *, follow: bool, lines: int | None
) -> None:
    """Print a step's logs; with several processes each line names its process."""
    if rank is not None and process is not None:
        raise click.UsageError("give --rank or --process, not both")
    root = common.find_run(home, run)
    _require_step(root, step)
    names = _select_process(rank, process)
    folder = root / "steps" / step / "logs"
    try:
        if follow:
            _follow(root, step, folder, names, lines)
        else:
            _print_logs(folder, names, lines, what=_describe_selection(rank, process))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _require_step(root: Path, step: str) -> None:
    from worldsize.running.record.history import load_run

    steps = load_run(root).steps
    if step in steps or (root / "steps" / step).is_dir():
        return
    from worldsize.base.suggest import did_you_mean  # only for a typo

    help_ = did_you_mean(step, steps) if steps else "its event log contains no step"
    common.refuse(f"run `{root.name}` has no step `{step}`", help_)


def _select_process(rank: int | None, process: str | None) -> Callable[[str], bool]:
    """A test for the names of the wanted processes; TensorFlow's workers are ranks too."""
    if process is not None:
        return lambda name: name == process
    if rank is not None:
        return lambda name: name in (f"rank-{rank}", f"worker-{rank}")
    return lambda _name: True


def _describe_selection(rank: int | None, process: str | None) -> str:
    if process is not None:
        return f"process `{process}`"
    return "this step" if rank is None else f"rank {rank}"


def _find_logs(folder: Path, wanted: Callable[[str], bool]) -> list[Path]:
    logs = [path for path in folder.glob("*.log") if wanted(path.stem)]
    return sorted(logs, key=lambda path: [(len(word), word) for word in re.split(r"(\d+)", path.stem)])


def _has_several_logs(folder: Path) -> bool:
    return len(_find_logs(folder, lambda _name: True)) > 1


def _print_logs(folder: Path, wanted: Callable[[str], bool], lines: int | None, *, what: str) -> None:
    logs = _find_logs(folder, wanted)
    if not logs:
        available = ", ".join(f"`{path.stem}`" for path in _find_logs(folder, lambda _name: True))
        common.refuse(
            f"there is no log of {what}",
            f"there are {available}" if available else "none of its processes has started",
        )
    several = _has_several_logs(folder)
    for path in logs:
        for line in _read_lines(_follower(path), lines, final=True):
            click.echo(_add_prefix(path, line, several=several))


def _follow(root: Path, step: str, folder: Path, wanted: Callable[[str], bool], lines: int | None) -> None:
    followers: dict[Path, Follower] = {}
    while True:
        over = _has_ended(
            root, step
        )  # read first: everything that was written before the end is printed below
        for path in _find_logs(folder, wanted):
            new = path not in followers
            follower = followers.setdefault(path, _follower(path))
            for line in _read_lines(follower, lines if new else None, final=over):
                click.echo(_add_prefix(path, line, several=_has_several_logs(folder)))
        if over:
            return
        time.sleep(TICK_SECONDS)


def _has_ended(root: Path, step: str) -> bool:
    """Whether the step has ended, so that its logs are complete."""
    from worldsize.running.record.folder import is_alive
    from worldsize.running.record.history import load_run

    alive = is_alive(root)
    record = load_run(root).steps.get(step)
    ended = record is not None and record.state in ("succeeded", "reused", "failed", "stopped")
    return ended or not alive


def _follower(path: Path) -> Follower:
    from worldsize.running.launch.logs import Follower

    return Follower(path)


def _read_lines(follower: Follower, last: int | None, *, final: bool) -> Iterator[str]:
    lines = follower.lines(final=final)
    yield from lines if last is None else lines[max(0, len(lines) - last) :]


def _add_prefix(path: Path, line: str, *, several: bool) -> str:
    return f"[{path.stem.replace('-', ' ')}] {line}" if several else line
