"""Runs killed at random moments: whatever dies, the run goes on afterwards and the store tells no lies.

``python tests/soak/kills.py --runs 100`` kills the runner, one step, or the whole tree of processes of as
many runs, resumes each until it has succeeded, and compares what it made with what must come out. Some are
run once more, where every step must be found and be right. In the end no process may be left.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from worldsize.running.record.history import load_run

WORLDSIZE = [sys.executable, "-m", "worldsize"]
RUN = ("run", "pipeline.yml", "--no-track", "-q", "--environment", "current")
VICTIMS = ("runner", "step", "tree")
MAX_RESUMES = 8
STEP_SECONDS = 0.15

# `seed` differs from round to round, so that nothing is found in the store until the round is done.
PIPELINE = """\
type: pipeline
compute: azureml:cpu
settings: {{continue_on_step_failure: false}}
jobs:
{jobs}
"""
JOB = """\
  {name}:
    command: >-
      : > ${{{{outputs.out}}}}/lines;
      for n in 1 2 3; do echo {seed} {name} $n >> ${{{{outputs.out}}}}/lines; sleep {seconds}; done;
      echo x >> ${{{{outputs.checkpoints}}}}/tries;
      {read} sha256sum < ${{{{outputs.out}}}}/lines > ${{{{outputs.out}}}}/sum
    environment: azureml:any@latest
    outputs: {{out: {{type: uri_folder}}, checkpoints: {{type: uri_folder}}}}
{inputs}"""
NEEDS = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": []}


@dataclass
class Tally:
    """What happened."""

    killed: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    resumes: int = 0
    faults: list[str] = field(default_factory=list)


def pipeline(seed: str) -> str:
    """Five steps, of which two can run side by side."""
    jobs = []
    for name, needs in NEEDS.items():
        read = "".join(f"cat ${{{{inputs.{need}}}}}/sum >> ${{{{outputs.out}}}}/lines;" for need in needs)
        bound = "".join(f"      {need}: ${{{{parent.jobs.{need}.outputs.out}}}}\n" for need in needs)
        inputs = f"    inputs:\n{bound}" if needs else ""
        jobs.append(JOB.format(name=name, seed=seed, seconds=STEP_SECONDS / 3, read=read, inputs=inputs))
    return PIPELINE.format(jobs="".join(jobs))


def expected(seed: str) -> dict[str, str]:
    """The sums that the steps make, computed here."""
    import hashlib

    sums: dict[str, str] = {}
    for name, needs in NEEDS.items():
        lines = "".join(f"{seed} {name} {number}\n" for number in (1, 2, 3)) + "".join(
            sums[need] for need in needs
        )
        sums[name] = hashlib.sha256(lines.encode()).hexdigest() + "  -\n"
    return sums


def inside(folder: Path) -> Iterator[psutil.Process]:
    """The processes that work in a folder, or serve a run there."""
    for process in psutil.process_iter(["cwd", "cmdline", "status"]):
        if process.info["status"] != psutil.STATUS_ZOMBIE and str(folder) in (process.info["cwd"] or ""):
            yield process


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """A command of worldsize in a folder, in a session of its own."""
    command = [*WORLDSIZE, *words]
    with (folder / "said.txt").open("ab") as said:
        return subprocess.Popen(command, cwd=folder, stdout=said, stderr=said, start_new_session=True)


def kill(victim: str, runner: subprocess.Popen[bytes], chance: random.Random) -> bool:
    """Kill by SIGKILL; False where there was nobody any more."""
    try:
        tree = psutil.Process(runner.pid).children(recursive=True)
    except psutil.Error:
        return False
    if victim == "step":
        ranks = [each for each in tree if "bash" in name_of(each) or "sleep" in name_of(each)]
        chosen = [chance.choice(ranks)] if ranks else []
    else:
        chosen = [psutil.Process(runner.pid), *(tree if victim == "tree" else [])]
    for process in chosen:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return bool(chosen)


def name_of(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def round_(folder: Path, number: int, chance: random.Random, tally: Tally) -> None:
    """One run that is killed, resumed, perhaps killed again, until it has succeeded."""
    seed = f"round-{number}"
    (folder / "pipeline.yml").write_text(pipeline(seed))
    before = set((folder / ".worldsize" / "runs").glob("*"))
    words: tuple[str, ...] = RUN
    for attempt in range(MAX_RESUMES):
        runner = start(folder, *words)
        if attempt < 2 or chance.random() < 0.3:
            victim = chance.choice(VICTIMS)
            await_moment(folder, runner, chance)
            tally.killed[victim] += kill(victim, runner, chance)
        status = runner.wait(60)
        tally.states[str(status)] += 1
        if status == 0 or ended_well(folder, before):
            break
        if not started(folder, before):
            continue  # it died before it had a pipeline; there is nothing to resume
        words = ("resume", "last", "-q")
        tally.resumes += 1
    else:
        tally.faults.append(f"{seed}: not done after {MAX_RESUMES} attempts")
        return
    check(folder, seed, tally)


def await_moment(folder: Path, runner: subprocess.Popen[bytes], chance: random.Random) -> None:
    """Wait for a random moment: mostly until the run has come so far, sometimes while it still begins."""
    if chance.random() < 0.15:
        time.sleep(chance.uniform(0.05, 1.0))
        return
    wanted = events(folder) + chance.randint(1, 14)
    while runner.poll() is None and events(folder) < wanted:
        time.sleep(0.005)
    time.sleep(chance.uniform(0.0, 0.1))


def events(folder: Path) -> int:
    """Lines of all event logs."""
    logs = (folder / ".worldsize" / "runs").glob("*/events.jsonl")
    return sum(path.read_bytes().count(b"\n") for path in logs)


def ended_well(folder: Path, before: set[Path]) -> bool:
    """Whether the runner was killed when its run was over."""
    newest = max((folder / ".worldsize" / "runs").glob("*"), default=None)
    return newest is not None and newest not in before and load_run(newest).state == "succeeded"


def started(folder: Path, before: set[Path]) -> bool:
    """Whether the newest run is this round's and says what it ran."""
    newest = max((folder / ".worldsize" / "runs").glob("*"), default=None)
    return newest is not None and newest not in before and (newest / "run.json").exists()


def check(folder: Path, seed: str, tally: Tally) -> None:
    """Compare what the run made with what it must make."""
    newest = max((folder / ".worldsize" / "runs").iterdir())
    for name, wanted in expected(seed).items():
        path = newest / "steps" / name / "outputs" / "out" / "sum"
        found = path.read_text() if path.exists() else "nothing"
        if found != wanted:
            tally.faults.append(f"{seed}: step {name} made {found!r}")


def soak(folder: Path, runs: int, seed: int) -> Tally:
    """Kill runs; what is wrong stands in ``faults``."""
    chance, tally = random.Random(seed), Tally()
    for number in range(runs):
        round_(folder, number, chance, tally)
        if chance.random() < 0.3:  # the same once more: every step must be there, and be what it was
            repeated(folder, f"round-{number}", tally)
    deadline = time.monotonic() + 15
    while (left := list(inside(folder))) and time.monotonic() < deadline:
        time.sleep(0.1)
    tally.faults += [f"left: {each.pid} {each.info['cmdline']}" for each in left]
    return tally


def repeated(folder: Path, seed: str, tally: Tally) -> None:
    before = (folder / "said.txt").stat().st_size
    if start(folder, *RUN).wait(60) != 0:
        tally.faults.append(f"{seed}: the repetition failed")
    check(folder, seed, tally)
    said = (folder / "said.txt").read_bytes()[before:].decode()
    if said.count("reused") != len(NEEDS):
        tally.faults.append(f"{seed}: not every step was reused: {said}")


def main() -> None:
    """Parse the arguments, soak, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="worldsize-kills-"))
    begun = time.monotonic()
    tally = soak(folder, given.runs, given.seed)
    killed = ", ".join(f"{count} {victim}" for victim, count in sorted(tally.killed.items()))
    print(
        f"{given.runs} runs, killed: {killed}; {tally.resumes} resumes; {len(tally.faults)} faults; ", end=""
    )
    print(f"{time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f}; statuses {dict(tally.states)}")
    print("\n".join(tally.faults))
    if given.keep or tally.faults:
        print(folder)
    else:
        shutil.rmtree(folder)
    raise SystemExit(bool(tally.faults))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
