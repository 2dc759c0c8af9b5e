"""Finds the step whose outputs a reused step has."""

from __future__ import annotations

from pathlib import Path

from worldsize.running.record.json_files import is_file_name, read_json
from worldsize.running.reuse.store import LINK_FILE


def find_original(root: Path, step: str) -> tuple[str, str]:
    """The run and the step that did the work of a step: its own, unless it was reused.

    Args:
        root: The folder of the run.
        step: The name of the step, which may contain anything.
    """
    link = read_json(root / "steps" / step / LINK_FILE) if is_file_name(step) else None
    run, name = (str(link.get(key, "")) for key in ("run", "step")) if link is not None else ("", "")
    return (run, name) if is_file_name(run) and is_file_name(name) else (root.name, step)
