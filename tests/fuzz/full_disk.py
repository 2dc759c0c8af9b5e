"""Make every write fail once: `python tests/fuzz/full_disk.py`, or `… --only adopt --every 5`.

Each scenario runs as often as it writes: at the k-th call that could write (open, write, rename, link, mkdir,
fsync), that call and the rest fail as on a full disk, or that one alone. No file may grow beyond some size in
other runs, which SQLite meets too. Each time the outcome is a sentence and no traceback, every file is as it
was or as it becomes without faults, nothing is lost that was acknowledged, and the next start opens no door.
With `--disk` a server also fills a small file system, which only root can mount.
"""

from __future__ import annotations

import _io
import argparse
import builtins
import contextlib
import errno
import io
import logging
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from plain_client import BLOBS, PlainClient
from run_folders import FolderOfRun
from serving import make_workspace, start
from starlette.testclient import TestClient

from worldsize import __main__ as program
from worldsize.serving.front.guard import issue_token
from worldsize.serving.front.server import make_app
from worldsize.serving.jobs.records import get_job
from worldsize.serving.workspace import Workspace

SIZES = (0, 1, 100, 1000, 4096, 12_000, 40_000)  # bytes beyond which no file grows
PORT = 12345


class FullDisk:
    """Counts the calls that could write, and lets them fail from the ``first`` on, or that one alone."""

    def __init__(self, first: int = 0, *, once: bool = False) -> None:
        self.first, self.once, self.count = first, once, 0
        self._lock = threading.Lock()

    def tick(self) -> None:
        """One call; it fails if it is its turn."""
        with self._lock:
            self.count += 1
            fails = self.first and (self.count == self.first if self.once else self.count >= self.first)
        if fails:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @contextlib.contextmanager
    def here(self) -> Iterator[FullDisk]:
        """Be the disk of this process until the block ends."""
        kept = [(owner, name, getattr(owner, name)) for owner, name in _PATCHED]
        try:
            for owner, name, real in kept:
                made = self._opener(real) if name == "open" and owner is not os else self._caller(name, real)
                setattr(owner, name, made)
            yield self
        finally:
            for owner, name, real in kept:
                setattr(owner, name, real)

    def _caller(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **named: Any) -> Any:
            if name == "open" and not words[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return real(*words, **named)
            if not (name == "open" and str(words[0]).startswith("/dev/")):
                self.tick()
            return real(*words, **named)

        return call

    def _opener(self, real: Callable[..., Any]) -> Callable[..., Any]:
        disk = self

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                disk.tick()
                return super().write(data)

        def open_(file: Any, mode: str = "r", buffering: int = -1, *words: Any, **named: Any) -> IO[Any]:
            if not set(mode) & set("wax+") or str(file).startswith("/dev/"):
                return cast("IO[Any]", real(file, mode, buffering, *words, **named))
            keys = ("encoding", "errors", "newline", "closefd", "opener")
            given = dict(zip(keys, words, strict=False)) | named
            disk.tick()
            raw = Raw(
                file, mode.replace("b", "").replace("t", ""), given.get("closefd", True), given.get("opener")
            )
            if buffering == 0:
                return cast("IO[Any]", raw)
            buffer = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
            if "b" in mode:
                return cast("IO[Any]", buffer)
            text = io.TextIOWrapper(
                buffer, given.get("encoding"), given.get("errors"), given.get("newline"), buffering == 1
            )
            text.mode = mode  # type: ignore[misc]
            return cast("IO[Any]", text)

        return open_


_PATCHED: tuple[tuple[Any, str], ...] = (
    *(
        (os, name)
        for name in ("open", "write", "fsync", "replace", "rename", "link", "symlink", "mkdir", "sendfile")
    ),
    (builtins, "open"),
    (io, "open"),
    (_io, "open"),
)


@contextlib.contextmanager
def no_file_grows(size: int) -> Iterator[None]:
    """Refuse what would make a file larger, whoever writes it: C code too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@dataclass
class Outcome:
    """What a scenario did."""

    status: int = 0
    said: str = ""  # to standard error, and the log
    acknowledged: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Scenario:
    """Something that writes. ``whole``: all of its files are new, or none is."""

    prepare: Callable[[Path], None]
    act: Callable[[Path], Outcome]
    check: Callable[[Path, Outcome], Iterator[str]] = lambda _folder, _outcome: iter(())
    whole: bool = False
    tree: bool = True  # whether every file has to be as before or as it becomes


def call(folder: Path, *words: str) -> Outcome:
    """The command line in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    umask, argv, here = os.umask(0o022), sys.argv, Path.cwd()
    os.umask(umask)
    os.chdir(folder)
    sys.argv = ["worldsize", *words]
    status: object = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            program.main()
    except SystemExit as ended:
        status = ended.code
    finally:
        sys.argv = argv
        os.chdir(here)
        os.umask(umask)
    said = [stream.buffer.getvalue().decode() for stream in (err, out)]  # type: ignore[attr-defined, unused-ignore]
    return Outcome(int(str(status or 0)), said[0] + (said[1] if status else ""))


JOB = "type: Command\ncommand: echo\nenviroment: azureml:my-env:4\ncompute: azureml:c\n"
SPEC = """\
name: digits
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}
steps:
  train: {command: python train.py, code: ./src, environment: "azureml:my-training:4", compute: gpu}
"""
SCRIPT = (Path(__file__).parents[1] / "adopt" / "scripts" / "argparse_digits.py").read_bytes()
COMMAND = {"jobType": "Command", "command": "echo", "environmentId": "azureml:e:1"}
TRIGGER = {"triggerType": "Cron", "expression": "0 3 * * 1", "startTime": "2026-01-01T00:00:00"}
SCHEDULE = {"trigger": TRIGGER, "action": {"actionType": "CreateJob", "jobDefinition": COMMAND}}
WORKSPACE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"
BLOB = "/blob/worldsize.blob.core.windows.net/azureml-blobstore"


def write_project(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text("print(1)\n")
    (folder / "job.yml").write_text(JOB)
    (folder / "other.yml").write_text(JOB)
    (folder / "spec.yml").write_text(SPEC)


def write_script(folder: Path) -> None:
    (folder / "train.py").write_bytes(SCRIPT)


def write_run(folder: Path) -> None:
    run = FolderOfRun(folder / ".worldsize")
    run.step("train")
    run.finish()


_OPEN: dict[Path, tuple[Workspace, TestClient]] = {}


def open_home(folder: Path) -> None:
    """A workspace and its client, which were there before the disk is full."""
    workspace = make_workspace(folder, PORT)
    client = TestClient(make_app(workspace, PORT), base_url=f"http://127.0.0.1:{PORT}")
    token = issue_token(workspace, "https://management.azure.com")
    client.headers["authorization"] = f"Bearer {token}"
    _OPEN[folder] = workspace, client


def check_served(folder: Path, _outcome: Outcome) -> Iterator[str]:
    """The next start succeeds, with a secret that nobody can guess."""
    again = call(folder, "serve", "--print-env")
    if again.status:
        yield f"the next start is refused: {again.said}"
        return
    secret = folder / ".worldsize" / "serve" / "token.secret"
    if len(secret.read_text()) != 43 or secret.stat().st_mode & 0o077:
        yield f"the secret of the next start is {secret.read_text()!r}"


def ask(folder: Path) -> Outcome:
    """Requests of several kinds to a workspace; what was acknowledged, and what was logged."""
    outcome, heard = Outcome(), io.StringIO()
    workspace, client = _OPEN.pop(folder)
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    try:
        for name, answer in _requests(client):
            if answer.status_code < 300:
                outcome.acknowledged.append(name)
            elif answer.status_code != 507:
                outcome.said += f"{name} was answered {answer.status_code}: {answer.text[:500]}; Traceback\n"
    finally:
        logging.getLogger().removeHandler(handler)
        workspace.database.close()
    outcome.said += heard.getvalue()
    return outcome


def _requests(client: TestClient) -> Iterator[tuple[str, Any]]:
    version = {"api-version": "2024-01-01-preview"}

    def put(path: str, properties: dict[str, Any]) -> Any:
        return client.put(f"{WORKSPACE}/{path}", json={"properties": properties}, params=version)

    uri = "azureml://datastores/workspaceblobstore/paths/x"
    yield "data", put("data/a/versions/1", {"dataType": "uri_file", "dataUri": uri})
    blob = {"x-ms-blob-type": "BlockBlob"}
    yield "blob", client.put(f"{BLOB}/folder/x", content=b"content" * 1000, headers=blob)
    yield "job", put("jobs/one", COMMAND)
    yield "schedule", put("schedules/weekly", SCHEDULE)


def check_asked(folder: Path, outcome: Outcome) -> Iterator[str]:
    """What was acknowledged is there for another server."""
    open_home(folder)
    workspace, client = _OPEN.pop(folder)
    version = {"api-version": "2024-01-01-preview"}
    for name, path in (("data", "data/a/versions/1"), ("job", "jobs/one"), ("schedule", "schedules/weekly")):
        status = client.get(f"{WORKSPACE}/{path}", params=version).status_code
        if name in outcome.acknowledged and status != 200:
            yield f"{name} was acknowledged and is gone: {status}"
    blob = client.get(f"{BLOB}/folder/x")
    if blob.content != b"content" * 1000 if blob.status_code == 200 else "blob" in outcome.acknowledged:
        yield f"the blob is {blob.status_code} with {len(blob.content)} bytes"
    job = workspace.home.jobs / "one" / "pipeline.yml"
    if get_job(workspace.database, "one") is not None and not job.read_text().endswith("\n"):
        yield "the file of the job is not whole"
    workspace.database.close()


def write_job(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "x.txt").write_text("x")
    job = "type: command\ncommand: echo ${{outputs.o}}\ncode: ./src\nenvironment: azureml:e:1\n"
    (folder / "job.yml").write_text(f"{job}outputs: {{o: {{type: uri_folder}}}}\ncompute: azureml:c\n")


def run_job(folder: Path) -> Outcome:
    return call(folder, "run", "job.yml", "--no-track", "--environment", "current")


def check_run(folder: Path, _outcome: Outcome) -> Iterator[str]:
    """The next run is not held up by what the one before has left."""
    for words in (["runs"], ["run", "job.yml", "--no-track", "--environment", "current"], ["runs", "--json"]):
        again = call(folder, *words)
        if again.status or "Traceback" in again.said:
            yield f"`{' '.join(words)}` afterwards: {again.said[-800:]}"


SCENARIOS = {
    "fix": Scenario(
        write_project, lambda at: call(at, "check", "--fix", "--unsafe-fixes", "job.yml", "other.yml")
    ),
    "baseline": Scenario(
        write_project, lambda at: call(at, "check", ".", "--baseline", "known.json", "--write-baseline")
    ),
    "compile": Scenario(write_project, lambda at: call(at, "compile", "spec.yml", "-o", "out"), whole=True),
    "adopt": Scenario(
        write_script, lambda at: call(at, "adopt", "train.py", "--no-run", "--write"), whole=True
    ),
    "init": Scenario(
        write_script, lambda at: call(at, "init", "job", "--from", "train.py", "--yes"), whole=True
    ),
    "report": Scenario(write_run, lambda at: call(at, "report"), tree=False),
    "serve": Scenario(lambda _: None, lambda at: call(at, "serve", "--print-env"), check_served, tree=False),
    "run": Scenario(write_job, run_job, check_run, tree=False),
    "requests": Scenario(open_home, ask, check_asked, tree=False),
}


def read_tree(folder: Path) -> dict[str, bytes]:
    """Every file by its path."""
    found = (path for path in sorted(folder.rglob("*")) if ".git" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if path.is_file()}


def judge(
    scenario: Scenario, folder: Path, outcome: Outcome, before: dict[str, bytes], after: dict[str, bytes]
) -> Iterator[str]:
    """What is wrong after a fault."""
    if "Traceback" in outcome.said or "internal error" in outcome.said:
        yield f"no sentence: {outcome.said[-1500:]}"
    if outcome.status and "error" not in outcome.said.lower():
        yield f"status {outcome.status} without a word: {outcome.said!r}"
    now = read_tree(folder)
    for name in now:
        if name.endswith(".part") or (scenario.tree and now[name] not in (before.get(name), after.get(name))):
            yield f"`{name}` is neither as it was nor as it becomes"
    if scenario.tree and (lost := before.keys() - now.keys() - (before.keys() - after.keys())):
        yield f"{sorted(lost)} are gone"
    if scenario.whole and now not in (before, after):
        yield f"only some of {sorted(now)} were written"
    if scenario.tree and not outcome.status and now != after:
        yield "it says that it is done, and is not"
    yield from scenario.check(folder, outcome)


def try_scenario(name: str, every: int = 1) -> tuple[int, list[str]]:
    """How many faults a scenario met, every so many, and what was wrong after them."""
    scenario, faults, tried = SCENARIOS[name], list[str](), 0
    with tempfile.TemporaryDirectory(prefix="worldsize-full-disk-") as top:

        def attempt(
            number: int, fault: contextlib.AbstractContextManager[object]
        ) -> tuple[Path, Outcome, dict[str, bytes]]:
            folder = Path(top) / str(number) / "project"  # of one name: texts have it
            folder.mkdir(parents=True)
            scenario.prepare(folder)
            before = read_tree(folder)
            with fault:
                outcome = scenario.act(folder)
            return folder, outcome, before

        counted = FullDisk()
        for warm in ("warm", "counted"):  # caches of the process are filled by the first
            folder, outcome, _ = attempt(-1 if warm == "warm" else 0, counted.here())
            counted.count, calls = 0, counted.count
        if outcome.status:
            return 0, [f"{name} fails without a fault: {outcome.said}"]
        after = read_tree(folder)
        kinds: list[tuple[str, Callable[[], contextlib.AbstractContextManager[object]]]] = []
        for first in range(1, calls + 1, every):
            kinds += [
                (f"call {first} of {calls}", lambda first=first: FullDisk(first, once=True).here()),  # type: ignore[misc]
                (f"calls from {first} of {calls}", lambda first=first: FullDisk(first).here()),  # type: ignore[misc]
            ]
        for size in SIZES[:: max(1, every // 3)]:
            kinds.append((f"no file beyond {size} bytes", lambda size=size: no_file_grows(size)))  # type: ignore[misc]
        for number, (what, fault) in enumerate(kinds, start=1):
            tried += 1
            try:
                folder, outcome, before = attempt(number, fault())
                faults += [
                    f"{name}, {what}: {each}" for each in judge(scenario, folder, outcome, before, after)
                ]
            except Exception as error:
                faults.append(f"{name}, {what}: raised {error!r}")
            shutil.rmtree(folder.parent, ignore_errors=True)
    return tried, faults


def fill_disk(folder: Path) -> list[str]:
    """Let a server run on a file system of 20 MB until that is full, and again with space."""
    faults = []
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        return ["only root may mount a small file system"]
    try:
        served = start(folder)
        client, blobs = PlainClient(served.environment), PlainClient(served.environment, BLOBS)
        kept, statuses = dict[str, int](), set[int]()
        for number in range(60):
            name = f"f{number}"
            blob = blobs.send(
                "PUT", f"/azureml-blobstore/{name}", b"x" * 700_000, {"x-ms-blob-type": "BlockBlob"}
            )
            data = client.put(
                f"data/{name}/versions",
                "1",
                {"dataType": "uri_file", "dataUri": f"azureml://datastores/workspaceblobstore/paths/{name}"},
            )
            job = client.put("jobs", name, COMMAND) if number % 10 == 9 else None
            statuses |= {each.status for each in (blob, data, job) if each is not None}
            kept |= {
                f"{kind} {name}": each.status
                for kind, each in (("blob", blob), ("data", data), ("job", job))
                if each is not None and each.status == 201
            }
        if 507 not in statuses or statuses - {201, 507}:
            faults.append(f"the answers were {sorted(statuses)}")
        log = (folder / ".worldsize" / "serve" / "server.log").read_text()
        faults += [f"a traceback in the log: {log[-1500:]}"] if "Traceback" in log else []
        served.process.kill()
        served.process.wait()
        subprocess.run(["mount", "-o", "remount,size=200m", str(folder)], check=True)
        served = start(folder)
        client, blobs = PlainClient(served.environment), PlainClient(served.environment, BLOBS)
        for each in kept:
            kind, name = each.split()
            path = {"data": (f"data/{name}/versions", "1"), "job": ("jobs", name)}.get(kind)
            answer = (
                client.get(*path)
                if path
                else blobs.send("GET", f"/azureml-blobstore/{name}", headers={"x-ms-version": "2021-12-02"})
            )
            if answer.status != 200 or (kind == "blob" and answer.content != b"x" * 700_000):
                faults.append(f"{each} was acknowledged and is gone: {answer.status}")
        served.stop()
        print(f"  a disk of 20 MB: {len(kept)} acknowledged, answers {sorted(statuses)}")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    return faults


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", choices=[*SCENARIOS], action="append")
    options.add_argument("--every", type=int, default=1, help="try every so many calls")
    options.add_argument("--disk", action="store_true", help="fill a small file system too")
    chosen = options.parse_args()
    logging.raiseExceptions, total = False, 0
    for name in chosen.only or SCENARIOS:
        tried, faults = try_scenario(name, chosen.every)
        print(f"  {tried:6} faults met by {name}: {len(faults)} wrong", flush=True)
        for fault in faults[:10]:
            print(f"  FAULT {fault}")
        total += len(faults)
    if chosen.disk:
        with tempfile.TemporaryDirectory(prefix="worldsize-disk-") as name:
            faults = fill_disk(Path(name))
        for fault in faults[:10]:
            print(f"  FAULT {fault}")
        total += len(faults)
    return 1 if total else 0


if __name__ == "__main__":
    raise SystemExit(main())
