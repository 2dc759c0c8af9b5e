"""Did-you-mean for specs: words of Azure ML that a spec says otherwise, then the spelling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from worldsize.base import suggest

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
    "parallel": "parallelism",
    "mesh": "parallelism",
    "dp": "data",
    "data_parallel": "data",
    "data_parallel_size": "data",
    "tp": "tensor",
    "tensor_parallel": "tensor",
    "tensor_parallel_size": "tensor",
    "pp": "pipeline",
    "pipeline_parallel": "pipeline",
    "pipeline_parallel_size": "pipeline",
}


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was meant, by another word for it or by its spelling, or None."""
    names = list(known)
    synonym = _SAID_OTHERWISE.get(name.lower())
    return synonym if synonym in names else suggest.closest(name, names)


def quoted_list(names: Iterable[str], limit: int = 12) -> str:
    """Names in back-ticks, separated by commas; a long list says how many are left out."""
    all_names = list(names)
    text = ", ".join(f"`{name}`" for name in all_names[:limit])
    left = len(all_names) - limit
    return f"{text} and {left} more" if left > 0 else text
