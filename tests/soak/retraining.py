"""A year of weekly retraining for real: looks killed at random moments, two at once, and a full disk.

``python tests/soak/retraining.py --weeks 52 --kills 60 --twins 20`` trains a small model each week on a
feed with a season, drift, broken and flipped weeks and a quiet month, in about an hour on two free cores.
Whatever happens, there is one champion and it loads, nothing is trained twice for one change, no change
is lost, and no wrong week promotes. ``--full`` fills the disk under a smaller pipeline as well, which needs
root. It ends with the page of the year.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from retrained_feed import BROKEN, FLIPPED, QUIET, Feed, list_champions
from retrained_project import Project

from worldsize.retraining import local
from worldsize.retraining.local import Place

LONGEST = 900.0  # seconds of a look


class Year:
    """One pipeline, what was done to it, and what was wrong."""

    def __init__(self, folder: Path, target: str, chance: random.Random) -> None:
        self.feed, self.chance = Feed(folder, target, models=5), chance
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.usual = 60.0  # seconds of a look that trains
        self.quiet: list[float] = []

    def run_week(self, week: int, kills: int, *, twins: bool) -> int:
        """The file of a week comes, some looks are killed, and one ends; how many kills came too late."""
        fault = "broken" if week in BROKEN else "flipped" if week in FLIPPED else ""
        before = list_champions(self.feed)
        if week > 0 and week not in QUIET:
            self.feed.add(week - 1, fault=fault)
        late = 0
        for done in range(kills):
            if not self.kill_look(week):  # it had its verdict: the next one would find nothing to do
                late = kills - done
                break
        began = time.monotonic()
        answer = self.look_twice(week) if twins else self.feed.look(week, seconds=LONGEST)
        for retry in range(1, 8):  # what was killed is continued after a pause
            if answer["action"] != "wait":
                break
            answer = self.feed.look(week, seconds=LONGEST, hours=7 * retry)
        took = time.monotonic() - began
        self.counts[answer["action"]] += 1
        if answer["action"] == "none" and week in QUIET:
            self.quiet.append(took)
        elif not kills and not twins:
            self.usual = took
        self.check(week, answer, before, wrong=bool(fault), kills=kills)
        if fault:
            self.feed.remove(week - 1)  # as somebody does who reads the notice
        return late

    def kill_look(self, week: int) -> bool:
        """Kill a look with its processes, or alone, anywhere between its start and its end; False if late."""
        look = self.feed.start(week, session=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            look.communicate(timeout=self.chance.uniform(0.2, self.usual))
        if look.poll() is not None:
            self.counts["ended before its kill"] += 1
            return False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(look.pid, signal.SIGKILL) if self.chance.random() < 0.5 else look.kill()
        look.communicate()
        self.counts["killed"] += 1
        time.sleep(self.chance.choice([0.0, 3.0]))
        return True

    def look_twice(self, week: int) -> dict[str, Any]:
        """Two looks at the same instant; the answer of the one that acted."""
        looks = [self.feed.start(week), self.feed.start(week)]
        answers = []
        for look in looks:
            output, errors = look.communicate(timeout=LONGEST)
            if look.returncode:
                self.faults.append(f"week {week}: one of two looks ended with {look.returncode}: {errors}")
                continue
            answers.append(json.loads(output))
        self.counts["two at once"] += 1
        answers.sort(key=lambda answer: answer["action"] in ("wait", "none"))
        return answers[0]

    def check(self, week: int, answer: dict[str, Any], before: list[str], *, wrong: bool, kills: int) -> None:
        """Hold what has to hold after each week."""
        champions = list_champions(self.feed)
        if len(champions) != 1:
            self.faults.append(f"week {week}: the champions are {champions}")
        # A kill after the promotion hides its answer, but not who was champion before.
        if wrong and champions != before:
            self.faults.append(f"week {week}: {champions} was promoted on wrong labels")
        place = Place(self.feed.home, self.feed.target)
        trained: Counter[Path] = Counter()
        for attempt, record in local.read_attempts(place):
            trained[place.attempt(record.fingerprint)] += attempt.trained
        twice = [folder.name for folder, count in trained.items() if count > 1]
        if twice:
            self.faults.append(f"week {week}: trained twice: {twice}")
        is_quiet = week in QUIET
        if answer["action"] not in (("none",) if is_quiet else ("promote", "keep", "none")):
            self.faults.append(f"week {week}: {answer}")
        if answer["action"] == "none" and not (is_quiet or kills or "nothing is new" in answer["reason"]):
            self.faults.append(f"week {week} was lost: {answer['reason']}")
        for folder in place.root.glob("*/data"):
            self.faults.append(f"week {week}: {folder} is left")


def fill_disk(folder: Path) -> list[str]:
    """Look at a small pipeline whose home is on a disk of some size or other, until one is large enough."""
    project, faults = Project(folder), []
    home = folder / ".worldsize"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(home)], check=True)
    try:
        for size in (64, 128, 256, 512, 1024, 2048, 65536):
            subprocess.run(["mount", "-o", f"remount,size={size}k", str(home)], check=True)
            now = f"2026-03-0{size.bit_length() % 9 + 1}T03:00Z" if size < 65536 else "2026-04-01T03:00Z"
            output, errors = project.start("--now", now).communicate(timeout=120)
            if "Traceback" in errors or "internal error" in errors:
                faults.append(f"disk of {size} KiB: {errors}")
            print(f"disk of {size} KiB: {(output or errors).split(chr(10))[1:3]}", flush=True)
        output, _ = project.start("--now", "2026-04-08T03:00Z").communicate(timeout=120)
        if json.loads(output)["action"] not in ("none", "promote") or project.trained != 1:
            faults.append(f"the disk has room, {project.trained} were trained, and the look says {output}")
    finally:
        subprocess.run(["umount", "-l", str(home)], check=False)
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--weeks", type=int, default=52)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--twins", type=int, default=20)
    parser.add_argument("--target", default="sales", choices=["sales", "churn"])
    parser.add_argument("--full", action="store_true", help="fill a disk as well")
    parser.add_argument("--seed", type=int, default=37)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="retraining-"))
    year = Year(folder / options.target, options.target, chance)
    weeks = [week for week in range(1, options.weeks) if week not in QUIET]
    kills = Counter(chance.choices(weeks, k=options.kills)) if weeks else Counter()
    others = [week for week in weeks if not kills[week]] or weeks
    twins = set(chance.sample(others, min(options.twins, len(others))))
    began = time.monotonic()
    late = 0
    for week in range(options.weeks):
        count = kills[week] + (late if week in weeks and week not in twins else 0)
        left = year.run_week(week, count, twins=week in twins)
        late = late - (count - kills[week]) + left
        print(f"week {week}: {dict(year.counts)}, {len(year.faults)} faults", flush=True)
    if options.full:
        (folder / "full").mkdir()
        year.faults += fill_disk(folder / "full")
    words = [sys.executable, "-m", "worldsize", "report", "--retrain", options.target]
    subprocess.run(words, cwd=year.feed.folder, check=True)
    print(f"{time.monotonic() - began:.0f} s: {dict(year.counts)}")
    print(f"quiet weeks: {', '.join(f'{seconds:.1f} s' for seconds in year.quiet) or 'none'}")
    for fault in year.faults:
        print(f"FAULT {fault}")
    sys.exit(bool(year.faults))


if __name__ == "__main__":
    main()
