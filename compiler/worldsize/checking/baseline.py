"""The findings that a project had when its baseline was written; a check with it reports only new ones.

A finding is known by its file, its code, and a hash of the line it is on, so that it stays known where lines
above it come and go. Equal lines are counted. A secret is no part of the hash.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from worldsize.base import untrusted
from worldsize.base.source import Source
from worldsize.base.whole_file import write_whole
from worldsize.base.wording import describe_os_error
from worldsize.documents.diagnostics.diagnostic import INTERNAL, Diagnostic

VERSION = 1
LARGEST = 64 * 1024 * 1024  # bytes of a baseline that are read
_Key = tuple[str, str, str]  # path, code, fingerprint


class Baseline(Struct):
    """How often each finding is known. Paths are relative to the folder of the file."""

    folder: str
    counts: Counter[_Key]

    def select_new(
        self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, Source]
    ) -> list[Diagnostic]:
        """The findings that are not known, or not as often. What is known is taken off the counts."""
        new = []
        for finding in diagnostics:
            key = _key(finding, sources, self.folder)
            if self.counts[key] > 0 and finding.code != INTERNAL:
                self.counts[key] -= 1
            else:
                new.append(finding)
        return new

    def start_check(self) -> Baseline:
        """A copy for one check."""
        return Baseline(self.folder, self.counts.copy())


class Recorder(Baseline):
    """A baseline in the making: every finding is new, and is counted."""

    def select_new(
        self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, Source]
    ) -> list[Diagnostic]:
        """All findings, which are added to the counts."""
        findings = list(diagnostics)
        self.counts.update(
            _key(finding, sources, self.folder) for finding in findings if finding.code != INTERNAL
        )
        return findings

    def start_check(self) -> Baseline:
        """Itself: what all checks find is recorded."""
        return self


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
        data = untrusted.read_bytes(path, LARGEST)
    except OSError as error:
        advice = "; `--write-baseline` creates it" if isinstance(error, FileNotFoundError) else ""
        raise ValueError(
            f"the baseline `{path}` cannot be read: {describe_os_error(error)}{advice}"
        ) from None
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


def start_record(path: str) -> Recorder:
    """A baseline to be written to a file.

    Raises:
        ValueError: The file is something else than a baseline.
    """
    if Path(path).exists():
        try:
            read_baseline(path)
        except ValueError as error:
            if "of version" not in str(error):
                raise ValueError(f"{error}; it is not overwritten") from None
    return Recorder(_folder_of(path), Counter())


def write_baseline(path: str, baseline: Baseline) -> int:
    """Write a baseline, and return the number of its findings.

    Raises:
        ValueError: The file cannot be written.
    """
    findings: dict[str, dict[str, dict[str, int]]] = {}
    for (name, code, fingerprint), count in sorted(baseline.counts.items()):
        findings.setdefault(name, {}).setdefault(code, {})[fingerprint] = count
    text = json.dumps({"version": VERSION, "findings": findings}, indent=1, ensure_ascii=False) + "\n"
    try:
        write_whole(Path(path), text.encode())
    except OSError as error:
        raise ValueError(f"the baseline `{path}` cannot be written: {describe_os_error(error)}") from None
    return baseline.counts.total()


def _key(diagnostic: Diagnostic, sources: Mapping[str, Source], folder: str) -> _Key:
    span = diagnostic.span
    path = os.path.relpath(os.path.realpath(span.path), folder).replace(os.sep, "/")
    source = sources.get(span.path)
    line, marked = (source.line(span.line), source.text_under(span)) if source is not None else ("", "")
    before, after = line[: span.column - 1], line[span.column - 1 + len(marked) :]
    if diagnostic.slug.startswith("secret-"):
        marked = ""  # a short one could be guessed from the hash
    text = "\n".join((" ".join(f"{before}{marked}{after}".split()) or diagnostic.message, marked))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return path.encode("utf-8", "backslashreplace").decode(), diagnostic.code, digest


def _folder_of(path: str) -> str:
    return str(Path(os.path.realpath(path)).parent)
