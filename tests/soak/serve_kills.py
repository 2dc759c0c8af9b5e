"""A server killed at random moments under load: what it answered is there, and no job starts twice.

``python tests/soak/serve_kills.py --kills 100`` lets clients write blobs, data assets, jobs and schedules
side by side, kills the server (sometimes while it starts), starts it again, and asks for everything that was
answered. A job counts its starts in a file. In the end every job must have ended and no process may be left.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from plain_client import BLOBS, MANAGEMENT, WORKSPACE, PlainClient, command_job
from serving import SERVE, Served, start

WRITERS = ("blob", "data", "job", "schedule", "trigger")
LONGEST_LOAD = 2.5  # seconds between the server's first answer and the kill
OLD_ONES = 40  # of what earlier rounds were answered, looked at again each time
BLOB = "/azureml-blobstore/kills"
HEADERS = {"x-ms-blob-type": "BlockBlob", "x-ms-version": "2021-12-02"}
LOST = (OSError, http.client.HTTPException, ValueError)  # what a killed server makes of a request
ENDED = ("Completed", "Failed", "Canceled")


@dataclass
class Tally:
    """What was answered, and what was wrong."""

    answered: dict[tuple[str, str], str] = field(
        default_factory=dict
    )  # what is to be found, by kind and name
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, name: str, wanted: str) -> None:
        with self.lock:
            self.answered[kind, name] = wanted
            self.counts[kind] += 1


@dataclass
class Load:
    """One round: writers that go on until the server is gone."""

    served: Served
    tally: Tally
    starts: Path
    stop: threading.Event = field(default_factory=threading.Event)

    def write(self, kind: str, chance: random.Random) -> None:
        """Send requests of one kind until the server does not answer."""
        with contextlib.suppress(*LOST):
            client = PlainClient(self.served.environment, BLOBS if kind == "blob" else MANAGEMENT, timeout=20)
            send: Callable[[PlainClient, str, random.Random], None] = getattr(self, f"write_{kind}")
            while not self.stop.is_set():
                send(client, f"{kind[0]}{chance.getrandbits(48):x}", chance)

    def write_blob(self, client: PlainClient, name: str, chance: random.Random) -> None:
        content = chance.randbytes(chance.choice([10, 5_000, 300_000]))
        if client.send("PUT", f"{BLOB}/{name}", content, HEADERS).status == 201:
            self.tally.add("blob", name, hashlib.sha256(content).hexdigest())

    def write_data(self, client: PlainClient, name: str, chance: random.Random) -> None:
        path = f"azureml://datastores/workspaceblobstore/paths/{name}"
        answer = client.put(f"data/{name}/versions", "1", {"dataType": "uri_file", "dataUri": path})
        self.expect("data", name, answer.status, name)

    def write_job(self, client: PlainClient, name: str, chance: random.Random) -> None:
        answer = client.put("jobs", name, self.job(name))
        self.expect("job", name, answer.status, name)
        self.stop.wait(chance.uniform(0.3, 0.8))  # they are to run too

    def write_schedule(self, client: PlainClient, name: str, chance: random.Random) -> None:
        self.expect("schedule", name, client.put("schedules", name, self.schedule()).status, name)
        self.stop.wait(0.1)

    def write_trigger(self, client: PlainClient, name: str, chance: random.Random) -> None:
        path = client.get("schedules").json["value"]
        if not path:
            client.put("schedules", name, self.schedule())
            return
        answer = client.send(
            "POST", f"{chance.choice(path)['id']}/trigger?api-version=2024-01-01-preview", {}
        )
        if answer.status == 200:
            self.tally.add("trigger", answer.json["submissionId"], "")
        elif answer.status != 404:
            self.wrong(f"a trigger was answered {answer.status}: {answer.content[:300]!r}")
        self.stop.wait(chance.uniform(0.5, 1.5))

    def expect(self, kind: str, name: str, status: int, wanted: str) -> None:
        if status == 201:
            self.tally.add(kind, name, wanted)
        else:
            self.wrong(f"{kind} {name} was answered {status}")

    def wrong(self, fault: str) -> None:
        if not self.stop.is_set():
            self.tally.faults.append(fault)

    def job(self, name: str) -> dict[str, Any]:
        return command_job(f"echo x >> {self.starts}/{name}; sleep 0.2")

    def schedule(self) -> dict[str, Any]:
        script = f'echo x >> "{self.starts}/$AZUREML_RUN_ID"'
        trigger = {"triggerType": "Cron", "expression": "0 3 * * 1", "startTime": "2026-01-01T00:00:00"}
        action = {"actionType": "CreateJob", "jobDefinition": command_job(script)}
        return {"trigger": trigger, "action": action}


def check(served: Served, tally: Tally, fresh: set[tuple[str, str]], chance: random.Random) -> None:
    """Ask for what this round was answered, and for some of what earlier rounds were."""
    old = [key for key in tally.answered if key not in fresh]
    blobs, rest = PlainClient(served.environment, BLOBS), PlainClient(served.environment)
    for kind, name in [*sorted(fresh), *chance.sample(old, min(OLD_ONES, len(old)))]:
        if kind == "blob":
            answer = blobs.send("GET", f"{BLOB}/{name}", headers={"x-ms-version": "2021-12-02"})
            found = (
                answer.status == 200
                and hashlib.sha256(answer.content).hexdigest() == tally.answered[kind, name]
            )
        else:
            path = {"data": f"data/{name}/versions/1", "job": f"jobs/{name}", "trigger": f"jobs/{name}"}
            folder, _, last = path.get(kind, f"schedules/{name}").rpartition("/")
            answer = rest.get(folder, last)
            found = answer.status == 200
        if not found:
            tally.faults.append(
                f"{kind} {name} was answered and is gone: {answer.status} {answer.content[:200]!r}"
            )
    blobs.close()
    rest.close()


def one_round(folder: Path, tally: Tally, chance: random.Random) -> None:
    """Start, check, load, kill."""
    if chance.random() < 0.15:
        kill_a_start(folder, chance)
        tally.counts["killed while starting"] += 1
    served = start(folder)
    before = set(tally.answered)
    load = Load(served, tally, folder / "starts")
    writers = [
        threading.Thread(target=load.write, args=(kind, random.Random(chance.random())))
        for kind in (*WRITERS, "blob", "data")
    ]
    for writer in writers:
        writer.start()
    time.sleep(chance.uniform(0.05, LONGEST_LOAD))
    served.process.kill()
    load.stop.set()
    served.process.wait()
    for writer in writers:
        writer.join()
    tally.counts["killed under load"] += 1
    close(served)
    again = start(folder)
    check(again, tally, set(tally.answered) - before, chance)
    again.process.kill()
    again.process.wait()
    close(again)


def close(served: Served) -> None:
    if served.process.stdout is not None:
        served.process.stdout.close()


def kill_a_start(folder: Path, chance: random.Random) -> None:
    """Kill a server somewhere in its start."""
    words = [*SERVE, "--home", str(folder / ".worldsize")]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(chance.uniform(0.1, 1.5))
    process.kill()
    process.wait()


def finish(folder: Path, tally: Tally, patience: float) -> None:
    """Let all jobs end, and count their starts."""
    served = start(folder)
    client = PlainClient(served.environment)
    deadline = time.monotonic() + patience
    states: Counter[str] = Counter()
    while time.monotonic() < deadline:
        jobs = {job["name"]: job["properties"]["status"] for job in list_all(client)}
        states = Counter(jobs.values())
        if all(status in ENDED for status in jobs.values()):
            break
        time.sleep(1)
    else:
        tally.faults.append(f"jobs did not end within {patience:.0f} s: {dict(states)}")
    tally.counts.update({f"jobs {status}": number for status, number in states.items()})
    for name, status in jobs.items():
        count(folder, name, status, tally)
    left = {path.name for path in (folder / ".worldsize" / "serve" / "jobs").iterdir()} - jobs.keys()
    tally.faults += [f"{name} is left in the folder of the jobs" for name in sorted(left)]
    if states["Completed"] < states.total():
        names = [name for name, status in jobs.items() if status != "Completed"][:3]
        for name in names:
            details = client.send("GET", f"/history/v1.0{WORKSPACE}/runs/{name}/details")
            tally.faults.append(f"job {name} is {jobs[name]}: {details.content[:600]!r}")
    client.close()
    served.stop()
    close(served)


def count(folder: Path, name: str, status: str, tally: Tally) -> None:
    file = folder / "starts" / name
    started = len(file.read_text().split()) if file.exists() else 0
    if started > 1 or (status == "Completed" and started == 0):
        tally.faults.append(f"job {name}, which is {status}, started {started} times")
    tally.counts["starts"] += started


def list_all(client: PlainClient) -> Iterator[dict[str, Any]]:
    answer = client.get("jobs").json
    yield from answer["value"]
    while link := answer.get("nextLink"):
        answer = client.send("GET", link.removeprefix(f"https://{MANAGEMENT}")).json
        yield from answer["value"]


def processes_left(folder: Path) -> list[str]:
    """What still works in the folder."""
    left = []
    for process in psutil.process_iter(["cwd", "cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or ())
        inside = str(folder) in (process.info["cwd"] or "") or str(folder) in words
        if inside and process.info["status"] != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
            left.append(words)
    return left


def soak(folder: Path, kills: int, seed: int, patience: float) -> Tally:
    """Kill so many servers, and return what was seen."""
    tally, chance = Tally(), random.Random(seed)
    (folder / "starts").mkdir()
    for number in range(kills):
        one_round(folder, tally, chance)
        if (number + 1) % 10 == 0:
            print(f"{number + 1} of {kills} killed, {len(tally.faults)} faults", file=sys.stderr, flush=True)
    finish(folder, tally, patience)
    deadline = time.monotonic() + 10
    while (left := processes_left(folder)) and time.monotonic() < deadline:
        time.sleep(0.2)
    tally.faults += [f"still running: {words}" for words in left]
    return tally


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options.add_argument("--patience", type=float, default=900, help="seconds for all jobs to end")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="worldsize-serve-kills-") as name:
        begin = time.monotonic()
        tally = soak(Path(name), chosen.kills, chosen.seed, chosen.patience)
        print(f"seed {chosen.seed}, {time.monotonic() - begin:.0f} s")
        for what, number in tally.counts.items():
            print(f"  {number:7} {what}")
        for fault in tally.faults[:40]:
            print(f"  FAULT {fault}")
        print(f"  {len(tally.faults):7} faults")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
