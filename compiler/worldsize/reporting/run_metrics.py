"""The metrics of a run: what its steps, or those that they reuse, have logged to MLflow and have written."""

from __future__ import annotations

import math
from pathlib import Path

from worldsize.reporting.curves import read_tracked, read_tracked_values
from worldsize.running.model.folder import RunFolder
from worldsize.running.record.details import LocalDetails
from worldsize.running.record.history import RunRecord
from worldsize.running.record.json_files import is_file_name
from worldsize.running.reuse.store import read_original
from worldsize.tracking.runs import find_steps


def read_run_metrics(run: RunRecord) -> dict[str, float]:
    """The last value of each metric by name, and by ``step.name``; of several steps the last one counts.

    What a step wrote to its ``metrics.json`` counts more than what was logged.
    """
    home = run.root.absolute().parent.parent
    originals = {name: find_original(run.root, name) for name in run.steps}
    tracked = {
        each: read_tracked(find_steps, home, each) for each in {source for source, _ in originals.values()}
    }
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


def find_original(root: Path, step: str) -> tuple[str, str]:
    """The run and the step that did the work of a step: its own, unless it was reused.

    Args:
        root: The folder of the run.
        step: The name of the step, which may contain anything.
    """
    original = read_original(RunFolder(root).step(step)) if is_file_name(step) else None
    return (root.name, step) if original is None else (original.run, original.step)
