"""What a report shows of a run, as plain data. Times are seconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from worldsize.running.model.results import Registration
from worldsize.running.record.history import RunRecord, StepRecord
from worldsize.showing.curves import Curve


class Period(Struct, frozen=True):
    """A time during which something ran."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return self.end - self.start


class Attempt(Struct, frozen=True):
    """One start of a step; ``processes`` are the ends of its processes that have ended."""

    period: Period
    state: str
    processes: Mapping[str, float] = {}
    names: Sequence[str] = ()  # of all its processes


class RankSample(Struct, frozen=True):
    """Where the ranks of a training stood at one time, in seconds since the training began."""

    time: float
    trained: float
    computed: Sequence[float]  # by rank

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.computed)


class Picture(Struct, frozen=True):
    """A picture that a step has written."""

    title: str
    data: bytes  # PNG


class Quantity(Struct, frozen=True):
    """A planned number beside the one that the run had; empty where it is unknown.

    Measures are never equal to a prediction: their ``note`` says how they compare, and ``differs`` whether
    that is worth a look. Without it a number differs where it is another one.
    """

    name: str
    planned: str
    actual: str
    note: str = ""
    differs: bool | None = None


class StepFacts(Struct, frozen=True):
    """A step."""

    record: StepRecord
    attempts: Sequence[Attempt] = ()
    metrics: Mapping[str, float] = {}  # of its `metrics.json`
    logged: Mapping[str, float] = {}  # last values in MLflow
    outputs: Mapping[str, str] = {}
    curves: Mapping[str, Curve] = {}
    ranks: Sequence[RankSample] = ()
    pictures: Sequence[Picture] = ()
    quantities: Sequence[Quantity] = ()
    last_lines: Sequence[str] = ()


class TrialFacts(Struct, frozen=True):
    """A trial of a sweep; ``value`` is that of the primary metric."""

    name: str
    state: str
    values: Mapping[str, str]
    value: float | None


class SweepFacts(Struct, frozen=True):
    """The sweep of a step."""

    step: str
    metric: str
    goal: str
    best: str | None
    trials: Sequence[TrialFacts]


class RunFacts(Struct, frozen=True):
    """A run with all that is known of it."""

    record: RunRecord
    steps: Mapping[str, StepFacts]
    read_at: datetime
    links: Mapping[str, str] = {}
    outputs: Mapping[str, str] = {}
    environment: Sequence[tuple[str, str]] = ()
    registered: Sequence[tuple[Registration, str]] = ()  # models, each with the gate of its step
    sweeps: Sequence[SweepFacts] = ()
    pauses: Sequence[Period] = ()  # between the end of a runner and the resumption of the run
    notes: Sequence[str] = ()


def read_mapping(value: Any) -> Mapping[str, Any]:
    """A part of a document of JSON or YAML; empty for anything else."""
    return value if isinstance(value, Mapping) else {}
