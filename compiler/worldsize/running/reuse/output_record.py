"""The record of a step's outputs, `made.json` in its folder, and the check that they are unchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from worldsize.running.model.folder import StepFolder
from worldsize.running.model.source import ARTIFACTS
from worldsize.running.record.json_files import boot_id, read_json, write_json
from worldsize.running.reuse.digests import Digests, Tree, TreeEntry, parse_tree, walk_tree
from worldsize.running.reuse.digests import make_stamp as stamp_of
from worldsize.running.reuse.key import Parts

NAME = "made.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """The outputs of a step when it succeeded, and the parts of its key."""

    key: str
    parts: Parts
    outputs: Mapping[str, Tree]
    seconds: float
    boot: str = field(default_factory=boot_id)

    @property
    def size(self) -> int:
        """Bytes of all outputs."""
        return sum(tree.size for tree in self.outputs.values())


def output_path(folder: StepFolder, output: str) -> Path:
    """The path of an output; that of :data:`ARTIFACTS` is the working folder."""
    return folder.code if output == ARTIFACTS else folder.outputs / output


def runs_of(folder: StepFolder) -> Path:
    """The folder of the runs that a step's folder is in."""
    return folder.root.parents[2]


def save_output_record(record: OutputRecord, folder: StepFolder) -> None:
    """Write the record to the folder of the step."""
    document = {
        "version": VERSION,
        "key": record.key,
        "parts": record.parts,
        "outputs": {name: tree.document() for name, tree in record.outputs.items()},
        "seconds": round(record.seconds, 3),
        "boot": record.boot,
    }
    write_json(folder.root / NAME, document)


def load_output_record(folder: StepFolder) -> OutputRecord | None:
    """Read the record of a step; None if there is none, or if it is damaged."""
    document = read_json(folder.root / NAME)
    if document is None or document.get("version") != VERSION:
        return None
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
        return _parse_record(document)
    return None


def _parse_record(document: Mapping[str, Any]) -> OutputRecord:
    return OutputRecord(
        str(document["key"]),
        {str(name): str(part) for name, part in document["parts"].items()},
        {str(name): parse_tree(tree) for name, tree in document["outputs"].items()},
        float(document["seconds"]),
        str(document["boot"]),
    )


def verify_outputs(
    record: OutputRecord, folder: StepFolder, digests: Digests
) -> tuple[OutputRecord, str | None]:
    """Check that the outputs are unchanged; the record as of now, and the first thing that has changed.

    A file with the same size and times is taken to be unchanged unless the machine was restarted since; any
    other is read.
    """
    outputs = {}
    for name, tree in record.outputs.items():
        try:
            entries = walk_tree(output_path(folder, name), runs_of(folder))
            verified, changed = _verify_tree(
                tree, output_path(folder, name), entries, digests, trusted=record.boot == boot_id()
            )
        except OSError as error:
            return record, error.filename or name
        if changed is not None:
            return record, f"{name}/{changed}".rstrip("/")
        outputs[name] = verified
    now = replace(record, outputs=outputs, boot=boot_id())
    return (record if now == record else now), None


def _verify_tree(
    tree: Tree, path: Path, entries: Iterable[TreeEntry], digests: Digests, *, trusted: bool
) -> tuple[Tree, str | None]:
    files, rest = dict(tree.files), {*tree.folders, *tree.others}
    left = {*files, *rest}
    for entry in entries:
        if not entry.place and entry.kind != tree.kind:
            return tree, ""
        if entry.kind != "file":
            if entry.place and entry.place not in rest:
                return tree, entry.place
            left.discard(entry.place)
            continue
        leaf = files.get(entry.place)
        if leaf is None:
            return tree, entry.place
        left.discard(entry.place)
        assert entry.status is not None
        if not trusted or leaf.stamp is None or leaf.stamp != stamp_of(entry.status):
            now = digests.file(path / entry.place if entry.place else path, entry.status)
            if now.sha256 != leaf.sha256:
                return tree, entry.place
            files[entry.place] = now
    return (replace(tree, files=files) if files != tree.files else tree), min(left, default=None)
