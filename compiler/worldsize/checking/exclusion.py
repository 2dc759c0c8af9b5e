"""Which files below a checked folder are passed over: what git ignores, and what a project excludes."""

from __future__ import annotations

# Paths are strings here, as in `discover`.
# ruff: noqa: PTH110, PTH113, PTH118
import os
from collections.abc import Iterable
from pathlib import Path, PurePath

from msgspec import Struct, field

from worldsize.azureml import ignore
from worldsize.azureml.copying import read_listed
from worldsize.azureml.ignore import Lines, compile_lines, parse_line
from worldsize.base import untrusted

_GIT = (
    "git",
    "-c",
    "core.fsmonitor=false",  # a repository from elsewhere could name a program there
    "ls-files",
    "-z",
    "--others",
    "--ignored",
    "--exclude-standard",
    "--directory",
)
_PATIENCE = 60.0  # seconds for git's answer
_HESITATION = 1.0  # seconds after which it is asked what git may wait for


class Excluded(Struct, frozen=True):
    """Patterns as in ``.gitignore``, and the folder that they are relative to."""

    folder: str
    lines: Lines

    def covers(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether a file, or everything in a folder, is excluded. The folders of the path are resolved."""
        parts = _parts_below(self.folder, path)
        return bool(parts and self.lines.decide(parts, below=is_folder))


def compile_globs(folder: str, globs: Iterable[str]) -> Excluded | None:
    """Compile patterns that are relative to a folder; None without any."""
    root = os.path.realpath(folder)
    lines = compile_lines(_relative(glob, root) for glob in globs)
    return Excluded(root, lines) if lines.lines else None


def is_glob(text: str) -> bool:
    """Whether a text is a pattern that can match a path."""
    return parse_line(text) is not None


def _relative(glob: str, root: str) -> str:
    """A pattern without the path of its folder, as a shell or a completion may have written it."""
    inside = root.rstrip(os.sep) + os.sep
    return f"/{glob[len(inside) :]}" if glob.startswith(inside) else glob.removeprefix("./")


def _parts_below(folder: str, path: str) -> tuple[str, ...]:
    """The names of a path below a folder; none if it is elsewhere."""
    inside = folder.rstrip(os.sep) + os.sep
    return PurePath(path[len(inside) :]).parts if path.startswith(inside) else ()


class GitIgnored(Struct):
    """What git ignores below a folder, learnt while the folder is listed from the top.

    In a checkout git itself is asked, once for each repository, because it knows which files are tracked all
    the same. Elsewhere, and where git is not installed, the ``.gitignore`` files are read.
    """

    _paths: set[str] = field(default_factory=set)  # what git names
    _repositories: list[str] = field(default_factory=list)  # where git answered
    _files: list[tuple[str, Lines]] = field(default_factory=list)  # of the folder and those above it

    def enter_first(self, folder: str, tree: str) -> None:
        """Learn what the tree says of the folder that is listed."""
        if os.path.exists(os.path.join(tree, ".git")) and self._ask_git(folder):
            return
        parts = _parts_below(tree, folder)
        for depth in range(len(parts)):
            self._read(os.path.join(tree, *parts[:depth]))

    def enter(self, folder: str, *, is_repository: bool) -> None:
        """Learn what a folder says of its content."""
        while self._files and not _parts_below(self._files[-1][0], folder):
            self._files.pop()
        if folder in self._repositories or (is_repository and self._ask_git(folder)):
            return
        if not any(_parts_below(repository, folder) for repository in self._repositories):
            self._read(folder)

    def covers(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether a path is ignored; of several files the one that is nearest to it decides."""
        if path in self._paths:
            return True
        for folder, lines in reversed(self._files):
            parts = _parts_below(folder, path)
            decision = lines.decide(parts, below=is_folder) if parts else None
            if decision is not None:
                return decision
        return False

    def _read(self, folder: str) -> None:
        path = os.path.join(folder, ".gitignore")
        if not os.path.isfile(path):
            return
        try:
            content = read_listed(Path(path), ignore.LARGEST)
        except OSError:
            return  # a file that cannot be read ignores nothing
        self._files.append((folder, ignore.parse_ignore_file(content)))

    def _ask_git(self, folder: str) -> bool:
        """Ask git for what is ignored below a folder; False if it cannot say."""
        import subprocess  # only where folders of a checkout are checked

        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        try:
            with subprocess.Popen(
                _GIT, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            ) as git:
                try:
                    output, _ = git.communicate(timeout=_HESITATION)
                except subprocess.TimeoutExpired:
                    if _stops_git(folder):
                        return False
                    output, _ = git.communicate(timeout=_PATIENCE)
                finally:
                    git.kill()
        except (OSError, subprocess.TimeoutExpired):
            return False
        if git.returncode != 0:
            return False
        listed = (os.fsdecode(name).rstrip("/") for name in output.split(b"\0") if name)
        # A folder that is ignored as a whole was named by the user, so its content is meant.
        self._paths |= {os.path.join(folder, name) for name in listed if name != "."}
        self._repositories.append(folder)
        return True


def _stops_git(folder: str) -> bool:
    """Whether git will never answer: it waits for a pipe that is called `.gitignore`."""
    return any(
        ".gitignore" in names and untrusted.find_fault(os.path.join(parent, ".gitignore"))
        for parent, _, names in os.walk(folder)
    )
