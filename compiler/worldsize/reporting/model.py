"""What a report shows of a run, as plain data. Times are seconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from worldsize.running.model.results import Registration
from worldsize.running.record.history import RunRecord, StepRecord
from worldsize.showing.curves import Curve


@dataclass(frozen=True, slots=True)
class Period:
    """A time during which something ran."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of a step; ``processes`` are the ends of its processes that have ended."""

    period: Period
    state: str
    processes: Mapping[str, float] = field(default_factory=dict)
    names: Sequence[str] = ()  # of all its processes


@dataclass(frozen=True, slots=True)
class RankSample:
    """Where the ranks of a training stood at one time, in seconds since the training began."""

    time: float
    trained: float
    computed: Sequence[float]  # by rank

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.computed)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a step has written."""

    title: str
    data: bytes  # PNG


@dataclass(frozen=True, slots=True)
class Quantity:
    """A planned number beside the one that the run had; empty where it is unknown.

    Measures are never equal to a prediction: their ``note`` says how they compare, and ``differs`` whether
    that is worth a look. Without it a number differs where it is another one.
    """

    name: str
    planned: str
    actual: str
    note: str = ""
    differs: bool | None = None


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A step."""

    record: StepRecord
    attempts: Sequence[Attempt] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)  # of its `metrics.json`
    logged: Mapping[str, float] = field(default_factory=dict)  # last values in MLflow
    outputs: Mapping[str, str] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    ranks: Sequence[RankSample] = ()
    pictures: Sequence[Picture] = ()
    quantities: Sequence[Quantity] = ()
    last_lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """A trial of a sweep; ``value`` is that of the primary metric."""

    name: str
    state: str
    values: Mapping[str, str]
    value: float | None


@dataclass(frozen=True, slots=True)
class SweepFacts:
    """The sweep of a step."""

    step: str
    metric: str
    goal: str
    best: str | None
    trials: Sequence[TrialFacts]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run with all that is known of it."""

    record: RunRecord
    steps: Mapping[str, StepFacts]
    read_at: datetime
    links: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    environment: Sequence[tuple[str, str]] = ()
    registered: Sequence[tuple[Registration, str]] = ()  # models, each with the gate of its step
    sweeps: Sequence[SweepFacts] = ()
    pauses: Sequence[Period] = ()  # between the end of a runner and the resumption of the run
    notes: Sequence[str] = ()


def read_mapping(value: Any) -> Mapping[str, Any]:
    """A part of a document of JSON or YAML; empty for anything else."""
    return value if isinstance(value, Mapping) else {}
