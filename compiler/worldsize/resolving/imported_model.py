"""The shapes of a user's own model, which only its code knows: the code is run, in a process of its own."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worldsize.base.problem import HelpfulError
from worldsize.planning.memory.network import Kept, Network, Part, Weight
from worldsize.planning.memory.workload import Samples

LONGEST = 120  # seconds for importing torch and the user's file, and for making the model


class ModelImportError(HelpfulError):
    """The user's model could not be looked at; the text says why."""


def import_model(folder: Path, reference: str, samples: Samples) -> Network:
    """Run the function ``path/to/file.py:function`` on torch's meta device and return what it makes.

    What its layers keep is counted in a forward pass on that device, where one runs; else activations are
    left out. In half precision all of it counts as half, which is rather too little than too much.

    Raises:
        ModelImportError: torch is not installed, or the function fails or takes too long.
    """
    task = [samples.task, json.dumps(list(samples.shape)), str(samples.outputs)]
    command = [sys.executable, "-m", "worldsize.resolving.model_shapes", reference, *task]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        raise ModelImportError(f"`{reference}` did not create a model within {LONGEST} seconds") from None
    if done.returncode != 0:
        raise ModelImportError(_reason(reference, done.stderr))
    return read_description(reference, json.loads(done.stdout.splitlines()[-1]), samples)


def _reason(reference: str, stderr: str) -> str:
    lines = [line for line in stderr.strip().splitlines() if line]
    reported = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), None)
    if reported is not None:
        return reported
    if any("No module named 'torch'" in line for line in lines):
        return "creating the model needs torch, which is not installed: `pip install 'worldsize[run]'`"
    return f"`{reference}` failed: {lines[-1] if lines else 'it reported nothing'}"


def read_description(reference: str, described: Mapping[str, Any], samples: Samples) -> Network:
    """The network of a model that :func:`worldsize.resolving.model_shapes.describe` has described."""
    parts = [
        Part(
            name=f"block {number}" if number else "around",
            weights=tuple(Weight(name, tuple(shape), trained) for name, shape, trained in part["weights"]),
            kept=Kept(narrow=part["kept"] // 4),
            work=2 * part["largest"] // 4,  # the gradients of what one operation reads and writes
            block=number > 0,
        )
        for number, part in enumerate(described["parts"])
    ]
    width = 8 if samples.task == "language_model" else 4
    count = math.prod(samples.shape)
    return Network(reference, tuple(parts), width * count, exact=bool(described["counted"]))
