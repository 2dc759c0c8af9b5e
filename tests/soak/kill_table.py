"""Trainings killed at random moments: each must end with the weights of the one that nobody touched.

``python tests/soak/kill_table.py --kills 30 ddp horovod tensorflow`` trains the digits once undisturbed with
each framework, then again for every kill: rank 0, another rank, the whole group or the runner gets SIGKILL,
SIGTERM or SIGSTOP at a random training step. A run that the runner itself does not end well is resumed. The
table says what was lost, and what might have been: the steps that no checkpoint on the disk had.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from worldsize.lab.faults import saved_step
from wstrain.health import heartbeat

WORLDSIZE = (sys.executable, "-m", "worldsize")
COMPONENTS = {"ddp": "train_ddp", "horovod": "train_horovod", "tensorflow": "train_tensorflow"}
VICTIMS = ("rank 0", "rank 1", "group", "runner")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
HANG_SECONDS = 20  # after which a stopped rank counts as hanging
RUN_SECONDS = 900
EXPECTED_TRIES = 2  # the one that was struck, and the one after
PAUSE_SECONDS = 3.0  # that a stopped runner, whom nobody watches, is stopped
SPEC = """\
name: kills
compute:
  local: {{target: azureml:here, instance_type: Standard_NC24ads_A100_v4, max_instances: 2}}
steps:
  shard:
    uses: shard_data
    compute: local
    with: {{source: "builtin:digits"}}
  train:
    uses: {component}
    compute: local
    instance_count: 2
    with:
      model: mlp
      epochs: {epochs}
      optimizer: adam
      checkpoint_every_epochs: 0
      checkpoint_every_steps: 5
      hang_timeout: {hang}
    scale:
      reference: {{batch_size: 64, learning_rate: 0.002}}
      rule: none
"""
_RESUMED = re.compile(r"resuming from checkpoint \S+: (\d+) steps done")


@dataclass(frozen=True)
class Kill:
    """What is to happen: to whom, by which signal, after which part of the training."""

    victim: str
    number: signal.Signals
    share: float


@dataclass(frozen=True)
class Row:
    """What happened."""

    framework: str
    kill: Kill
    reached: int
    saved: int
    resumed: int
    same: bool
    tries: int
    seconds: float
    fault: str = ""

    @property
    def lost(self) -> int:
        return max(0, self.reached - self.resumed)

    @property
    def good(self) -> bool:
        return self.same and not self.fault and self.lost <= self.reached - self.saved


def draw(chance: random.Random, count: int) -> list[Kill]:
    """Every pair of victim and signal once before any comes twice."""
    kills: list[Kill] = []
    while len(kills) < count:
        pairs = [(victim, number) for victim in VICTIMS for number in SIGNALS]
        chance.shuffle(pairs)
        kills += [Kill(victim, number, chance.uniform(0.1, 0.85)) for victim, number in pairs]
    return kills[:count]


class Training:
    """One run of the spec in a folder."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.before = set(self.runs)
        self.process = self.start("run", "spec.yml", "--max-restarts", "2", "--no-track", *words)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "said.txt").open("ab") as said:
            return subprocess.Popen(
                [*WORLDSIZE, *words], cwd=self.folder, stdout=said, stderr=said, start_new_session=True
            )

    @property
    def runs(self) -> list[Path]:
        return sorted((self.folder / ".worldsize" / "runs").glob("*"))

    @property
    def step(self) -> Path:
        made = [path for path in self.runs if path not in self.before]
        return (made[-1] if made else self.folder) / "steps" / "train"

    @property
    def checkpoints(self) -> Path:
        return self.step / "outputs" / "checkpoints"

    def reach(self, step: int) -> Mapping[int, heartbeat.HeartbeatRecord]:
        """Wait until the ranks have done so many steps, or the run is over."""
        deadline = time.monotonic() + RUN_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            found = heartbeat.read_records(self.step / "heartbeats")
            if len(found) == 2 and min(each.done for each in found.values()) >= step:
                return found
            time.sleep(0.01)
        raise RuntimeError(f"the training did not reach step {step}: {self.last_words()}")

    def last_words(self) -> str:
        return (self.folder / "said.txt").read_text()[-600:]

    def finish(self) -> str:
        """Wait for the end; a run that was interrupted is resumed. Returns what went wrong."""
        status = self.process.wait(RUN_SECONDS)
        for _ in range(3):
            if status == 0:
                return ""
            self.process = self.start("resume", "last")
            status = self.process.wait(RUN_SECONDS)
        return "" if status == 0 else f"not done: {self.last_words()}"

    def weights(self) -> dict[str, Any]:
        """All numbers of the last checkpoint, by name."""
        newest = max(self.checkpoints.glob("step-*"), key=lambda path: int(path.name[5:]))
        if (newest / "state.npz").exists():
            with np.load(newest / "state.npz") as stored:
                return {name: stored[name] for name in stored.files}
        import torch

        return _flat(torch.load(newest / "state.pt", weights_only=True))

    def resumed(self) -> int:
        """Steps that the last try began with."""
        logs = sorted((self.step / "logs").glob("*-0.log"))
        found = [each for path in logs for each in _RESUMED.findall(path.read_text(errors="replace"))]
        return int(found[-1]) if found else 0


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {
            key: each for part, inner in value.items() for key, each in _flat(inner, f"{name}/{part}").items()
        }
    if isinstance(value, list | tuple):
        return _flat(dict(enumerate(value)), name)
    return {name: np.asarray(value)} if value is not None else {}


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether all numbers are the same, bit by bit."""
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


def suffer(framework: str, folder: Path, kill: Kill, total: int, reference: Mapping[str, Any]) -> Row:
    """Train once more, with a kill in the middle."""
    began = time.monotonic()
    training = Training(folder, "--force")
    found = training.reach(int(kill.share * total))
    saved = saved_step(training.checkpoints)
    struck = reached = max(beat.done for beat in found.values())
    attempts = len(list((training.step / "logs").glob("attempt-*")))
    strike(training, found, kill)
    while (
        training.process.poll() is None and len(list((training.step / "logs").glob("attempt-*"))) == attempts
    ):
        alive = heartbeat.read_records(training.step / "heartbeats")
        reached = max([reached, *(beat.done for beat in alive.values())])
        if reached >= total:
            break
        time.sleep(0.02)
    fault = training.finish()
    tries = len(list((training.step / "logs").glob("attempt-*"))) - attempts + 1
    again = tries > 1
    reached = reached if again else struck
    resumed = training.resumed() if again else reached
    right = not fault and same(reference, training.weights())
    row = Row(framework, kill, reached, saved, resumed, right, tries, time.monotonic() - began, fault)
    if row.good and tries <= EXPECTED_TRIES:
        shutil.rmtree(training.step.parents[1], ignore_errors=True)
    else:
        print(f"kept for a look: {training.step}", flush=True)
    return row


def strike(training: Training, found: Mapping[int, heartbeat.HeartbeatRecord], kill: Kill) -> None:
    """Send the signal to whom it is for."""
    pids = {
        "rank 0": [found[0].pid],
        "rank 1": [found[1].pid],
        "group": [beat.pid for beat in found.values()],
        "runner": [training.process.pid],
    }[kill.victim]
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, kill.number)
    if kill.victim == "runner" and kill.number == signal.SIGSTOP:
        time.sleep(PAUSE_SECONDS)
        os.kill(training.process.pid, signal.SIGCONT)


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    head = ("at", "saved", "from", "lost", "most", "tries")
    numbers = "".join(f"{name:>7}" for name in head)
    lines = [f"{'framework':<11}{'victim':<8}{'signal':<9}{numbers}  weights    time"]
    for row in rows:
        words = "same" if row.same else "DIFFERENT" if not row.fault else "NONE"
        counts = (row.reached, row.saved, row.resumed, row.lost, row.reached - row.saved, row.tries)
        numbers = "".join(f"{count:>7}" for count in counts)
        who = f"{row.framework:<11}{row.kill.victim:<8}{row.kill.number.name:<9}"
        lines.append(f"{who}{numbers}  {words:<9}{row.seconds:>6.0f} s  {row.fault}".rstrip())
    good = sum(row.good for row in rows)
    lost = sum(row.lost for row in rows)
    lines.append(f"{good} of {len(rows)} as promised; {lost} steps done again in all")
    return "\n".join(lines)


@dataclass(frozen=True)
class Reference:
    """The training that nobody touches, in the folder in which the others follow."""

    framework: str
    folder: Path
    total: int
    weights: Mapping[str, Any]
    kills: Sequence[Kill]


def refer(framework: str, given: argparse.Namespace) -> Reference:
    """Train once in peace."""
    folder = Path(tempfile.mkdtemp(prefix=f"worldsize-{framework}-"))
    values = {"component": COMPONENTS[framework], "epochs": given.epochs, "hang": HANG_SECONDS}
    (folder / "spec.yml").write_text(SPEC.format(**values))
    training = Training(folder)
    if fault := training.finish():
        raise SystemExit(f"{framework}: the reference failed: {fault}")
    kills = draw(random.Random(f"{given.seed}/{framework}"), given.kills)
    reference = Reference(framework, folder, saved_step(training.checkpoints), training.weights(), kills)
    shutil.rmtree(training.step.parents[1])
    return reference


def main() -> None:
    """Parse the arguments, train, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("frameworks", nargs="*", default=list(COMPONENTS), choices=[*COMPONENTS, []])
    parser.add_argument("--kills", type=int, default=30, help="of each framework")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0.0, help="start no kill after so long; 0 for never")
    given = parser.parse_args()
    rows: list[Row] = []
    began = time.monotonic()
    references = [refer(framework, given) for framework in given.frameworks]
    # In turn, so that little time is shared by all frameworks.
    for number, each in itertools.product(range(given.kills), references):
        if given.minutes and time.monotonic() - began > given.minutes * 60:
            break
        rows.append(suffer(each.framework, each.folder, each.kills[number], each.total, each.weights))
        print(table(rows[-1:]).splitlines()[1], flush=True)
    for each in references:
        if not list(each.folder.glob(".worldsize/runs/*")):
            shutil.rmtree(each.folder, ignore_errors=True)
    print(f"\n{table(rows)}\n{time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")
    raise SystemExit(not all(row.good for row in rows))


if __name__ == "__main__":
    main()
