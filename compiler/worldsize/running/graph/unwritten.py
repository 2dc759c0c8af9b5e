"""Outputs that a file would have at a path of this machine; a run keeps everything in its own folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from worldsize.azureml.model import Field, OutputSetting
from worldsize.azureml.references import local_path, shorten


def notices(outputs: Mapping[str, Field[OutputSetting]], folder: Path, there: str) -> Iterator[str]:
    """Say where they are.

    Args:
        outputs: By name, as the file says.
        folder: What paths in the file are relative to.
        there: Where in the run's folder they all are.
    """
    for name, setting in outputs.items():
        path = setting.value.path.value if setting.value.path else None
        if isinstance(path, str) and local_path(path, folder) is not None:
            found = f"the run's folder has it as `{there}/{name}`"
            yield f"output `{name}` is not written to `{shorten(path)}`: {found}"
