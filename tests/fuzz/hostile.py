"""Check hostile files of one megabyte: `python tests/fuzz/hostile.py`, or `… --only quotes --size 4000000`.

With `--command compile`, `plan` or `run` they are given to that instead, `run` without starting anything.

Each shape repeats one thing until a file has the size, so that whatever takes quadratic time or many times
the file's memory shows. Of every file it demands an ordinary exit status, at most two seconds of processor
time and 500 MB. Every check is a process of its own; `tests/unit/test_check_limits.py` checks small ones.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 2.0
MEMORY = 500_000_000
SIZE = 1_000_000
FILES = runpy.run_path(str(Path(__file__).with_name("hostile_files.py")))
SHAPES, write = FILES["SHAPES"], FILES["write"]

ARGUMENTS = {
    "check": ["check", "."],
    "plan": ["plan", "FILE"],
    "compile": ["compile", "FILE", "-o", "out"],
    "run": ["run", "FILE", "--dry-run"],
}


def measure(shape: str, size: int, limit: float = 60.0, verb: str = "check") -> tuple[int, float, int, str]:
    """Exit status, processor seconds, peak memory in bytes and what was left behind, of one process."""
    with tempfile.TemporaryDirectory() as folder:
        files = SHAPES[shape](size)
        write(files, Path(folder))
        there = {path.name for path in Path(folder).iterdir()}
        file = next(name for name in ("spec.yml", "schedule.yml", "job.yml") if name in files)
        code = (
            "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv.pop(1)),) * 2); "
            "from worldsize.cli.main import main; sys.exit(main())"
        )
        arguments = [file if word == "FILE" else word for word in ARGUMENTS[verb]]
        command = [sys.executable, "-c", code, str(int(limit)), *arguments]
        with tempfile.TemporaryFile() as said:
            child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=said)
            _, status, usage = os.wait4(child.pid, 0)
            said.seek(0)
            left = "a traceback" if b"Traceback (most" in said.read() else ""
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            left = left or ", ".join(
                sorted({path.name for path in Path(folder).iterdir()} - there - {".worldsize"})
            )
        return child.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, left


def main() -> int:
    """Check every shape, or those asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="shapes whose name holds this")
    parser.add_argument("--size", type=int, default=SIZE, help="bytes of a file")
    parser.add_argument("--command", choices=ARGUMENTS, default="check", help="what is given the files")
    arguments = parser.parse_args()
    failed = 0
    for shape in (shapes := [shape for shape in SHAPES if arguments.only in shape]):
        status, seconds, memory, left = measure(shape, arguments.size, verb=arguments.command)
        wrong = status not in (0, 1) or seconds > SECONDS or memory > MEMORY or left != ""
        failed += wrong
        mark = "FAIL" if wrong else "ok  "
        print(f"{mark} {shape}: status {status}, {seconds:.2f} s, {memory / 1e6:.0f} MB {left}", flush=True)
    print(f"{len(shapes)} shapes of {arguments.size:,} bytes, {failed} over {SECONDS} s or 500 MB")
    return 1 if failed or not shapes else 0


if __name__ == "__main__":
    raise SystemExit(main())
