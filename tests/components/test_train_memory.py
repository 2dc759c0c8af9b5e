"""What a process says that gets no more memory, from the allocators' own refusals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from wsshards.errors import UserError
from wstrain.health import memory, non_finite

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(100)]
HUGE = 1 << 44  # numbers: no machine has room for them, and none tries


def settings(micro: int, predicted: int | None = None) -> Any:
    return SimpleNamespace(
        batch_size_per_device=micro,
        gradient_accumulation_steps=3,
        global_batch_size=micro * 3,
        predicted_memory_bytes=predicted,
    )


@pytest.mark.parametrize("allocate", [lambda: torch.empty(HUGE), lambda: np.empty(HUGE, np.float32)])
def test_what_was_asked_what_there_is_and_what_would_fit(allocate: Any) -> None:
    with (
        pytest.raises(UserError) as caught,
        memory.explain_out_of_memory(cast("Any", settings(48, 3 << 30))),
    ):
        allocate()
    error = caught.value
    assert error.message.startswith("out of memory: 64.0 TiB more were asked for; this process uses ")
    assert error.message.endswith(", and 3.0 GiB were planned")
    assert error.help == (
        "set `batch_size_per_device` to 24 and `gradient_accumulation_steps` to 6: the same global batch"
        " of 144, with activations of 24 samples instead of 48"
    )


def test_a_plan_that_was_too_large_says_by_how_much() -> None:
    with pytest.raises(UserError) as caught, memory.explain_out_of_memory(settings(64, 1 << 50)):
        torch.empty(HUGE)
    assert "set `batch_size_per_device` to 1 and `gradient_accumulation_steps` to 192" in str(
        caught.value.help
    )


def test_one_sample_that_is_too_much_needs_something_else() -> None:
    with pytest.raises(UserError) as caught, memory.explain_out_of_memory(settings(1)):
        torch.empty(HUGE)
    assert "activation_checkpointing: blocks" in str(caught.value.help)


def test_weights_are_looked_at_before_they_are_saved() -> None:
    good = [torch.ones(3), torch.full((2,), 1e38), torch.arange(4), torch.ones(2, dtype=torch.bfloat16)]
    non_finite.expect_finite(good, 7, lambda: None, is_finite=non_finite.tensor_is_finite)
    for bad in (float("nan"), float("inf"), -float("inf")):
        broken = [*good, torch.tensor([1.0, bad])]
        with pytest.raises(UserError, match="after step 7 the weights are not finite") as caught:
            non_finite.expect_finite(
                broken, 7, lambda: "step-00000005", is_finite=non_finite.tensor_is_finite
            )
        assert "`step-00000005`" in str(caught.value.help)


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match="shape"), memory.explain_out_of_memory(settings(8)):
        torch.zeros(3).view(4)
