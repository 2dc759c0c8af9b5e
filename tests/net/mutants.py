"""Tries the net: puts a small fault into each of many modules and counts which tests notice.

    python tests/net/mutants.py --seed 34 --count 40 --contexts build/coverage/test build/coverage/long

A fault is an off-by-one, two swapped arguments, a dropped `not`, or `and` for `or`. The modules are
drawn at random from the compiler and the components. For each fault it runs the tests that execute the
line, first the fast ones, then the others of `make test`, then the rest, and prints a table. The contexts
are what `make coverage` has written: without them it would run every test for each fault. Files are
changed in place and restored.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import random
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import coverage

ROOT = Path(__file__).parents[2]
FOLDERS = ("compiler/worldsize", "components")
BOUNDARY: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
# In the order in which they are tried: the tests, and which of the files of contexts knows them.
NETS = {
    "fast tests": ("not run and not bench", 0),
    "make test": ("run and smoke and not bench", 0),
    "make test-all": ("run and not bench and (not smoke or horovod)", 1),
}
SECONDS = 1500  # for the tests of one fault
NONE_SELECTED = 5  # the exit status of pytest


class Fault(NamedTuple):
    """A change of one place of a file."""

    path: Path
    line: int
    kind: str
    start: int  # in bytes
    end: int
    text: str  # what stands there instead

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def show(self, source: bytes) -> str:
        before = source[self.start : self.end].decode()
        return f"`{' '.join(before.split())}` → `{' '.join(self.text.split())}`"


def draw_faults(seed: int, count: int) -> list[Fault]:
    """One fault in each of `count` modules, the same for a seed."""
    draw = random.Random(seed)
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    draw.shuffle(paths)
    faults = (draw_fault(draw, path) for path in paths)
    return list(itertools.islice((fault for fault in faults if fault is not None), count))


def draw_fault(draw: random.Random, path: Path) -> Fault | None:
    """One fault for a file, of each kind with the same probability; None if it can have none."""
    source = path.read_bytes()
    possible = defaultdict(list)
    for fault in find_faults(path, source):
        possible[fault.kind].append(fault)
    faults = [draw.sample(own, len(own)) for own in possible.values()]
    draw.shuffle(faults)
    return next((fault for own in faults for fault in own if is_valid(fault, source)), None)


def is_valid(fault: Fault, source: bytes) -> bool:
    """Whether the file is another program with the fault; in an f-string the places of nodes are not true."""
    try:
        return ast.dump(ast.parse(fault.apply(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def find_faults(path: Path, source: bytes) -> Iterator[Fault]:
    """Every fault that a file can be given inside its functions."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def write(node: ast.expr) -> str:
        return source[place(node.lineno, node.col_offset) : end_of(node)].decode()

    def place(line: int, column: int) -> int:
        return starts[line - 1] + column

    def end_of(node: ast.expr) -> int:
        return place(node.end_lineno or node.lineno, node.end_col_offset or 0)

    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    nodes = [node for function in functions for part in function.body for node in ast.walk(part)]
    for node in dict.fromkeys(nodes):  # a function may stand in another
        for kind, first, last, text in change_node(node, write):
            start = place(first.lineno, first.col_offset)
            yield Fault(path, first.lineno, kind, start, end_of(last), text)


def change_node(
    node: ast.AST, write: Callable[[ast.expr], str]
) -> Iterator[tuple[str, ast.expr, ast.expr, str]]:
    """The faults that a node can have: the kind, the first and last node that it replaces, and by what."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in BOUNDARY:
            yield "off by one", node, node, f"{write(left)} {BOUNDARY[type(operator)]} {write(right)}"
        case ast.BinOp(op=ast.Add() | ast.Sub(), right=ast.Constant(value=int(number)) as one):
            yield "off by one", one, one, str(number + 1)
        case ast.Call(args=[first, second, *_]) if not {type(first), type(second)} & {ast.Starred}:
            yield "swapped arguments", first, second, f"{write(second)}, {write(first)}"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "dropped not", node, node, write(operand)
        case ast.BoolOp(op=operator, values=[first, second]):
            word = "or" if isinstance(operator, ast.And) else "and"
            yield "and for or", node, node, f"{write(first)} {word} {write(second)}"


def read_tests(fault: Fault, contexts: str) -> list[str] | None:
    """The tests that run the line of a fault; None if something runs it outside of a test."""
    data = coverage.CoverageData(contexts)
    data.read()
    names = data.contexts_by_lineno(str(fault.path)).get(fault.line, [])
    if not all("::" in name for name in names):
        return None
    return sorted({name_test(name) for name in names})


def name_test(context: str) -> str:
    """The test of a context: `test|run`, `test (call)`, or `test of a fork's parent (call)|test (call)`."""
    match = re.fullmatch(r"(?:.* \(\w+\)\|)?(.*?)(?: \(\w+\)|\|(?:setup|run|teardown))", context)
    assert match is not None, context
    return match[1]


def run_tests(net: str, tests: list[str] | None) -> str:
    """Run tests until one fails, and return its name; an empty text if all pass."""
    if tests == []:
        return ""
    listed = ROOT / "build" / "mutants.txt"
    listed.parent.mkdir(exist_ok=True)
    listed.write_text("\n".join(tests or []), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-m", NETS[net][0], "-q", *([f"@{listed}"] if tests else [])]
    try:
        done = call(*command, "-x", "-n", "2", "--dist", "loadfile")
    except subprocess.TimeoutExpired:
        return "does not end"
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if done.returncode and not failed:
        done = call(*command, "--collect-only")  # the workers do not say that a name is wrong
        if done.returncode != NONE_SELECTED:
            sys.exit(f"{done.stdout}\n{done.stderr}\npytest ended with status {done.returncode}")
    return failed[0].split(" - ")[0].partition(" ")[2] if failed else ""


def call(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS, errors="replace"
    )


def try_fault(fault: Fault, contexts: list[str]) -> tuple[str, str]:
    """The first net that notices a fault, with the test that does."""
    source = fault.path.read_bytes()
    try:
        fault.path.write_bytes(fault.apply(source))
        for net, (_, measured) in NETS.items():
            if measured < len(contexts) and (test := run_tests(net, read_tests(fault, contexts[measured]))):
                return net, test.partition("[")[0]
    finally:
        fault.path.write_bytes(source)
    return "nothing", ""


def main() -> None:
    """Try each fault and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--contexts", nargs="+", required=True, metavar="FILE", help="of one net, or of both")
    parser.add_argument("--from", type=int, default=0, dest="first", help="begin with this fault")
    arguments = parser.parse_args()
    counts = dict.fromkeys([*NETS, "nothing"], 0)
    print("| module | fault | noticed by | test |\n|---|---|---|---|")
    for fault in draw_faults(arguments.seed, arguments.count)[arguments.first :]:
        change = fault.show(fault.path.read_bytes())
        net, test = try_fault(fault, arguments.contexts)
        counts[net] += 1
        place = f"{fault.path.relative_to(ROOT).as_posix()}:{fault.line}"
        print(f"| {place} | {fault.kind}: {change} | {net} | {test} |", flush=True)
    print(f"\n{counts}")


if __name__ == "__main__":
    main()
