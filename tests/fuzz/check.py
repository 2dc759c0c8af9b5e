"""Throw bytes, YAML and mutated files at the checker: `python tests/fuzz/check.py --cases 100000 --seed 1`.

Of every case it demands: an ordinary exit status, spans inside the text, bounded time and memory, that a
fixed file has nothing left to fix, that no process, socket or file outside the case's folder is touched.
A case that fails is kept, and the same seed and number make it again.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import worldsize
from worldsize.base import resources
from worldsize.checking import Report, fixing

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import case_pages  # noqa: E402

PIECES = [
    "null", "yes", "-1", "0", "1e-3", "1.5", ".nan", "-.inf", "2024-13-01", "2024-01-31", "[]", "{}",
    "[1, 2]", "{a: 1}", "''", "x: y", "&a ", "*a", "<<: *a", "!!int ", "!!binary ", "- ", "? ",
    "|\n  x", ">-\n  x", "${{", "}}", "${{plan.x}}", "$[[", "]]",
    "${{parent.jobs.first.outputs.model}}", "${{parent.inputs.data}}", "${{inputs.data}}",
    "${inputs.data}", "# worldsize: ignore[WS203]", "\t", "\u2028", "漢", "\x00", "\ufeff", "\r",
    "\r\n", "azureml:", "azureml:x@latest", "steps:", "jobs:", "command", "pipeline",
    "uses: train_ddp", "99999999999999999999", "1:30", "../..", "~", "%YAML 1.2", "---", "...",
    "component: ../../outside.yml", "code: /etc", "path: ../../..", "conda_file: /etc/passwd",
    "create_job: ../../outside.yml", "trigger: {type: cron, expression: '* * * * *'}", "type: sweep",
    "type: parallel",
]  # fmt: skip
FORBIDDEN = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.spawn",
    "pty.",
    "shutil.",
)


class FailureError(Exception):
    """What a case did that it must not."""


def seeds() -> list[str]:
    """Valid files of every kind, and the faulty ones of the rules' tests."""
    folders = [ROOT / "pipelines", ROOT / "components"]
    paths = sorted(path for folder in folders for path in folder.rglob("*.yml") if path.is_file())
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
    texts += case_files(".yml")
    return [text for text in texts if len(text) < 20_000]


def case_files(end: str) -> list[str]:
    """The files of the rules' tests whose path ends so."""
    pages = case_pages.read_all(ROOT / "tests" / "rules")
    return [file.text for page in pages for file in page.files if file.path.endswith(end)]


def random_bytes(draw: random.Random, _: list[str]) -> bytes:
    """Bytes, from any to nearly text."""
    alphabet = draw.choice([bytes(range(256)), b"abc:{}[]-\n \t'\"#&*!|>%@`,?", b"\xc3\xa4\xff\x00: \n"])
    return bytes(draw.choices(alphabet, k=draw.randrange(400)))


def random_yaml(draw: random.Random, _: list[str]) -> bytes:
    """A tree of keys that mean something, with values that mostly do not fit."""
    keys = [
        "type", "jobs", "steps", "inputs", "outputs", "command", "component", "environment", "compute",
        "resources", "distribution", "instance_count", "process_count_per_instance", "schedule",
        "trigger", "limits", "code", "name", "$schema", "settings", "trial", "search_space", "task",
        "image", "conda_file", "default", "path", "mode", "scale",
    ]  # fmt: skip

    def value(depth: int) -> str:
        kind = draw.randrange(6 if depth < 6 else 3)
        if kind < 3:
            return draw.choice(PIECES).replace("\n", " ")
        if kind == 3:
            return "[" + ", ".join(value(depth + 1) for _ in range(draw.randrange(4))) + "]"
        entries = (f"{draw.choice(keys)}: {value(depth + 1)}" for _ in range(draw.randrange(5)))
        return "{" + ", ".join(entries) + "}"

    lines = [f"{draw.choice(keys)}: {value(0)}" for _ in range(draw.randrange(1, 12))]
    return "\n".join([*draw.choice([["type: pipeline"], ["type: command"], []]), *lines]).encode(
        "utf-8", "replace"
    )


def mutated(draw: random.Random, known: list[str]) -> bytes:
    """A file with words and lines replaced, dropped, doubled, moved, cut or repeated."""
    lines = draw.choice(known).split("\n")
    if draw.random() < 0.15:
        other = draw.choice(known).split("\n")
        lines = lines[: draw.randrange(len(lines) + 1)] + other[draw.randrange(len(other)) :]
    for _ in range(draw.randrange(1, 7)):
        mutate(draw, lines)
    return draw.choice(["\n", "\n", "\n", "\r\n"]).join(lines).encode("utf-8", "surrogatepass")


def mutate(draw: random.Random, lines: list[str]) -> None:
    """One change in place."""
    at = draw.randrange(len(lines))
    line, piece = lines[at], draw.choice(PIECES)
    place = draw.randrange(len(line) + 1)
    change = draw.randrange(9)
    if change == 0 and ":" in line:
        lines[at] = line[: line.index(":") + 1] + " " + piece
    elif change == 1:
        lines[at] = line[:place] + piece + line[place:]
    elif change == 2 and len(lines) > 1:
        del lines[at]
    elif change == 3:
        lines.insert(draw.randrange(len(lines) + 1), line)
    elif change == 4:
        lines[at] = line[:place]
    elif change == 5:
        lines[at] = " " * draw.randrange(5) + line.lstrip()
    elif change == 6:
        lines[at] = line.swapcase() if draw.random() < 0.5 else line[:place] + line[place + 1 :]
    elif change == 7:
        lines[at:at] = lines[at : at + 3] * draw.choice([1, 2, 40])
    else:
        words = line.split(" ")
        draw.shuffle(words)
        lines[at] = " ".join(words)


MAKERS: list[tuple[str, float, Callable[[random.Random, list[str]], bytes]]] = [
    ("bytes", 0.15, random_bytes),
    ("yaml", 0.25, random_yaml),
    ("mutated", 0.60, mutated),
]


class Guard:
    """Watches what the interpreter does while a case is judged."""

    def __init__(self, folder: Path) -> None:
        self.active = False
        self.found: list[str] = []
        homes = [
            folder,
            ROOT,
            resources.components(),
            resources.schemas(),
            Path(sys.prefix),
            Path(sys.base_prefix),
        ]
        self.allowed = tuple(os.path.realpath(home) + os.sep for home in homes)
        sys.addaudithook(self.hook)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note processes, sockets, and files outside of the case's folder and our own."""
        if not self.active:
            return
        if event == "open" and isinstance(arguments[0], (str, bytes)):
            real = os.path.realpath(os.fsdecode(arguments[0]))
            writes = isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not real.startswith(self.allowed) or (
                writes and not real.endswith(".pyc") and ".pyc." not in real
            ):
                self.found.append(f"open {real}")
        elif event.startswith(FORBIDDEN):
            self.found.append(event)


def judge(path: Path) -> Report:
    """Check a file, look at what is said of it, and fix it in memory."""
    report = worldsize.check(path.name)
    crashes = [each.message for each in report.diagnostics if each.code == "WS000"]
    if crashes:
        raise FailureError(crashes[0])
    for each in report.diagnostics:
        source = report.sources.get(each.span.path)
        if len(each.message) > 200 or each.message[:1].isupper():
            raise FailureError(f"message: {each.message}")
        if source is not None and source.text:
            lines = source.text.count("\n") + source.text.count("\r") + 1
            if not 1 <= each.span.line <= each.span.end_line <= lines:
                raise FailureError(f"span {each.span} of {lines} lines")
    report.render()
    report.render("json")
    if any(each.fix is not None for each in report.diagnostics):
        fixed = fixing.fix(path.name, unsafe=True, write=False)
        texts = {change.path: change.after for change in fixed.changes}
        again = worldsize.check(path.name, texts=texts)
        if again.diagnostics != fixed.report.diagnostics:
            raise FailureError("fixing twice is not fixing once")
    return report


def timed_out(*_: object) -> None:
    """The alarm of one case."""
    raise FailureError("took too long")


def main() -> int:
    """Run the cases; the exit status says whether all went well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seconds", type=float, default=10.0, help="most time for one case")
    parser.add_argument("--megabytes", type=int, default=2048, help="most memory of the process")
    parser.add_argument("--keep", type=Path, default=None, help="folder for cases that fail")
    options = parser.parse_args()
    limit = options.megabytes * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, timed_out)
    with tempfile.TemporaryDirectory() as name:
        return run(options, Path(name))


def run(options: argparse.Namespace, outer: Path) -> int:
    """All cases in one folder, whose neighbours must not be read."""
    (outer / "outside.yml").write_text("type: command\ncommand: echo\nenvironment: azureml:e:1\n")
    folder = outer / "a" / "tree"
    folder.mkdir(parents=True)
    os.chdir(folder)
    (folder / "component.yml").write_text("type: command\nname: c\ncommand: echo\nenvironment: azureml:e:1\n")
    known, guard = seeds(), Guard(folder)
    worldsize.check("component.yml").render("json")  # whatever is imported late is imported now
    counts: Counter[str] = Counter()
    failures, slowest, begin = 0, 0.0, time.monotonic()
    for number in range(options.first, options.first + options.cases):
        draw = random.Random(f"{options.seed}/{number}")
        kind, _, make = draw.choices(MAKERS, [weight for _, weight, _ in MAKERS])[0]
        content = make(draw, known)
        (folder / "case.yml").write_bytes(content)
        start = time.monotonic()
        problem = attempt(folder / "case.yml", guard, options.seconds, counts)
        slowest = max(slowest, time.monotonic() - start)
        counts[kind] += 1
        if problem is not None:
            failures += 1
            print(f"case {number} ({kind}): {problem}", flush=True)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{options.seed}-{number}.yml").write_bytes(content)
        if (number + 1) % 5000 == 0:
            print(f"{number + 1} cases, {failures} failures, {time.monotonic() - begin:.0f} s", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    kinds = ", ".join(f"{counts[kind]} {kind}" for kind, _, _ in MAKERS)
    print(f"{options.cases} cases ({kinds}), {failures} failures, {time.monotonic() - begin:.0f} s")
    print(f"{counts['diagnostics']} diagnostics, {counts['clean']} clean files, {counts['fixed']} with fixes")
    print(f"slowest case {slowest:.2f} s, peak memory {peak} MB")
    return int(failures > 0)


def attempt(path: Path, guard: Guard, seconds: float, counts: Counter[str]) -> str | None:
    """One case; what went wrong, or None."""
    guard.found.clear()
    guard.active = True
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        report = judge(path)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        guard.active = False
    counts["diagnostics"] += len(report.diagnostics)
    counts["clean"] += not report.diagnostics
    counts["fixed"] += any(each.fix is not None for each in report.diagnostics)
    return f"touched {guard.found[0]}" if guard.found else None


if __name__ == "__main__":
    sys.exit(main())
