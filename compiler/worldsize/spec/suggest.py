"""Did-you-mean: the known name nearest to what was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# Words of Azure ML's own files, or of its documentation, that a spec says in another way.
_SAID_OTHERWISE: Mapping[str, str] = {
    "component": "uses",
    "inputs": "with",
    "jobs": "steps",
    "nodes": "steps",
    "timezone": "time_zone",
    "expression": "cron",
    "pattern": "schedule",
    "size": "instance_type",
    "vm_size": "instance_type",
    "cluster": "target",
    "lr": "learning_rate",
    "env": "environment_variables",
    "gpus_per_node": "process_count_per_instance",
    "nproc_per_node": "process_count_per_instance",
    "nodes_count": "instance_count",
    "nnodes": "instance_count",
}


def closest(name: str, known: Iterable[str]) -> str | None:
    """The nearest of ``known``, case aside, or None where nothing is near."""
    names = list(known)
    synonym = _SAID_OTHERWISE.get(name.lower())
    if synonym in names:
        return synonym
    import difflib  # noqa: PLC0415 - only a faulty file pays for it

    lower = {candidate.lower(): candidate for candidate in names}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    return lower[near[0]] if near else None


def quoted_list(names: Iterable[str], limit: int = 12) -> str:
    """Names in back-ticks, separated by commas; a long list says how many are left out."""
    all_names = list(names)
    text = ", ".join(f"`{name}`" for name in all_names[:limit])
    left = len(all_names) - limit
    return f"{text} and {left} more" if left > 0 else text
