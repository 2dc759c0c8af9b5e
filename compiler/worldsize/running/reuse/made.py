"""What a step made, written beside it: `made.json` in its folder, and whether it is still what it was."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from worldsize.running.recording.folder import StepFolder
from worldsize.running.reuse.digests import Digests
from worldsize.running.reuse.files import boot, read, write
from worldsize.running.reuse.key import Parts
from worldsize.running.reuse.trees import Tree, parse, walk
from worldsize.running.reuse.trees import stamp as stamp_of
from worldsize.running.starting.sources import ARTIFACTS

NAME = "made.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Made:
    """The outputs of a step when it had succeeded, and what its key was made of."""

    key: str
    parts: Parts
    outputs: Mapping[str, Tree]
    seconds: float
    boot: str = field(default_factory=boot)

    @property
    def size(self) -> int:
        """Bytes of all outputs."""
        return sum(tree.size for tree in self.outputs.values())


def place(folder: StepFolder, output: str) -> Path:
    """Where an output lies; of :data:`ARTIFACTS` it is the working folder, with ./outputs and ./logs."""
    return folder.code if output == ARTIFACTS else folder.outputs / output


def save(made: Made, folder: StepFolder) -> None:
    """Write it beside what was made.

    Raises:
        OSError: It cannot be written.
    """
    document = {
        "version": VERSION,
        "key": made.key,
        "parts": made.parts,
        "outputs": {name: tree.document() for name, tree in made.outputs.items()},
        "seconds": round(made.seconds, 3),
        "boot": made.boot,
    }
    write(folder.root / NAME, document)


def load(folder: StepFolder) -> Made | None:
    """Read it; None where there is none, or where it is damaged."""
    document = read(folder.root / NAME)
    if document is None or document.get("version") != VERSION:
        return None
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
        return _made(document)
    return None


def _made(document: Mapping[str, Any]) -> Made:
    return Made(
        str(document["key"]),
        {str(name): str(part) for name, part in document["parts"].items()},
        {str(name): parse(tree) for name, tree in document["outputs"].items()},
        float(document["seconds"]),
        str(document["boot"]),
    )


def verify(made: Made, folder: StepFolder, digests: Digests) -> tuple[Made, str | None]:
    """Whether everything is still there as it was made.

    A file with the size and times that it had is taken to be the same, as long as the machine has not
    been started anew since; any other is read.

    Returns:
        What is known now, to be saved where it is not ``made``, and the name of the first thing that
        is not what it was.
    """
    outputs = {}
    for name, tree in made.outputs.items():
        try:
            found, changed = _verify(tree, place(folder, name), digests, trusted=made.boot == boot())
        except OSError as error:
            return made, error.filename or name
        if changed is not None:
            return made, f"{name}/{changed}".rstrip("/")
        outputs[name] = found
    now = replace(made, outputs=outputs, boot=boot())
    return (made if now == made else now), None


def _verify(tree: Tree, path: Path, digests: Digests, *, trusted: bool) -> tuple[Tree, str | None]:
    files, rest = dict(tree.files), {*tree.folders, *tree.others}
    left = {*files, *rest}
    for found in walk(path):
        if not found.place and found.kind != tree.kind:
            return tree, ""
        if found.kind != "file":
            if found.place and found.place not in rest:
                return tree, found.place
            left.discard(found.place)
            continue
        leaf = files.get(found.place)
        if leaf is None:
            return tree, found.place
        left.discard(found.place)
        assert found.status is not None
        if not trusted or leaf.stamp is None or leaf.stamp != stamp_of(found.status):
            now = digests.file(path / found.place if found.place else path, found.status)
            if now.sha256 != leaf.sha256:
                return tree, found.place
            files[found.place] = now
    return (replace(tree, files=files) if files != tree.files else tree), min(left, default=None)
