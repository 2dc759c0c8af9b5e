"""The findings that a project had when its baseline was written; a check with it reports only new ones.

A finding is known by its file, its code, and a hash of the line it is on, so that it stays known where lines
above it come and go. Equal lines are counted. A secret is no part of the hash.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from worldsize.base.source import Source
from worldsize.base.wording import describe_os_error
from worldsize.diagnostics.diagnostic import INTERNAL, Diagnostic

VERSION = 1
LARGEST = 64 * 1024 * 1024  # bytes of a baseline that are read
_Key = tuple[str, str, str]  # path, code, fingerprint


class Baseline(Struct):
    """How often each finding is known. Paths are relative to the folder of the file."""

    folder: str
    counts: Counter[_Key]

    def start_check(self) -> Callable[[Iterable[Diagnostic], Mapping[str, Source]], list[Diagnostic]]:
        """A function that selects the findings that are not known, or not as often."""
        left = self.counts.copy()

        def select_new(diagnostics: Iterable[Diagnostic], sources: Mapping[str, Source]) -> list[Diagnostic]:
            new = []
            for each in diagnostics:
                key = _key(each, sources, self.folder)
                if left[key] > 0 and each.code != INTERNAL:
                    left[key] -= 1
                else:
                    new.append(each)
            return new

        return select_new


class _Version(Struct):
    version: int


class _Content(Struct):
    findings: dict[str, dict[str, dict[str, Annotated[int, Meta(ge=1)]]]]


def read_baseline(path: str) -> Baseline:
    """Read a baseline.

    Raises:
        ValueError: The file cannot be read, or is not a baseline of this version.
    """
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise ValueError(f"`{path}` is not a file")
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        advice = "; `--write-baseline` creates it" if isinstance(error, FileNotFoundError) else ""
        raise ValueError(
            f"the baseline `{path}` cannot be read: {describe_os_error(error)}{advice}"
        ) from None
    if len(data) > LARGEST:
        raise ValueError(f"`{path}` is not a baseline: it is larger than {LARGEST:,} bytes")
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != VERSION:
            raise ValueError(
                f"the baseline `{path}` is of version {version}, but this worldsize reads version {VERSION}:"
                " write it again with `--write-baseline`"
            )
        findings = msgspec.json.decode(data, type=_Content).findings
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"`{path}` is not a baseline of worldsize: {error}") from None
    counts = Counter(
        {
            (name, code, fingerprint): count
            for name, codes in findings.items()
            for code, fingerprints in codes.items()
            for fingerprint, count in fingerprints.items()
        }
    )
    return Baseline(_folder_of(path), counts)


def write_baseline(path: str, diagnostics: Iterable[Diagnostic], sources: Mapping[str, Source]) -> int:
    """Write the baseline of some findings, and return their number.

    Raises:
        ValueError: The file cannot be written, or is something else than a baseline.
    """
    if Path(path).exists():
        try:
            read_baseline(path)
        except ValueError as error:
            if "of version" not in str(error):
                raise ValueError(f"{error}; it is not overwritten") from None
    folder = _folder_of(path)
    counts = Counter(_key(each, sources, folder) for each in diagnostics if each.code != INTERNAL)
    findings: dict[str, dict[str, dict[str, int]]] = {}
    for (name, code, fingerprint), count in sorted(counts.items()):
        findings.setdefault(name, {}).setdefault(code, {})[fingerprint] = count
    text = json.dumps({"version": VERSION, "findings": findings}, indent=1, ensure_ascii=False) + "\n"
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"the baseline `{path}` cannot be written: {describe_os_error(error)}") from None
    return counts.total()


def _key(diagnostic: Diagnostic, sources: Mapping[str, Source], folder: str) -> _Key:
    span = diagnostic.span
    path = os.path.relpath(os.path.realpath(span.path), folder).replace(os.sep, "/")
    source = sources.get(span.path)
    line = source.line(span.line) if source is not None else ""
    end = span.end_column - 1 if span.end_line == span.line else len(line)
    before, marked, after = line[: span.column - 1], line[span.column - 1 : end], line[end:]
    if diagnostic.slug.startswith("secret-"):
        marked = ""  # a short one could be guessed from the hash
    text = "\n".join((" ".join(f"{before}{marked}{after}".split()) or diagnostic.message, marked))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return path.encode("utf-8", "backslashreplace").decode(), diagnostic.code, digest


def _folder_of(path: str) -> str:
    return str(Path(os.path.realpath(path)).parent)
