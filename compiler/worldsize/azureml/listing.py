"""Lists the files of a folder that is uploaded: follows links, excludes ignored files, keeps real paths.

azure-ai-ml has two ways. A plain code folder is uploaded in place
(``get_upload_files_from_folder``): patterns are compared with the path that a linked folder leads to. Code
with includes is copied together first (``AdditionalIncludes``): patterns are compared with the place, and
every folder's own ignore file counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from msgspec import Struct, field

from worldsize.azureml import ignore
from worldsize.azureml.copying import MAX_DEPTH, MAX_ENTRIES, MAX_LOOKED_AT, CopyAccess, Entry
from worldsize.azureml.ignore import Ignore
from worldsize.base import limits

HOLDS_ITSELF = "a link to a folder that holds it"


class Listing(Struct, eq=False):
    """The files below one folder, or one file."""

    # the file with links resolved, by path in the snapshot
    files: dict[str, Path] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # of the files, in bytes
    # the target of a link that may not be copied, by path
    outside: dict[str, str] = field(default_factory=dict)
    # the target of a link that is copied although it leads out of the presumed project, by path
    beyond: dict[str, str] = field(default_factory=dict)
    # what is neither a file nor a folder, in words, by path
    left_out: dict[str, str] = field(default_factory=dict)
    exceeded: str = ""  # the limit that the folder exceeds, in words; the rest of it was not listed
    looked_at: int = 0

    def note_link(self, gate: CopyAccess, place: str, entry: Entry) -> None:
        """Remember a link that leads out of the presumed project."""
        if entry.link and entry.kind != "other" and not gate.presumed(entry.real):
            self.beyond[place] = entry.real

    def take(self, place: str, entry: Entry) -> None:
        """Add a file."""
        self.files[place] = Path(entry.real)
        self.sizes[place] = entry.size


class _Folder(Struct, frozen=True):
    """A folder to list; ``rules`` are the ignore files that apply, each with its folder."""

    real: str
    place: tuple[str, ...]
    rules: tuple[tuple[Ignore, str], ...]
    above: tuple[str, ...]  # the folders that hold it, links resolved


def list_file(gate: CopyAccess, path: Path, place: str) -> Listing:
    """One file as a listing."""
    listing = Listing()
    real = gate.real_paths.resolve(path)
    if gate.allowed(real):
        entry = Entry(path.name, "file", real, os.stat(real).st_size, path.is_symlink())  # noqa: PTH116
        listing.note_link(gate, place, entry)
        listing.take(place, entry)
    else:
        listing.outside[place] = real
    return listing


def list_folder(
    gate: CopyAccess, folder: Path, at: PurePosixPath, above: Ignore | None = None, *, merged: bool = False
) -> Listing:
    """List the files of a folder and of all folders below it.

    Args:
        gate: What may be copied.
        folder: The folder.
        at: Its place in the snapshot.
        above: The patterns of the folder that holds it in the snapshot, where that is another one.
        merged: Whether it is copied together with includes.

    Raises:
        OSError: A folder cannot be listed, or an ignore file cannot be read.
    """
    listing = Listing()
    real = gate.real_paths.resolve(folder)
    if not gate.allowed(real):
        listing.outside[at.as_posix()] = real
        return listing
    first = above or ignore.read_ignore_file(None, PurePosixPath())
    rules = ((first, os.path.dirname(real) if at.parts else real), *_own_rules(gate, real, at.parts))  # noqa: PTH120
    own_rules = rules if not at.parts else rules[1:]
    pending = [_Folder(real, at.parts, rules, ())] if not merged or _admit_folder(own_rules) else []
    while pending and not listing.exceeded:
        pending += reversed(list(_look_into(gate, pending.pop(), listing, merged=merged)))
    return listing


def _own_rules(gate: CopyAccess, real: str, at: tuple[str, ...]) -> tuple[tuple[Ignore, str], ...]:
    """The patterns of a folder's own ignore file; none if it is a link to a file that may not be read."""
    if not any(entry.name in ignore.NAMES for entry in gate.entries(real)):
        return ()
    file = ignore.find_ignore_file(Path(real))
    if file is None or not gate.allowed(os.path.realpath(file)):
        return ()
    return ((ignore.read_ignore_file(Path(real), PurePosixPath(*at)), real),)


def _admit_folder(own_rules: tuple[tuple[Ignore, str], ...]) -> bool:
    """Whether the client copies a folder at all: it also compares the folder's own patterns with ``.``."""
    return not any(rules.excludes_parts((".",)) for rules, _ in own_rules)


def _look_into(  # noqa: C901 - one branch a kind of entry
    gate: CopyAccess, folder: _Folder, listing: Listing, *, merged: bool
) -> Iterator[_Folder]:
    """Add the files of one folder to the listing, and yield the folders to list next."""
    entries = gate.entries(folder.real)
    listing.looked_at += len(entries)
    gate.looked_at += len(entries)
    listing.exceeded = _exceeded(gate, folder, listing)
    if listing.exceeded:
        return
    above = (*folder.above, folder.real)
    bases = [_parts(folder.real, base) for _, base in folder.rules]
    for entry in entries:
        limits.check_time()
        place = (*folder.place, entry.name)
        outside = entry.link and entry.kind != "other" and not gate.allowed(entry.real)
        if merged or outside:
            ignored = any(rules.excludes_parts(place[len(rules.at.parts) :]) for rules, _ in folder.rules)
        elif entry.kind == "folder":
            ignored = any(rules.excludes_below(_parts(entry.real, base)) for rules, base in folder.rules)
        else:
            ignored = any(
                rules.excludes_parts((*base, entry.name))
                for (rules, _), base in zip(folder.rules, bases, strict=True)
            )
        name = "/".join(place)
        if ignored:
            continue
        listing.note_link(gate, name, entry)
        if entry.kind == "other":
            listing.left_out[name] = entry.what
        elif outside:
            listing.outside[name] = entry.real
        elif entry.kind == "file":
            listing.take(name, entry)
        elif entry.real in above:
            listing.left_out[name] = HOLDS_ITSELF
        else:
            own = _own_rules(gate, entry.real, place) if merged else ()
            if _admit_folder(own):
                yield _Folder(entry.real, place, (*folder.rules, *own), above)


def _parts(real: str, base: str) -> tuple[str, ...]:
    """A path relative to a folder, as the client compares it with patterns; ``..`` after a link out of it."""
    if real == base:
        return ()
    if real.startswith(base + os.sep):
        return tuple(real[len(base) + 1 :].split(os.sep))  # noqa: PTH206 - texts
    return tuple(os.path.relpath(real, base).split(os.sep))  # noqa: PTH206


def _exceeded(gate: CopyAccess, folder: _Folder, listing: Listing) -> str:
    if len(folder.above) > MAX_DEPTH:
        return f"more than {MAX_DEPTH} folders in each other"
    if listing.looked_at > MAX_ENTRIES:
        return f"more than {MAX_ENTRIES:,} files and folders, links followed"
    if gate.looked_at > MAX_LOOKED_AT:
        return f"folders of more than {MAX_LOOKED_AT:,} files in all, links followed"
    return ""
