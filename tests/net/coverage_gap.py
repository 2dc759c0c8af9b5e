"""Compares what `make test` covers with what all tests cover: `make coverage` runs both and then this.

    python tests/net/coverage_gap.py build/coverage/test build/coverage/long

Prints the share of lines of the compiler and of the components that ran in each, and the modules in
which `make test` covers less. It fails if a share of `make test` is more than ``MOST_POINTS`` below that
of all tests.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import coverage

ROOT = Path(__file__).parents[2]
MOST_POINTS = 3.0
LISTED = 25  # modules
PARTS = ("compiler/worldsize", "components")


class Lines(NamedTuple):
    """Of a file: the lines that can run, and those that ran under `make test` and under any test."""

    path: str
    all: int
    test: int
    both: int

    @property
    def gap(self) -> int:
        return self.both - self.test


def read_executed(path: str) -> dict[str, set[int]]:
    """The lines that ran, by file."""
    data = coverage.CoverageData(path)
    data.read()
    return {name: set(data.lines(name) or ()) for name in data.measured_files()}


def count_lines(test: dict[str, set[int]], long: dict[str, set[int]]) -> list[Lines]:
    """Count the lines of every file of the product."""
    measure = coverage.Coverage(data_file=None, config_file=str(ROOT / "pyproject.toml"))
    counted = []
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            _, statements, _, _, _ = measure.analysis2(str(path))
            ran = test.get(str(path), set()) & set(statements)
            either = ran | (long.get(str(path), set()) & set(statements))
            name = path.relative_to(ROOT).as_posix()
            counted.append(Lines(name, len(statements), len(ran), len(either)))
    return counted


def main(test: str, long: str) -> int:
    """Print the table; the status is 1 if `make test` covers too little."""
    counted = count_lines(read_executed(test), read_executed(long))
    status = 0
    print(f"{'':24}{'lines':>8}{'make test':>12}{'all tests':>12}{'points':>9}")
    for part in PARTS:
        own = [lines for lines in counted if lines.path.startswith(f"{part}/")]
        total = sum(lines.all for lines in own)
        ours, both = (100 * sum(getattr(lines, name) for lines in own) / total for name in ("test", "both"))
        print(f"{part:24}{total:8,}{ours:11.1f}%{both:11.1f}%{both - ours:9.1f}")
        status |= both - ours > MOST_POINTS
    print(f"\nlines that only `make test-all` runs, the {LISTED} modules with most of them:")
    for lines in sorted(counted, key=lambda one: -one.gap)[:LISTED]:
        print(f"{lines.gap:6} of {lines.all:4}  {lines.path}")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
