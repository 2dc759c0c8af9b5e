"""Did-you-mean for specs: first synonyms from Azure ML's vocabulary, then the spelling."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from worldsize.base import suggest

# Words from Azure ML and from launchers, with the key of a spec that means the same.
_SYNONYMS: Mapping[str, str] = {
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


def closest(name: str, candidates: Collection[str]) -> str | None:
    """Find the candidate that a word means, as a synonym or misspelt; None if there is none."""
    synonym = _SYNONYMS.get(name.lower())
    return synonym if synonym in candidates else suggest.closest(name, candidates)
