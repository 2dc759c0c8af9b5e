from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest

from wsmetrics.metrics import make_metrics
from wsshards import terms
from wstrain_tensorflow import metric_states


class Recorded:
    """A rendezvous of two workers that send the same."""

    def __init__(self) -> None:
        self.longest = 0

    def gather(self, value: Any) -> list[Any]:
        self.longest = max(self.longest, len(str(value)))
        return [value, value]


@pytest.mark.parametrize("task", terms.TASKS)
def test_states_arrive_in_small_messages(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_states, "MAX_MESSAGE_BYTES", 400)
    random = np.random.default_rng(0)
    shape = {terms.CLASSIFICATION: (9,), terms.LANGUAGE_MODEL: (9, 2)}.get(task, (9, 3))
    targets = random.integers(0, 2, shape)
    outputs = random.normal(size=(9, 2, 3) if task == terms.LANGUAGE_MODEL else (9, 3))
    whole, once, twice = (make_metrics(task, 3) for _ in range(3))
    once.add(outputs, targets)
    for _ in range(2):
        whole.add(outputs, targets)
    group: Any = Recorded()
    twice.merge(metric_states.gather_states(group, once.state()))
    assert twice.compute() == whole.compute()
    assert group.longest <= 100


@pytest.mark.parametrize("harmful", [os.system, eval, np.load, np.testing.assert_equal])
def test_a_state_that_names_anything_else_is_refused(harmful: Any) -> None:
    class Harmful:
        def __reduce__(self) -> Any:
            return harmful, ("x",)

    with pytest.raises(pickle.UnpicklingError, match="is not part of the state of metrics"):
        metric_states.read_state(pickle.dumps(Harmful()))
