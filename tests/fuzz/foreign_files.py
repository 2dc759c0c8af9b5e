"""Put what is not a file where a command reads one: `python tests/fuzz/foreign_files.py`.

A project and the folder of a run are read by each command once as they are, under an audit hook that notes
which of their files it opens. Then each of those files is replaced, one at a time, by a pipe, a device, a
socket, a folder, links to these and to nothing, a file that grows, one without permission and ones that are
too large, and the command runs again, in a forked child. Of each cell is demanded: it ends in time and with
an ordinary exit status, without a traceback and in bounded memory, and a sentence names the file, unless the
command says the same where the file is missing. The last line has the number of cells.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.foreign_project import COMMANDS, FILES, make_project

SECONDS = 15.0  # more than a command takes as it is
GROWTH = 400 << 20  # bytes of memory more than that
MUST_NAME = [name for name, words in COMMANDS.items() if words[0] in ("check", "plan", "compile", "lsp")]


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a longer name than 107 bytes has no socket
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)


def _aside(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def link(path: Path) -> None:
        target = path.with_name(f".aside{path.suffix}~")
        make(target)
        path.symlink_to(target.name)

    return link


def _sparse(size: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.touch()
        os.truncate(path, size)

    return make


def _device(path: Path) -> None:
    """A device that never ends; who may not make one gets a link to it, which leads out of the project."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        path.symlink_to("/dev/zero")


def _growing(path: Path) -> None:
    """A file that another process makes longer, faster than anyone can read it."""
    path.write_bytes(b"")
    if os.fork() == 0:
        with contextlib.suppress(OSError):
            for size in range(1, 1 << 16):
                os.truncate(path, size << 24)
                time.sleep(0.001)
        os._exit(0)


KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": _device,
    "link out to a device": lambda path: path.symlink_to("/dev/zero"),
    "socket": _socket,
    "folder": lambda path: path.mkdir(),
    "link to a pipe": _aside(os.mkfifo),
    "link to a device": _aside(_device),
    "link to a socket": _aside(_socket),
    "link to a folder": _aside(Path.mkdir),
    "link to nothing": lambda path: path.symlink_to("nothing~"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "growing": _growing,
    "unreadable": lambda path: path.touch(0),
    "17 MiB": _sparse(17 << 20),
    "1 TiB": _sparse(1 << 40),
}
# As if it were missing, outside of the project, or within another limit.
MAY_BE_SILENT = {"link to nothing", "link out to a device", "growing", "17 MiB"}
OUR_FAULT = re.compile(r"Traceback[\s\S]*?File \"[^\"]*/worldsize/|internal error|WS000")
LARGE = ("growing", "1 TiB")
ANY_SIZE = re.compile(
    r"\.log$|\.csv$|\.sh$|^say/|shared\.py"
)  # what is copied, or read in part: as large as it is


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int | None  # None: it did not
    said: str
    memory: int  # bytes
    seconds: float
    opened: Sequence[str] = ()  # files below the project, where that was listened to
    imported: Sequence[str] = ()

    @property
    def sentences(self) -> frozenset[str]:
        """What it said, without numbers and order, which differ between two equal runs."""
        findings = re.findall(r'"message": "(?:[^"\\]|\\.)*"', self.said)  # in an editor's messages
        lines = findings if self.said.startswith("Content-Length") else self.said.split("\n")
        return frozenset(re.sub(r"[\d.]+", "#", line) for line in lines)


def call(root: Path, words: Sequence[str], most: float, *, listens: bool = False) -> Outcome:
    """Run a command in a child of this process, in a copy of the project."""
    heard, told = (root.parent / name for name in ("heard", "said"))
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        _run_child(root, words, heard if listens else None, told)
    status, usage = None, None
    while time.monotonic() - began < most:
        done, code, usage = os.wait4(pid, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(code)
            break
        time.sleep(0.004)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if status is None:
        _, _, usage = os.wait4(pid, 0)
    opened, imported = json.loads(heard.read_bytes()) if listens and heard.exists() else ((), ())
    said = told.read_text(errors="replace") if told.exists() else ""
    assert usage is not None
    return Outcome(status, said, usage.ru_maxrss << 10, time.monotonic() - began, opened, imported)


def _run_child(root: Path, words: Sequence[str], heard: Path | None, told: Path) -> None:
    """Run a command and end this process; with ``heard``, write which files below the root it opens."""
    os.chdir(root)
    output = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(_ask(root) if words == ["lsp"] else os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    streams = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
    for number, (name, mode) in enumerate(streams):
        setattr(sys, name, os.fdopen(number, mode, closefd=False))
    opened: set[str] = set()
    if heard is not None:
        inside = os.path.realpath(root) + os.sep

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            if event in ("open", "sqlite3.connect") and isinstance(arguments[0], str | os.PathLike):
                path = unquote(os.fspath(arguments[0]).removeprefix("file:").removesuffix("?mode=ro"))
                real = os.path.abspath(path)  # noqa: PTH100 - of a link, its own
                if real.startswith(inside):
                    opened.add(real[len(inside) :])

        sys.addaudithook(hook)
    sys.argv = ["worldsize", *words]
    leave, os._exit = os._exit, sys.exit  # type: ignore[assignment]  # a check of paths alone ends like that
    warnings.resetwarnings()
    status = 3
    try:
        from worldsize import __main__ as program

        program.main()
    except SystemExit as ended:
        status = int(ended.code or 0) if not isinstance(ended.code, str) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        if heard is not None:
            heard.write_text(json.dumps([sorted(opened), sorted(sys.modules)]))
        leave(status)


def _ask(root: Path) -> int:
    """The reading end of a pipe that another process writes an editor's messages into."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        for each in _edit(root):
            time.sleep(1.5 * (b"shutdown" in each))  # which cancels what has not been answered
            os.write(writing, each)
        os._exit(0)
    os.close(writing)
    return reading


def _edit(root: Path) -> Iterator[bytes]:
    """What an editor asks of the language server where files are opened and looked at."""
    number = 0

    def message(method: str, **parameters: object) -> bytes:
        nonlocal number
        number += 1
        document: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": parameters}
        document |= {} if method in ("initialized", "exit", "textDocument/didOpen") else {"id": number}
        body = json.dumps(document).encode()
        return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

    folders = [{"uri": root.as_uri(), "name": "a"}]
    yield message(
        "initialize", processId=None, rootUri=root.as_uri(), capabilities={}, workspaceFolders=folders
    )
    yield message("initialized")
    for name in ("job.yml", "spec.yml", "pipeline.yml"):
        path, text = root / name, FILES[name]
        item = {"uri": path.as_uri(), "languageId": "yaml", "version": 1, "text": text}
        yield message("textDocument/didOpen", textDocument=item)
        place = {"textDocument": {"uri": path.as_uri()}, "position": {"line": 4, "character": 14}}
        for asked in ("hover", "definition", "completion", "references"):
            more = {"context": {"includeDeclaration": True}} if asked == "references" else {}
            yield message(f"textDocument/{asked}", **place, **more)
    yield message("shutdown")
    yield message("exit")


@dataclass(frozen=True)
class Cell:
    """One command with one of its files replaced."""

    command: str
    file: str
    kind: str


class Matrix:
    """The project, and how each command ends in it as it is."""

    def __init__(self, folder: Path, commands: Sequence[str]) -> None:
        self.pristine, self.root = folder / "pristine", folder / "work" / "project"
        make_project(self.pristine)
        if any(COMMANDS[name][0] == "serve" for name in commands):
            call(self.pristine, COMMANDS["serve"], SECONDS)  # it makes the home of a workspace
        self.plain: dict[str, Outcome] = {}
        self.without: dict[tuple[str, str], Outcome] = {}
        for name in commands:
            self.plain[name] = self._call(name, listens=True)
            _import_all(self.plain[name].imported)

    def _call(self, command: str, file: str = "", kind: str = "", *, listens: bool = False) -> Outcome:
        shutil.rmtree(self.root.parent, ignore_errors=True)
        shutil.copytree(self.pristine, self.root, symlinks=True)
        if file:
            (self.root / file).unlink()
        if kind:
            KINDS[kind](self.root / file)
        return call(self.root, COMMANDS[command], SECONDS, listens=listens)

    def files(self, command: str) -> list[str]:
        """The files of the project that a command opens."""
        return sorted(name for name in self.plain[command].opened if (self.pristine / name).is_file())

    def judge(self, cell: Cell) -> str | None:
        """What is wrong with a cell, or None."""
        plain = self.plain[cell.command]
        ended = self._call(cell.command, cell.file, cell.kind)
        if ended.status is None:
            return f"it has not ended after {SECONDS:g} s"
        if ended.status not in (0, 1, 2) or OUR_FAULT.search(ended.said):
            return f"status {ended.status}: {ended.said.strip()[-300:]}"
        if ended.memory > plain.memory + GROWTH:
            return f"it took {ended.memory >> 20} MiB, and {plain.memory >> 20} as it is"
        if cell.kind in MAY_BE_SILENT or self._is_said(cell, ended):
            return None
        return f"status {ended.status}, and nothing names the file: {ended.said.strip()[-200:]}"

    def _is_said(self, cell: Cell, ended: Outcome) -> bool:
        """Whether a sentence names the file, or none need to."""
        plain, file = self.plain[cell.command], Path(cell.file)
        name = file.stem if file.suffix == ".py" else file.name  # a module is called by its own
        if any(name in line for line in set(ended.said.split("\n")) - set(plain.said.split("\n"))):
            return True
        looked_into = file.suffix == ".py" or file.name == "worldsize.yml"
        if "folder" in cell.kind and (looked_into or COMMANDS[cell.command][:2] == ["check", "."]):
            return True  # a package, or another folder that is not a file by its name
        if (cell.command, cell.file) not in self.without:
            self.without[cell.command, cell.file] = self._call(cell.command, cell.file)
        without = self.without[cell.command, cell.file]
        if without.sentences == plain.sentences and without.status == plain.status:
            return True  # an accessory, which may be missing
        # Where a missing file is not reported, what is there but is not a file counts as missing.
        return cell.command not in MUST_NAME and without.sentences == ended.sentences


def _import_all(names: Iterable[str]) -> None:
    """Import in this process what a child imported of ours, so that the next children start with it."""
    for name in names:
        if name.startswith(("worldsize.", "wss")) and "__main__" not in name:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def list_cells(matrix: Matrix, kinds: Sequence[str]) -> list[Cell]:
    """Every command, file that it reads, and kind."""
    return [
        Cell(name, file, kind)
        for name in matrix.plain
        for file in matrix.files(name)
        for kind in kinds
        if not (kind in LARGE and ANY_SIZE.search(file))
    ]


def main() -> int:
    """Try the cells; the exit status says whether all went well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commands", nargs="*", default=[*COMMANDS], choices=COMMANDS)
    parser.add_argument("--kinds", nargs="*", default=[*KINDS], choices=KINDS)
    parser.add_argument("--files", default="", help="only files whose path holds this")
    parser.add_argument("--list", action="store_true", help="print what each command reads, and try nothing")
    options = parser.parse_args()
    kinds = [each for each in options.kinds if each != "unreadable" or os.geteuid()]
    with tempfile.TemporaryDirectory(prefix="ws-") as name:
        matrix = Matrix(Path(name), options.commands)
        if options.list:
            for command, outcome in matrix.plain.items():
                print(f"{command} ({outcome.status}, {outcome.seconds:.1f} s): {matrix.files(command)}")
            return 0
        began, faults, tried = time.monotonic(), 0, 0
        for cell in list_cells(matrix, kinds):
            if options.files not in cell.file:
                continue
            tried += 1
            fault = matrix.judge(cell)
            if fault is not None:
                faults += 1
                print(f"{cell.command} / {cell.file} / {cell.kind}: {fault}", flush=True)
    print(f"{tried} cells, {faults} faults, {time.monotonic() - began:.0f} s")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
