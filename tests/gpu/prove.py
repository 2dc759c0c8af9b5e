"""What is claimed of a GPU, tried on one: `python prove.py --kit build/gpu-kit --out OUT --seconds 490`.

Each check is a process of its own with a time limit, in the order of what it is worth; whatever a check
leaves of its time, those after it may use. Checks that time nothing run side by side. OUT/gpu.json and
OUT/gpu.md are written anew after every check, so that a cut leaves a result. Only what this Python lacks is
installed from the kit, into a folder that is removed at the end. `--device cpu` rehearses the same code with
tiny sizes. This process needs the standard
library only.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NoReturn

from trainings import Document, NotHereError, Trial, write_whole

HERE = Path(__file__).resolve().parent
LAST_LINES = 12  # of the output of a check that fails
LEAST_SECONDS = 3.0  # with less a check is not started
CUT = 143  # the exit status after SIGTERM
# One card shows nothing of these, whatever its figures are.
NOT_SHOWN = "NCCL between GPUs, the overlap of FSDP's exchanges, and scaling"


@dataclass(frozen=True)
class Check:
    """A check.

    Attributes:
        name: of the function, after `check_`.
        module: beside this one, that has it.
        seconds: that it is meant to take.
        shares: whether it times nothing, so that it runs beside its neighbours that share too.
    """

    name: str
    module: str
    seconds: float
    shares: bool = False


CHECKS = (
    Check("capabilities", "capabilities", 12),
    Check("strategies", "strategies", 85, shares=True),
    Check("memory", "memory_plans", 85, shares=True),
    Check("compiled_memory", "memory_plans", 85, shares=True),
    Check("resuming", "data_and_checkpoints", 85, shares=True),
    Check("two_processes", "strategies", 85, shares=True),
    Check("recompilations", "speed", 85, shares=True),
    Check("adopted", "strategies", 85, shares=True),
    Check("speed", "speed", 215),
    Check("prediction", "speed", 5),
    Check("out_of_memory", "memory_plans", 45),
    Check("loader", "data_and_checkpoints", 55),
    Check("checkpoints", "data_and_checkpoints", 65),
)


def main() -> None:
    """Run one check if it is named, else all that are asked for."""
    parser = argparse.ArgumentParser(description="Try on a GPU what is claimed of one.")
    parser.add_argument("--kit", type=Path, help="the folder that `make gpu-kit` builds")
    parser.add_argument("--out", type=Path, help="where gpu.json, gpu.md and gpu.log go")
    parser.add_argument("--seconds", type=float, default=490.0, help="for all checks together")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: the rehearsal")
    parser.add_argument("--only", nargs="+", choices=[each.name for each in CHECKS], help="these checks")
    parser.add_argument(
        "--check", nargs=4, metavar=("MODULE:NAME", "WORK", "END", "FILE"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.out is None:
        parser.error("--out is missing")
    if options.check:
        run_check(options)
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu-kit-")))
        sys.exit(prove(options, work))


def prove(options: argparse.Namespace, work: Path) -> int:
    """Run the checks; return the exit status, 0 if none of them failed."""
    began = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu.log").write_bytes(b"")
    wanted = [each for each in CHECKS if options.only is None or each.name in options.only]
    document: Document = {
        "format": 1,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "device": options.device,
        "tracking": "off: MLflow is not used, and losses go to files",
        "checks": {each.name: {"passed": None, "seconds": 0.0, "reason": "not reached"} for each in wanted},
    }
    save(options.out, document)
    signal.signal(signal.SIGTERM, _stop)
    running: list[Running] = []
    try:
        problem = install(options.kit, work) if options.kit is not None else None
        document["install_seconds"] = round(time.monotonic() - began, 1)
        groups = [list(group) for _, group in groupby(wanted, lambda check: check.shares or check.name)]
        meant = [max(check.seconds for check in group) for group in groups]
        scale = (options.seconds - (time.monotonic() - began)) / sum(meant)
        planned = time.monotonic()
        for group, seconds in zip(groups, meant, strict=True):
            planned += seconds * scale
            limit = planned - time.monotonic()
            if problem is not None or limit < LEAST_SECONDS:
                for check in group:
                    reason = problem or f"not started: {max(0.0, limit):.0f} seconds are left"
                    document["checks"][check.name]["reason"] = reason
                save(options.out, document)
                continue
            for check in group:
                # Between its start and its place in the list, a signal would leave it running.
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
                running.append(start(check, limit, options, work))
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            while running:
                document["checks"][running[0].name] = running[0].wait(options.out)
                del running[0]
                save(options.out, document)
    except StoppedError:
        for each in running:
            cut = each.process.poll() is None
            each.limit = 0.0
            document["checks"][each.name] = each.wait(options.out)
            if cut:
                document["checks"][each.name]["reason"] = "stopped from outside while it ran"
        document["stopped"] = "from outside"
        save(options.out, document)
        return CUT
    print((options.out / "gpu.md").read_text(encoding="utf-8"))
    failed = problem is not None or any(each["passed"] is False for each in document["checks"].values())
    return int(failed)


class StoppedError(Exception):
    """SIGTERM came."""


def _stop(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    raise StoppedError


def install(kit: Path, work: Path) -> str | None:
    """Install what this Python lacks into a folder; return what went wrong."""
    names = {path.name.partition("-")[0] for path in kit.glob("*.whl")}
    if "worldsize" not in names:
        return f"there is no wheel of worldsize in `{kit}`: `make gpu-kit` builds the folder"
    lacking = sorted(name for name in names if name == "worldsize" or not _is_installed(name))
    site = work / "site"
    command = [sys.executable, "-m", "pip", "--isolated", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-compile", "--disable-pip-version-check", "--root-user-action", "ignore"]
    done = subprocess.run(
        [*command, "--find-links", str(kit), "--target", str(site), *lacking],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return f"the kit cannot be installed: {done.stderr.strip()[-400:]}"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    return None


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@dataclass
class Running:
    """A check that runs in a process of its own; what it prints goes to a file beside its result."""

    name: str
    process: subprocess.Popen[bytes]
    file: Path
    said: Path
    limit: float
    began: float

    def wait(self, out: Path) -> Document:
        """Wait for its end, add what it printed to gpu.log, and return its result."""
        reason = None
        try:
            status = self.process.wait(max(0.0, self.began + self.limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            reason = f"stopped after {self.limit:.0f} seconds, its limit"
        self.end()
        result = {"seconds": round(time.monotonic() - self.began, 1), **read(self.file)}
        lines = self.said.read_bytes()
        with (out / "gpu.log").open("ab") as log:
            log.write(f"\n== {self.name}\n".encode() + lines)
        if reason is None and not result.get("complete"):
            reason = f"ended with status {status}"
            result["last_lines"] = lines.decode(errors="replace").strip().splitlines()[-LAST_LINES:]
        result.pop("complete", None)
        passed = result.get("passed") if reason is None else False
        return {**result, "passed": passed, **({"reason": reason} if reason else {})}

    def end(self) -> None:
        """Leave no process of the check behind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start(check: Check, limit: float, options: argparse.Namespace, work: Path) -> Running:
    """Start a check, which ends after `limit` seconds."""
    file, said = work / f"{check.name}.json", work / f"{check.name}.log"
    command = [sys.executable, str(HERE / "prove.py"), "--out", str(options.out.resolve())]
    command += ["--device", options.device, "--check", f"{check.module}:{check.name}"]
    command += [str(work), str(time.time() + limit), str(file)]
    threads = {"OMP_NUM_THREADS": "1"} if options.device == "cpu" else {}
    with said.open("wb") as output:
        process = subprocess.Popen(
            command, env=os.environ | threads, stdout=output, stderr=output, start_new_session=True
        )
    return Running(check.name, process, file, said, limit, time.monotonic())


def run_check(options: argparse.Namespace) -> NoReturn:
    """Run one check in this process."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # the driver had blocked it for a moment
    place, work, end, file = options.check
    module, _, name = place.partition(":")
    trial = Trial(options.device, Path(work), float(end), options.out / "gpu.json", Path(file))
    began = time.monotonic()
    try:
        check: Callable[[Trial], None] = getattr(importlib.import_module(module), f"check_{name}")
        check(trial)
        trial.keep(passed=not trial.result["faults"])
    except NotHereError as reason:
        trial.keep(passed=None, reason=f"not on this device: {reason}")
    except Exception as error:
        traceback.print_exc()
        trial.keep(passed=False, reason=f"{type(error).__name__}: {str(error)[:300]}")
    trial.keep(seconds=round(time.monotonic() - began, 1), complete=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a process group that is torn down may wait for ever


def read(file: Path) -> Document:
    """Return what a check has written so far."""
    try:
        found: Document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def save(out: Path, document: Document) -> None:
    """Write both files anew."""
    machine = document["checks"].get("capabilities", {}).get("machine")
    if machine:
        document["machine"] = machine
    write_whole(out / "gpu.json", json.dumps(document, indent=1) + "\n")
    write_whole(out / "gpu.md", describe(document))


def describe(document: Document) -> str:
    """The results for people."""
    machine = document.get("machine", {})
    card = machine.get("gpu", "a card that was not asked")
    versions = ", ".join(
        f"{name} {machine[name]}" for name in ("torch", "cuda", "driver") if machine.get(name)
    )
    lines = [f"# {card}, {document['date']}", "", *([versions, ""] if versions else [])]
    if document["device"] == "cpu":
        lines += ["A rehearsal without a GPU, with tiny sizes: no figure here says anything about speed.", ""]
    lines += [f"Tracking is {document['tracking']}. One GPU cannot show {NOT_SHOWN}.", ""]
    lines += ["| check | passed | seconds | found |", "|---|---|---|---|"]
    for name, each in document["checks"].items():
        verdict = {True: "yes", False: "**no**", None: "not tried"}[each["passed"]]
        found = "; ".join([*filter(None, [each.get("reason")]), *each.get("said", [])])
        lines.append(f"| {name.replace('_', ' ')} | {verdict} | {each['seconds']:g} | {_cell(found)} |")
    notes = [
        f"- {name.replace('_', ' ')}: {text}"
        for name, each in document["checks"].items()
        for text in (*each.get("faults", ()), *each.get("not_here", ()), *each.get("last_lines", ()))
    ]
    lines += ["", *notes, *([""] if notes else [])]
    rows = document["checks"].get("speed", {}).get("rows", [])
    if rows and document["device"] == "cuda":
        lines += ["Rows for the table of `compiler/docs/estimates.md`:", "", *rows, ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())


if __name__ == "__main__":
    main()
