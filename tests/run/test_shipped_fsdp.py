"""The pipeline with sharded weights as it is shipped, but for a smaller model and fewer steps.

That sharded weights are exported as whole copies are is shown by ``tests/components/test_train_fsdp.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.timeout(600)]


def test_sharded_weights_end_as_a_registered_model(shipped: Callable[..., Any]) -> None:
    run = shipped(
        "python_source_gpt_fsdp",
        shard={"with": {"validation_fraction": 0.02}},
        train={"with": {"epochs": 0.05, "gpt_layers": 2, "gpt_width": 32}},
        register={"when": {"bits_per_byte": "< 8"}},
    )
    assert "python-source-gpt version 1" in run.output
    assert run.metrics["bits_per_byte"] < 6.5  # it has learned something: 8 bits is knowing nothing
    checkpoints = list((run.newest / "steps/train/outputs/checkpoints").glob("step-*/__1_0.distcp"))
    assert checkpoints, "rank 1 wrote no part"
