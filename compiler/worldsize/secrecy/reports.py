"""Keeps secrets out of reports: excerpts and messages end up in logs that many can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from worldsize.base.problem import Problem
from worldsize.base.source import Source
from worldsize.diagnostics.diagnostic import Diagnostic
from worldsize.secrecy import assignments
from worldsize.secrecy.masking import Mask
from worldsize.yaml import load
from worldsize.yaml.nodes import Node

_YAML = (".yml", ".yaml")
Finding = TypeVar("Finding", Diagnostic, Problem)


def mask_findings(
    found: Sequence[Finding], sources: Mapping[str, Source], roots: Mapping[str, Node | None] | None = None
) -> tuple[list[Finding], dict[str, Source]]:
    """What is reported and the texts that it shows, with every secret starred out; positions stay the same.

    Args:
        found: Diagnostics, or problems that keep a run from starting.
        sources: Texts by path.
        roots: The trees of those that are YAML, where they are at hand.
    """
    shown, mask = dict(sources), Mask(within="\n".join(text for each in found for text in _texts(each)))
    for path in _paths(found) & sources.keys():
        shown[path] = _mask_source(sources[path], roots, mask)
    return [_mask_finding(mask, each) for each in found], shown


def _mask_source(source: Source, roots: Mapping[str, Node | None] | None, mask: Mask) -> Source:
    """A text without its secrets, which are added to what messages hide."""
    if not source.path.endswith(_YAML):
        return assignments.mask_assignments(source, [])
    root = roots.get(source.path) if roots is not None else load(source.path, source.text).root
    named = [*assignments.find_assignments(root, source.text)]
    mask.add(each.value for each in named)
    return assignments.mask_assignments(source, named)


def _paths(found: Sequence[Diagnostic] | Sequence[Problem]) -> set[str]:
    paths = {each.span.path for each in found}
    return paths | {related.span.path for each in found for related in each.related}


def _texts(found: Diagnostic | Problem) -> list[str]:
    return [found.message, found.help or "", *(each.message for each in found.related)]


def _mask_finding(mask: Mask, found: Finding) -> Finding:
    related = (replace(each, message=mask.text(each.message)) for each in found.related)
    help_ = mask.text(found.help) if found.help else found.help
    return replace(found, message=mask.text(found.message), help=help_, related=tuple(related))
