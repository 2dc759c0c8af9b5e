"""The question: a training, what may be rented, how long it is. The answer: options in time and money."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from worldsize.facts.prices import Price, Tier
from worldsize.facts.vm_sizes import VmSize
from worldsize.planning.estimates.calibration import NOT_CALIBRATED, Calibration
from worldsize.planning.estimates.memory import count_least
from worldsize.planning.estimates.model import (
    Case,
    Cluster,
    Estimate,
    Interval,
    Recomputation,
    Strategy,
    Training,
)
from worldsize.planning.model import Rule
from worldsize.spec.workload import Workload

Sharding = tuple[Strategy, int]
"""A strategy and its ZeRO stage: ``("fsdp", 3)``."""

TORCH: tuple[Sharding, ...] = (("ddp", 0), ("fsdp", 2), ("fsdp", 3))
DEEPSPEED: tuple[Sharding, ...] = (("deepspeed", 1), ("deepspeed", 2), ("deepspeed", 3))
HOROVOD: tuple[Sharding, ...] = (("horovod", 0),)

FindPrice = Callable[[str, Tier], Price | None]
"""The price of a VM size on a tier; None where it is unknown."""

CountMemory = Callable[[Case], float]
"""The bytes that a training needs of the GPU that needs most."""


class LayoutChoice(Struct, frozen=True):
    """Which layouts may be chosen."""

    shardings: tuple[Sharding, ...] = (*TORCH, *DEEPSPEED)
    divides_layers: bool = True  # whether tensor and pipeline degrees may be above 1
    combines_sharding: bool = True  # whether they may be with sharded states
    recomputes: tuple[Recomputation, ...] = ("none", "selective", "full")
    automatic_precision: bool = False  # whether each GPU has its own, in place of the present one
    degrees: tuple[int, int] | None = None  # the only tensor and pipeline degree; None for any


class Choice(Struct, frozen=True):
    """What may be chosen."""

    sizes: tuple[VmSize, ...]
    max_instances: int
    tiers: tuple[Tier, ...]
    layouts: LayoutChoice = LayoutChoice()


class Rate(Struct, frozen=True):
    """What the learning rate follows from."""

    rule: Rule
    reference_batch: int
    reference_learning_rate: float
    epochs: float | None


class Subject(Struct, frozen=True):
    """One training as the user has it."""

    name: str  # of the step or the file
    case: Case  # its workload, and its present layout and cluster
    layouts: LayoutChoice
    checkpoint_seconds: float | None  # that it waits for one checkpoint; None if it writes none
    tier: Tier = "dedicated"  # the present one
    samples: float | None = None  # to train with in all; None if that is unknown
    rate: Rate | None = None  # None if it is unknown how the learning rate follows the batch
    max_instances: int | None = None  # of its cluster, where the spec limits them
    count_memory: CountMemory = count_least


class Question(Struct, frozen=True):
    """One training. ``training`` is the present one: its optimizer is kept, and a precision that is given."""

    workload: Workload
    training: Training
    global_batch: int  # samples of an optimizer step, kept exactly
    samples: float  # to train with in all
    choice: Choice
    find_price: FindPrice
    checkpoint_seconds: float | None  # that a training waits for one; None if it writes none
    input_samples_per_s: float | None = None
    calibration: Calibration = NOT_CALIBRATED
    count_memory: CountMemory = count_least


class Limits(Struct, frozen=True):
    """What an option may take at most, by its expected values."""

    seconds: float | None = None
    amount: float | None = None


class Option(Struct, frozen=True):
    """One cluster with the fastest layout on it, on one tier."""

    cluster: Cluster
    tier: Tier
    training: Training
    estimate: Estimate
    memory_bytes: float  # of the GPU that needs most
    seconds: Interval  # of the whole training, evictions included
    amount: Interval | None  # of money; None if the price is unknown
    price: Price | None
    expected_loss: float  # share of the time that evictions and checkpoints take

    @property
    def instance_type(self) -> str:
        """The VM size."""
        return self.cluster.instance_type or self.cluster.gpu.name


class Shortage(Struct, frozen=True):
    """The smallest memory that any layout needs of one GPU, and the cluster and layout that need it."""

    needed_bytes: float
    training: Training
    cluster: Cluster


class Found(Struct, frozen=True):
    """All options, the fastest layout for each cluster and tier; and what the search has met."""

    options: tuple[Option, ...]  # whose price is known
    considered: int  # layouts in the space, those among them that a bound or the memory excludes
    timed: int  # layouts whose step was timed
    precise: bool  # whether any GPU computes in the precision of the training
    unpriced: tuple[Option, ...]  # whose price is unknown
    shortage: Shortage | None  # the smallest need of memory, where no layout fits any cluster


class OtherBatch(Struct, frozen=True):
    """What another global batch would mean; it is never chosen by itself."""

    factor: int  # of the global batch
    global_batch: int
    learning_rate: float | None  # by the rule of the training; None where the rule is unknown
    warmup_epochs: float | None  # likewise
    option: Option | None  # the cheapest within the limits


class Advice(Struct, frozen=True):
    """The options within the limits that none is better than, and what to compare the cheapest with.

    ``chosen`` is the fastest of the front if there is only a budget, the cheapest if there is a deadline.
    """

    found: Found  # all options, whatever the limits
    front: tuple[Option, ...]  # the fastest first; empty if no option is within the limits
    cheapest: Option | None  # of the front
    chosen: Option | None  # None without limits
    runner_up: Option | None  # the cheapest on another VM size, or with another number of instances
    present: Option | None  # what the user has now, if it can be estimated
