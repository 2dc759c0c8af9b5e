"""What happens when a mapping is complete: merge keys are expanded and repeated keys reported."""

from __future__ import annotations

from worldsize.base import limits
from worldsize.base.problem import Problem, Related
from worldsize.yaml.nodes import Mapping, Node, Scalar, Sequence
from worldsize.yaml.scalars import classify

Entry = tuple[Scalar, Node]


def finish_mapping(mapping: Mapping, problems: list[Problem]) -> int:
    """Expand ``<<`` in place and report keys given twice.

    Returns:
        The number of entries that merging added.
    """
    merges = [entry for entry in mapping.entries if _is_merge(entry[0])]
    if merges:
        own = [entry for entry in mapping.entries if not _is_merge(entry[0])]
        _report_duplicates(own, problems)
        merged = _merged(merges, problems)
        mapping.entries = merged + own
        return len(merged)
    _report_duplicates(mapping.entries, problems)
    return 0


def _is_merge(key: Scalar) -> bool:
    return key.text == "<<" and classify(key.text, key.style, key.tag) == "merge"


def _merged(merges: list[Entry], problems: list[Problem]) -> list[Entry]:
    """Entries of the merged mappings, least binding first, each key once (the first mapping wins)."""
    chosen: dict[object, Entry] = {}
    for key, value in merges:
        sources = value.items if isinstance(value, Sequence) else [value]
        for source in reversed(sources):
            if not isinstance(source, Mapping):
                message = "`<<` merges a mapping or a list of mappings, and this is neither"
                help_ = "name an anchored mapping such as `<<: *defaults`"
                span = source.span if source.end > source.start else key.span
                problems.append(Problem("yaml-syntax", span, message, help_))
                continue
            for entry in source.entries:
                chosen[entry[0].value] = entry
    return list(chosen.values())


def _report_duplicates(entries: list[Entry], problems: list[Problem]) -> None:
    """One problem a repetition, at the later key: keys are equal when Python's values are."""
    seen: dict[object, Scalar] = {}
    for key, _ in entries:
        value = key.value
        first = seen.get(value)
        if first is None:
            seen[value] = key
            continue
        if len(problems) >= limits.FOUND:
            return
        written = "" if key.text == first.text else f" (as `{first.text}`)"
        problems.append(
            Problem(
                "yaml-duplicate-key",
                key.span,
                f"`{key.text}` is given twice in this mapping{written}, and only the last one counts",
                "keep one of them",
                (Related(first.span, "first given here, and lost"),),
            )
        )
