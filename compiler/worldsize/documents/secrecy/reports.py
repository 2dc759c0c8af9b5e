"""Masks secrets in reports, because excerpts and messages end up in logs that many people read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from worldsize.base.problem import Problem
from worldsize.base.source import Source
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.secrecy import assignments
from worldsize.documents.secrecy.code_assignments import find_code_assignments
from worldsize.documents.secrecy.masking import Mask
from worldsize.documents.yaml import load
from worldsize.documents.yaml.nodes import Node

_YAML = (".yml", ".yaml")
Finding = TypeVar("Finding", Diagnostic, Problem)


def mask_findings(
    findings: Sequence[Finding], sources: Mapping[str, Source], roots: Mapping[str, Node | None] | None = None
) -> tuple[list[Finding], dict[str, Source]]:
    """Mask the secrets in findings and in the texts that they show; positions stay the same.

    The ``roots`` are the trees of the YAML files, if they are available.
    """
    masked_sources = dict(sources)
    mask = Mask(within="\n".join(text for finding in findings for text in _texts(finding)))
    for path in _paths(findings) & sources.keys():
        masked_sources[path] = _mask_source(sources[path], roots, mask)
    return [_mask_finding(mask, finding) for finding in findings], masked_sources


def _mask_source(source: Source, roots: Mapping[str, Node | None] | None, mask: Mask) -> Source:
    """Mask the secrets of a text, and add them to the mask for messages."""
    if not source.path.endswith(_YAML):
        written = [*find_code_assignments(source.text, "shell")]
        mask.add(assignment.value for assignment in written)
        return assignments.mask_assignments(source, written)
    root = roots.get(source.path) if roots is not None else load(source.path, source.text).root
    assigned = [*assignments.find_assignments(root, source.text)]
    assigned += find_code_assignments(source.text, "command")
    mask.add(assignment.value for assignment in assigned)
    return assignments.mask_assignments(source, assigned)


def _paths(findings: Sequence[Diagnostic] | Sequence[Problem]) -> set[str]:
    paths = {finding.span.path for finding in findings}
    return paths | {related.span.path for finding in findings for related in finding.related}


def _texts(finding: Diagnostic | Problem) -> list[str]:
    return [finding.message, finding.help or "", *(related.message for related in finding.related)]


def _mask_finding(mask: Mask, finding: Finding) -> Finding:
    related = (replace(each, message=mask.text(each.message)) for each in finding.related)
    help_ = mask.text(finding.help) if finding.help else finding.help
    return replace(finding, message=mask.text(finding.message), help=help_, related=tuple(related))
