"""What planning takes and returns: component interfaces, plain numbers and the formula of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.planning.plan_text import render_html, render_plan

Launcher = Literal["none", "pytorch", "tensorflow", "mpi"]
Rule = Literal["linear", "sqrt", "none"]
PlanValue = int | float | str | bool
COUNTED = "counted in the data, validation rows left out"  # where rows come from that the spec does not say


class Derivation(Struct, frozen=True):
    """One row of the plan's table: ``world_size = 8 = 2 instances × 4 GPUs``."""

    quantity: str  # e.g. "world_size"
    value: PlanValue
    formula: str  # e.g. "2 instances × 4 GPUs"; empty where nothing was computed
    source: str  # "given as train.instance_count", "VM size catalogue", "Goyal et al. 2017" …


class Topology(Struct, frozen=True):
    """Instances and processes of a step. ``gpus_per_instance`` is 0 on CPU sizes, None if unknown."""

    launcher: Launcher
    instance_type: str | None
    instance_count: int
    gpus_per_instance: float | None  # a fraction on shared cards
    process_count_per_instance: int
    world_size: int  # processes that train together (TensorFlow: replicas)
    worker_count: int | None = None
    parameter_server_count: int | None = None
    tensor_parallel_size: int = 1  # ranks that share each layer
    pipeline_parallel_size: int = 1  # stages that the layers are cut into
    strategy: str | None = None  # of a component that offers several, where the degrees decide it
    local_world_size: int | None = None  # ranks on each instance; None for TensorFlow and single processes
    command_launcher: str | None = None  # what starts them where Azure ML starts one process: `torchrun` …

    @property
    def is_distributed(self) -> bool:
        """Whether several processes may train together."""
        return self.launcher != "none" or self.command_launcher is not None

    def with_ranks(self, instances: int, ranks: int) -> Topology:
        """The same with other numbers of instances and of ranks on each."""
        inside = self.command_launcher is not None
        return replace(
            self,
            instance_count=instances,
            process_count_per_instance=1 if inside else ranks,
            world_size=instances * ranks,
            local_world_size=None if self.local_world_size is None else ranks,
        )

    @property
    def data_parallel_size(self) -> int:
        """Replicas of the model, which average their gradients: the only degree a global batch counts.

        Workers of parameter servers average nothing: each update is one worker's.
        """
        if self.parameter_server_count:
            return 1
        return self.world_size // (self.tensor_parallel_size * self.pipeline_parallel_size)

    @property
    def splits_model(self) -> bool:
        """Whether a replica of the model spans several ranks."""
        return self.tensor_parallel_size * self.pipeline_parallel_size > 1


class Training(Struct, frozen=True):
    """Batches, learning rate and length of one training step. Batches count samples."""

    optimizer: str | None  # None if it is unknown and nothing depends on it
    batch_size_per_device: int  # b
    gradient_accumulation_steps: int  # a
    global_batch_size: int  # G = b·a·D, D the data-parallel size
    reference_batch_size: int
    kappa: float  # G / reference batch
    rule: Rule
    reference_learning_rate: float
    learning_rate: float
    epochs: float | None
    warmup_epochs: float
    rows: int | None  # training rows, None when unknown at compile time
    steps_per_epoch: int | None
    total_steps: int | None
    warmup_steps: int | None
    shard_count: int
    shards_per_rank: int


class Trial(Struct, frozen=True):
    """What the plan gives to trials of a sweep that share the values which decide it."""

    values: Mapping[str, PlanValue]  # of the inputs that are searched over
    inputs: Mapping[str, PlanValue]  # the planned quantities


class PlannedSweep(Struct, frozen=True):
    """The sweep of a step: the number of trials, and the plan for each kind of trial.

    ``trials`` is empty where nothing that is searched over decides the plan. ``varying`` are the quantities
    that differ between trials.
    """

    max_total_trials: int
    max_concurrent_trials: int
    searched: tuple[str, ...]
    trials: tuple[Trial, ...] = ()
    varying: tuple[str, ...] = ()


class StepPlan(Struct, frozen=True):
    """The plan of one step; ``training`` is None where the step has no ``scale:``.

    ``inputs`` holds every planned quantity that fills a component's input of the same name where
    ``with:`` leaves it open. A quantity that is not known before the run is not in it.
    """

    step: str
    topology: Topology
    training: Training | None
    derivations: tuple[Derivation, ...] = ()
    advice: tuple[str, ...] = ()  # e.g. β′ and ε′ offered by the √ rule
    inputs: Mapping[str, PlanValue] = field(default_factory=dict)
    sweep: PlannedSweep | None = None

    def find_row(self, quantity: str) -> Derivation | None:
        """The row of the table for a quantity."""
        return next((row for row in self.derivations if row.quantity == quantity), None)


class Plan(Struct, frozen=True):
    """The plan of a spec, one entry a step in spec order."""

    name: str
    steps: Mapping[str, StepPlan]

    def __str__(self) -> str:
        """The table that ``worldsize plan`` prints."""
        return render_plan(self)

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        return render_html(self)


class Interface(Struct, frozen=True):
    """What planning needs to know of a step's component."""

    inputs: Mapping[str, Any] = field(default_factory=dict)  # name -> default; None without one
    launcher: Launcher = "none"  # the component's distribution type
    instance_count: int | None = None  # the component's own resources
    shm_size: str | None = None
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # name -> values, where listed
    outputs: frozenset[str] = frozenset()
    loader_workers: int | None = None  # that its script starts where the command does not say


# What is judged by the world size. Where the counts behind it are wrong, these are consequences.
_FOLLOW_FROM_COUNTS = frozenset({
    "batch-identity", "degree-does-not-divide", "global-batch-does-not-factor", "kappa-below-one",
    "learning-rate-disagrees", "micro-batch-small", "parallelism-product", "pipeline-bubble",
    "pipeline-degree-does-not-divide-layers", "rows-fewer-than-global-batch", "sqrt-rule-out-of-range",
    "strategy-contradicts-degrees", "tensor-degree-does-not-divide-model",
    "tensor-parallel-across-instances", "training-shorter-than-one-step", "warmup-longer-than-training",
})  # fmt: skip


class Notes(Struct):
    """Collects table rows, advice and problems of one step, ``step``."""

    step: str
    wrong_counts: bool = False  # whether a rule reports the counts of the step
    consequences: list[Problem] = field(default_factory=list)
    derivations: list[Derivation] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def derive(self, quantity: str, value: PlanValue, formula: str, source: str) -> None:
        """Add a row of the table."""
        self.derivations.append(Derivation(quantity, value, formula, source))

    def report(
        self, slug: str, span: Span, message: str, help_: str | None = None, *related: Related
    ) -> None:
        """Add a problem, or the consequence of a count that a rule reports."""
        follows = self.wrong_counts and slug in _FOLLOW_FROM_COUNTS
        (self.consequences if follows else self.problems).append(Problem(slug, span, message, help_, related))

    def given(self, place: str) -> str:
        """The source of a value that the user wrote."""
        return f"given as {self.step}.{place}"
