"""The metrics of a run: what its steps have logged to MLflow, and what they have written."""

from __future__ import annotations

import math

from worldsize.reporting.curves import find_tracked_steps, read_tracked_values
from worldsize.reporting.originals import find_original
from worldsize.running.record.details import LocalDetails
from worldsize.running.record.history import RunRecord


def read_run_metrics(run: RunRecord) -> dict[str, float]:
    """The last value of each metric by name, and by ``step.name``; of several steps the last one counts.

    What a step wrote to its ``metrics.json`` counts more than what was logged.
    """
    home = run.root.absolute().parent.parent
    originals = {name: find_original(run.root, name) for name in run.steps}
    tracked = {each: find_tracked_steps(home, each) for each in {source for source, _ in originals.values()}}
    logged = {
        name: read_tracked_values(home, tracked[source][step])
        for name, (source, step) in originals.items()
        if step in tracked[source]
    }
    details = LocalDetails(run)
    written = {name: details.metrics(step) for name, step in run.steps.items()}
    found: dict[str, float] = {}
    for source in (logged, written):
        for step, metrics in source.items():
            for name, value in metrics.items():
                if math.isfinite(value):
                    found[name] = found[f"{step}.{name}"] = value
    return found
