"""The declarative spec as typed values with their positions in the file.

Each field of a class is a key of the schema; ``decode`` reads it by its annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from msgspec import Struct, field

from worldsize.azureml import literals
from worldsize.azureml.model import Field
from worldsize.azureml.sweep import find_algorithm
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping as MappingNode
from worldsize.documents.yaml.nodes import Scalar

T = TypeVar("T")

ScaleRule = Literal["auto", "linear", "sqrt", "none"]
Framework = Literal["pytorch", "tensorflow", "mpi"]


class Located(Field[T], Generic[T], frozen=True):
    """A field that is in the file, so that its places are known; without a key, ``key_span`` is the span."""

    span: Span
    key_span: Span

    def subspan(self, start: int, end: int) -> Span:
        """The place of ``text[start:end]`` of a text."""
        return self.node.subspan(start, end) if isinstance(self.node, Scalar) else self.span


class ComputeProfile(Struct, frozen=True):
    """One named entry of ``compute:``: a cluster and what its instances are."""

    name: str
    span: Span
    target: Located[str] | None  # azureml:gpu-cluster
    instance_type: Located[str] | None  # VM size
    min_instances: Located[int] | None
    max_instances: Located[int] | None
    tier: Located[str] | None  # dedicated | low_priority
    idle_time_before_scale_down: Located[int] | None  # seconds


class Scale(Struct, frozen=True):
    """``scale:``: what worked on the reference device, and which derived quantities the user pins.

    Everything but ``reference`` is optional; a pinned quantity is verified.
    """

    span: Span
    # Samples per optimizer step where it worked, and the devices they were spread over, by default 1.
    reference_batch_size: Located[int] = field(name="reference.batch_size")
    reference_learning_rate: Located[float] = field(name="reference.learning_rate")
    reference_gpus: Located[int] | None = field(name="reference.gpus")
    rule: Located[ScaleRule] | None  # default auto
    optimizer: Located[str] | None  # for own scripts; built-in components have it under `with`
    epochs: Located[float] | None  # likewise
    beta1: Located[float] | None
    beta2: Located[float] | None
    epsilon: Located[float] | None
    warmup_epochs: Located[float] | None
    rows: Located[int] | None  # training rows, where they cannot be counted at compile time
    drop_last: Located[bool] | None  # for own scripts; default true, as the built-in components do
    batch_size_per_device: Located[int] | None
    gradient_accumulation_steps: Located[int] | None
    global_batch_size: Located[int] | None
    learning_rate: Located[float] | None
    workload: WorkloadKeys | None  # the model of an own script
    arithmetic: Mapping[str, Located[Any]]  # its precision and strategy


class WorkloadKeys(Struct, frozen=True):
    """A ``workload:`` as it is written: the keys of its kind with their places."""

    span: Span  # of the key `workload`
    values: Mapping[str, Located[Any]] = field(name="")

    @property
    def kind(self) -> str:
        """``transformer`` or ``convolutional``."""
        return str(self.values["kind"].value)


class EstimateKeys(Struct, frozen=True):
    """An estimate file as it is written. ``spans`` are those of its sections' keys."""

    workload: WorkloadKeys
    training: Mapping[str, Located[Any]]
    cluster: Mapping[str, Located[Any]]
    spans: Mapping[str, Span]


class Distribution(Struct, frozen=True):
    """``distribution:`` of a step with its own command: Azure ML's block, counts optional."""

    span: Span
    type: Located[Framework]
    process_count_per_instance: Located[int] | None
    worker_count: Located[int] | None
    parameter_server_count: Located[int] | None


class Parallelism(Struct, frozen=True):
    """``parallelism:`` of a step: degrees whose product is the world size; None means derived."""

    span: Span
    data: Located[int] | None  # replicas of the model
    tensor: Located[int] | None  # processes that share each layer
    pipeline: Located[int] | None  # stages of layers


class Resilience(Struct, frozen=True):
    """``resilience:`` of a step: how often it writes checkpoints and is restarted from them."""

    span: Span
    mean_time_between_preemptions: Located[float] | None  # seconds; assumed from the tier if left out
    checkpoint_seconds: Located[float] | None  # that training waits for one checkpoint
    max_restarts: Located[int] | None  # after failures, by `worldsize run`


class PipelineInput(Struct, frozen=True):
    """One entry of ``inputs:``: an input of the whole pipeline. Without ``value`` it is left out."""

    SHORT: ClassVar[str] = "default"

    name: str
    span: Span  # of its name
    declared: Located[str] | None = field(name="type")
    default: Located[Any] | None
    path: Located[str] | None  # of data
    mode: Located[str] | None
    description: Located[str] | None
    optional: Located[bool] | None

    @property
    def value(self) -> Located[Any] | None:
        """The default, or the path of data."""
        return self.path if self.default is None else self.default

    @property
    def type(self) -> str:
        """The type as declared, else by the value."""
        if self.declared is not None:
            return self.declared.value
        return "uri_folder" if self.default is None else literals.primitive_type(self.default.value)

    @property
    def value_key(self) -> str:
        """The key of the value; empty in the short form."""
        if self.value is None or self.value.key_span == self.span:
            return ""
        return "path" if self.default is None else "default"

    @property
    def is_data(self) -> bool:
        """Whether the input is data rather than a literal."""
        return self.type not in literals.PRIMITIVES


class PipelineOutput(Struct, frozen=True):
    """One entry of ``outputs:``: the output of a step that becomes one of the whole pipeline."""

    SHORT: ClassVar[str] = "from"

    name: str
    span: Span  # of its name
    source: Located[str] = field(name="from")  # ${{parent.jobs.train.outputs.model}}
    type: Located[str] | None
    path: Located[str] | None
    mode: Located[str] | None
    description: Located[str] | None


class Sweep(Struct, frozen=True):
    """``sweep:`` of a step, in Azure ML's words; ``node`` is its mapping, which is compiled as it is."""

    span: Span
    node: MappingNode
    search_space: Mapping[str, Located[Any]]  # input -> distribution of its values
    primary_metric: Located[str] = field(name="objective.primary_metric")
    max_total_trials: Located[int] = field(name="limits.max_total_trials")
    max_concurrent_trials: Located[int] | None = field(name="limits.max_concurrent_trials")
    timeout: Located[int] | None = field(name="limits.timeout")  # seconds
    trial_timeout: Located[int] | None = field(name="limits.trial_timeout")  # seconds

    @property
    def algorithm(self) -> str:
        """``random``, ``grid`` or ``bayesian``."""
        name = find_algorithm(self.node.get("sampling_algorithm"))
        return "random" if name is None else name.text


class Step(Struct, frozen=True):
    """One entry of ``steps:``: either ``uses`` a component or runs its own ``command``."""

    name: str
    span: Span  # of the step's name
    uses: Located[str] | None
    command: Located[str] | None
    code: Located[str] | None
    environment: Located[Any] | None  # text or mapping, in Azure ML's own syntax
    distribution: Distribution | None
    display_name: Located[str] | None
    description: Located[str] | None
    compute: Located[str] | None  # set by the loader if only one profile exists
    instance_count: Located[int] | None
    process_count_per_instance: Located[int] | None
    worker_count: Located[int] | None
    parameter_server_count: Located[int] | None
    parallelism: Parallelism | None
    shm_size: Located[str] | None
    timeout: Located[int] | None  # seconds
    environment_variables: Mapping[str, Located[Any]]
    with_: Mapping[str, Located[Any]] = field(name="with")  # inputs
    split: Mapping[str, Located[Any]]  # the loader adds the inputs that it stands for to `with_`
    outputs: Mapping[str, Located[Any]]  # own scripts: output name -> type or mapping
    scale: Scale | None
    when: Mapping[str, Located[str]]  # metric -> condition such as ">= 0.97"
    on_fail: Located[Literal["skip", "error"]] | None
    resilience: Resilience | None
    sweep: Sweep | None


class Schedule(Struct, frozen=True):
    """``schedule:``: a cron expression or a recurrence, never both."""

    span: Span
    name: Located[str] | None
    cron: Located[str] | None
    recurrence: Located[Mapping[str, Any]] | None  # frequency, interval, schedule {hours, …}
    time_zone: Located[str] | None
    start_time: Located[str] | None
    end_time: Located[str] | None
    inputs: Mapping[str, Located[Any]] = field(default_factory=dict)  # in place of the pipeline's own


class RetrainData(Struct, frozen=True):
    """An entry of ``retrain.data``: how much of an input of the pipeline each training reads."""

    name: str
    span: Span  # of its name
    newest: Located[bool] | None
    window: Located[str] | None  # 365d
    by: Located[str] | None  # the key of partitions, `file_name`, `modification_time` or a column
    minimum_new_rows: Located[int] | None


class Promote(Struct, frozen=True):
    """``retrain.promote``: when the model just trained takes the champion's place."""

    span: Span
    metric: Located[str] | None
    rule: Located[str] | None  # better, not_worse 0.01 …
    guards: Mapping[str, Located[str]]  # metric -> rule
    on: Located[str] | None  # which rows
    minimum_rows: Located[int] | None


class Keep(Struct, frozen=True):
    """``retrain.keep``: how many old versions are kept."""

    span: Span
    models: Located[int]


class Tell(Struct, frozen=True):
    """``retrain.tell``: where notices are sent."""

    span: Span
    webhook: Located[str]  # an expression with the name of a secret
    on: Located[Any] | None  # a list of topics


class Retrain(Struct, frozen=True):
    """``retrain:``: when to train again, and which model is used then."""

    span: Span
    data: Mapping[str, RetrainData]
    when: Located[Literal["new_data", "always"]] | None
    start_from: Located[Literal["scratch", "champion"]] | None
    promote: Promote | None
    overlap: Located[Literal["skip", "queue", "replace"]] | None
    retries: Located[int] | None
    stale_after: Located[int] | None
    keep: Keep | None
    tell: Tell | None


class Spec(Struct, frozen=True):
    """A whole spec file."""

    path: Path
    span: Span
    name: Located[str]
    display_name: Located[str] | None
    description: Located[str] | None
    experiment_name: Located[str] | None
    tags: Mapping[str, Located[str]]
    compute: Mapping[str, ComputeProfile]
    steps: Mapping[str, Step]
    schedule: Schedule | None
    retrain: Retrain | None
    settings: Mapping[str, Located[Any]]  # default_datastore, force_rerun …
    inputs: Mapping[str, PipelineInput]
    outputs: Mapping[str, PipelineOutput]
    planned_inputs: frozenset[str]  # whose defaults the plan is made with

    def profile_of(self, step: str) -> ComputeProfile | None:
        """The entry of ``compute:`` that a step runs on; None if it names none, or one that is not there."""
        chosen = self.steps[step].compute
        return self.compute.get(chosen.value) if chosen is not None else None
