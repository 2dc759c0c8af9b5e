"""The graph of a pipeline: its steps, what each needs, and the state of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from worldsize.azureml import binding
from worldsize.running.record.history import RunRecord
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.jobs.reporter import STATES
from worldsize.serving.page.queries.wording import mapping_of

_STATES = {**STATES, "died": "Failed", "interrupted": "Canceled"}  # of a run's steps, in Azure ML's words


@dataclass(frozen=True, slots=True)
class Node:
    """A step; ``job`` is the name of its job once it has one."""

    name: str
    label: str
    status: str
    needs: tuple[str, ...]
    job: JobRecord | None = None
    reused: bool = False


def read_graph(job: JobRecord, steps: Mapping[str, JobRecord], run: RunRecord | None) -> list[Node]:
    """The steps of a pipeline job.

    Before a job runs they are those of its body; then those of its run, where nested pipelines are steps of
    their own.

    Args:
        job: A pipeline.
        steps: All children below the submitted job, by the names of their steps.
        run: The record of its run, if there is one.
    """
    prefix = f"{job.step}." if job.parent is not None and job.step else ""
    if run is not None and run.steps:
        names = {
            name: tuple(_inside(step.needs, prefix))
            for name, step in run.steps.items()
            if name.startswith(prefix)
        }
    else:
        bound = dict(_bound_steps(mapping_of(job.properties, "jobs")))
        names = {prefix + name: tuple(prefix + each for each in needs) for name, needs in bound.items()}
    return [_node(name, prefix, needs, steps.get(name), run) for name, needs in names.items()]


def _node(
    name: str, prefix: str, needs: tuple[str, ...], child: JobRecord | None, run: RunRecord | None
) -> Node:
    record = None if run is None else run.steps.get(name)
    state = "NotStarted" if record is None else _STATES.get(record.state, record.state)
    return Node(
        name=name,
        label=name[len(prefix) :],
        status=state if child is None else child.status,
        needs=needs,
        job=child,
        reused=record is not None and record.state == "reused",
    )


def _inside(needs: tuple[str, ...], prefix: str) -> Iterator[str]:
    return (each for each in needs if each.startswith(prefix))


def _bound_steps(nodes: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for name, node in nodes.items():
        inputs = mapping_of(node, "inputs") if isinstance(node, Mapping) else {}
        texts = (
            str(each.get("value") or each.get("uri") or "")
            for each in inputs.values()
            if isinstance(each, Mapping)
        )
        bound = (each for text in texts for each in binding.find_expressions(text))
        needs = dict.fromkeys(each.step for each in bound if each.step is not None and each.side == "outputs")
        yield name, [each for each in needs if each in nodes and each != name]
