"""What git knows of this checkout; nothing where there is no git, and less where the clone is shallow."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAIN = ("origin/main", "main")


def list_files(folder: str) -> list[Path]:
    """The committed files in a folder that are there; without git all that are there."""
    names = [name for name in _git("ls-files", "-z", "--", folder).decode().split("\0") if name]
    found = [ROOT / name for name in names] or sorted((ROOT / folder).rglob("*"))
    return [path for path in found if path.is_file() and path.parent.name != "__pycache__"]


def read_versions(path: str) -> list[str]:
    """The texts of a file along the first parents of the commit that is checked out, the oldest first."""
    commits = _git("log", "--first-parent", "--reverse", "--format=%H", "--", path).decode().split()
    return list(_read_texts(commits, path))


def read_version_of_main(path: str) -> str | None:
    """The text of a file where the main branch was last merged or left, if there is that branch."""
    bases = (_git("merge-base", "HEAD", branch).decode().split() for branch in MAIN)
    base = next((found for found in bases if found), [])
    return next(_read_texts(base, path), None)


def _read_texts(commits: Sequence[str], path: str) -> Iterator[str]:
    names = "".join(f"{commit}:{path}\n" for commit in commits)
    left = _git("cat-file", "--batch=%(objectsize)", input_=names.encode()) if commits else b""
    while left:
        head, _, left = left.partition(b"\n")
        if head.isdigit():  # else the commit removed the file
            text, left = left[: int(head)], left[int(head) + 1 :]
            yield text.decode()


def _git(*arguments: str, input_: bytes = b"") -> bytes:
    """What git prints; nothing if it is missing or refuses."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, input=input_, capture_output=True, check=False)
    except FileNotFoundError:
        return b""
    return done.stdout if done.returncode == 0 else b""
