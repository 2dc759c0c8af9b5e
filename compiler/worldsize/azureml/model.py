"""Azure ML's job graph as pure data: what a spec compiles to and what a native YAML file holds.

Every leaf is a :class:`Field`: the value and, if it was read from a file, the span of its text.
A compiled graph has no spans of its own file yet; rules point at ``span`` and stay silent
if it is None. Values keep the Python type that PyYAML gives them, even if it is wrong: the reader does not
convert them, and rules report them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec import Struct, field, structs

from worldsize.azureml.binding import Expression
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Node, Scalar

T = TypeVar("T")


class Keys(Struct, frozen=True):
    """The words of a file's format that messages quote: Azure ML's own, or those of a spec."""

    inputs: str = "inputs"  # that a step gives to its component
    bindings: tuple[str, ...] = ("parent.jobs.STEP.outputs.NAME", "parent.inputs.NAME")  # of inputs of steps
    default_compute: str = "write `default_compute:` under `settings:`"  # what saves a step its `compute`
    timeout: str = "`limits: {timeout: 43200}`"  # the time limit of a step
    instances: str = "`resources: {{instance_count: {}}}`"  # of a step that sets none
    in_command: frozenset[str] = frozenset({"inputs", "outputs", "search_space"})  # scopes of expressions
    in_variable: frozenset[str] | None = None  # in environment variables; Azure ML does not document them

    def binds(self, scope: str) -> bool:
        """Whether an input of a step may be bound to a scope such as ``parent.inputs``."""
        return any(text.startswith(f"{scope}.") for text in self.bindings)


AZURE_ML = Keys()
SPEC = Keys(
    inputs="with",
    bindings=("parent.jobs.STEP.outputs.NAME", "plan.NAME", "parent.inputs.NAME"),
    default_compute="keep one profile under `compute:`",
    timeout="`timeout: 43200`",
    instances="`instance_count: {}`",
    in_command=frozenset({"inputs", "outputs", "plan", "parent.inputs"}),
    in_variable=frozenset({"plan", "parent.inputs"}),
)
SWEPT_SPEC = structs.replace(SPEC, in_command=SPEC.in_command | {"search_space"})  # a step with `sweep:`


class Field(Struct, Generic[T], frozen=True):
    """A value with its place.

    A value that the user wrote has the span of its text, the span of its key, and the YAML node (for spans
    inside it). A value that is derived, such as a planned learning rate, has ``sources`` instead: the places
    in the user's file that it comes from, the most telling first. A mapping that was put together, such as
    the ``distribution`` of a spec's step, has ``parts``: its entries, each with its own place.
    """

    value: T
    span: Span | None = None
    key_span: Span | None = None
    node: Node | None = None
    comment: str | None = None  # written behind the value by the emitter
    sources: tuple[Span, ...] = ()
    parts: Mapping[str, Field[Any]] | None = None


def join_fields(parts: Mapping[str, Field[Any]], span: Span | None = None) -> Field[Any]:
    """The field of a mapping that is put together from fields."""
    return Field({name: part.value for name, part in parts.items()}, span, parts=parts)


class Port(Struct, frozen=True):
    """One input or output that a component declares."""

    name: str
    type: str  # uri_folder, uri_file, mltable, mlflow_model, custom_model, number, integer, …
    span: Span | None = None
    description: str | None = None
    optional: bool = False
    default: Field[Any] | None = None
    min: Field[Any] | None = None
    max: Field[Any] | None = None
    enum: Field[list[Any]] | None = None
    mode: Field[Any] | None = None

    @property
    def is_data(self) -> bool:
        """Whether the port carries files rather than a literal."""
        return self.type not in {"string", "number", "integer", "boolean"}


class Interface(Struct, frozen=True):
    """The ports of a pipeline component, as the graph inside it sees them."""

    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]


class Component(Struct, frozen=True, eq=False):
    """A component's interface and what it runs. ``None`` fields were absent."""

    path: Path | None  # its file, None when inline
    type: str  # command, pipeline, parallel, sweep …
    name: Field[Any] | None
    version: Field[Any] | None
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    command: Field[Any] | None = None
    code: Field[Any] | None = None
    environment: Field[Any] | None = None
    distribution: Field[Any] | None = None  # a plain mapping; see `distribution.py`
    resources: Field[Any] | None = None
    additional_includes: Field[Any] | None = None
    is_deterministic: Field[Any] | None = None
    display_name: Field[Any] | None = None
    description: Field[Any] | None = None
    tags: Field[Any] | None = None
    graph: Job | None = None  # the inner graph of a pipeline component
    inline: bool = False  # defined by a step, whose arguments declare its inputs
    raw: Node | None = None
    folder: Path | None = None  # that its relative paths start at
    keys: Keys = AZURE_ML  # the words of the file it is written in


class Binding(Struct, frozen=True):
    """An argument that is exactly one expression: ``${{parent.jobs.a.outputs.model}}``."""

    expression: Expression
    mode: Field[Any] | None = None


class Literal(Struct, frozen=True):
    """A number, text or boolean (which may still contain expressions inside its text)."""

    value: Any


class Data(Struct, frozen=True):
    """``{type, path, mode}``: data that exists before the job."""

    type: str | None
    path: Field[Any] | None
    mode: Field[Any] | None = None


Argument = Binding | Literal | Data


class OutputSetting(Struct, frozen=True):
    """The settings of a node or job for one of its outputs; all parts are optional."""

    type: str | None = None
    path: Field[Any] | None = None
    mode: Field[Any] | None = None
    name: Field[Any] | None = None
    version: Field[Any] | None = None
    binding: Field[Expression] | None = None  # ${{parent.outputs.x}}


class Step(Struct, frozen=True):
    """A step of the graph (Azure ML says node): an instance of a component with arguments and settings."""

    name: str
    type: str
    span: Span | None  # of the node's name
    component: Component | None  # None: lives in a workspace or registry, or could not be read
    reference: Field[Any] | None  # the text of `component:`; None for an inline job
    inputs: Mapping[str, Field[Argument]] = field(default_factory=dict)
    outputs: Mapping[str, Field[OutputSetting]] = field(default_factory=dict)
    compute: Field[Any] | None = None
    resources: Field[Any] | None = None
    distribution: Field[Any] | None = None
    limits: Field[Any] | None = None
    environment_variables: Field[Any] | None = None
    display_name: Field[Any] | None = None
    comment: Field[Any] | None = None
    raw: Node | None = None
    unwired: frozenset[str] = frozenset()  # inputs that resolving a spec left open, and reported


class Cluster(Struct, frozen=True):
    """What is known of a compute target that a job only names."""

    instance_type: str | None
    max_instances: int | None
    tier: str | None  # dedicated | low_priority
    size_span: Span | None = None  # where each of the three is said
    max_span: Span | None = None
    tier_span: Span | None = None
    declared: bool = False  # in worldsize.yml, which overrides compute files


class Job(Struct, frozen=True, eq=False):
    """A pipeline job, or a standalone command, sweep or parallel job seen as a graph of one node."""

    path: Path | None
    type: str
    name: Field[Any] | None = None
    display_name: Field[Any] | None = None
    description: Field[Any] | None = None
    experiment_name: Field[Any] | None = None
    tags: Field[Any] | None = None
    inputs: Mapping[str, Field[Argument]] = field(default_factory=dict)
    outputs: Mapping[str, Field[OutputSetting]] = field(default_factory=dict)
    steps: Mapping[str, Step] = field(default_factory=dict)
    settings: Field[Any] | None = None
    compute: Field[Any] | None = None
    raw: Node | None = None
    interface: Interface | None = None  # inside a pipeline component: the ports that it declares
    clusters: Mapping[str, Cluster] | None = None  # of a spec, by step; else files of the tree describe them
    keys: Keys = AZURE_ML  # the words of the file it is written in

    def list_data(self) -> Iterator[tuple[str, str | None, str, Scalar]]:
        """The data of inputs of the job (``input``) and of its steps (``step.input``): type, path, node."""
        arguments = dict(self.inputs)
        for step in self.steps.values():
            arguments |= {f"{step.name}.{name}": argument for name, argument in step.inputs.items()}
        for name, argument in arguments.items():
            data = argument.value
            if isinstance(data, Data) and data.path is not None and isinstance(data.path.node, Scalar):
                yield name, data.type, str(data.path.value), data.path.node
