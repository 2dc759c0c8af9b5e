"""What resolving a spec keeps at hand: the parts read so far, what is bound, what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from worldsize.azureml.files import Files
from worldsize.azureml.model import Argument, Binding, Component, Field, Port
from worldsize.azureml.references import classify
from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.planning.model import Plan
from worldsize.spec.model import Located, Spec
from worldsize.yaml.nodes import Scalar

# Inputs that are filled from the plan wherever a component declares them.
PLANNED = frozenset(
    {
        "world_size",
        "data_parallel_size",
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "batch_size_per_device",
        "gradient_accumulation_steps",
        "global_batch_size",
        "learning_rate",
        "reference_learning_rate",
        "warmup_epochs",
        "warmup_steps",
        "total_steps",
        "steps_per_epoch",
        "epochs",
        "shards_per_rank",
        "shard_count",
        "checkpoint_interval",
        "mean_time_between_preemptions",
        "checkpoint_interval_seconds",
    }
)
# Those of them that every step has, whether or not it trains.
OF_TOPOLOGY = frozenset(
    {"world_size", "data_parallel_size", "tensor_parallel_size", "pipeline_parallel_size"}
)
FRACTIONS = frozenset(
    {
        "learning_rate",
        "reference_learning_rate",
        "warmup_epochs",
        "epochs",
        "kappa",
        "gpus_per_instance",
        "mean_time_between_preemptions",
        "checkpoint_interval_seconds",
    }
)
TEXTS = frozenset({"launcher", "instance_type", "optimizer", "rule", "strategy", "checkpoint_interval"})


class Work(Struct):
    """The state of one resolution; ``plan`` is None where planning failed and its values are unknown."""

    spec: Spec
    components: dict[str, Component | None]
    plan: Plan | None
    files: Files = field(default_factory=Files)  # what may be read and copied
    problems: list[Problem] = field(default_factory=list)
    arguments: dict[str, dict[str, Field[Argument]]] = field(default_factory=dict)
    templates: dict[str, dict[str, str]] = field(
        default_factory=dict
    )  # step -> input -> text with ${{plan.…}}
    _makers: dict[str, list[str]] = field(default_factory=dict)
    _open: dict[int, tuple[Mapping[str, Port], list[Port]]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The spec's folder, which its relative paths start at."""
        return self.spec.path.parent

    def report(
        self, slug: str, span: Span, message: str, help_: str | None = None, *related: Related
    ) -> None:
        """Add a problem."""
        self.problems.append(Problem(slug, span, message, help_, related))

    def ports(self, step: str) -> Mapping[str, Port]:
        """The inputs that a step's component declares; none where it cannot be seen."""
        component = self.components.get(step)
        return component.inputs if component else {}

    def open_ports(self, step: str) -> list[Port]:
        """The data inputs of a step's component that need a value; worked out once a component."""
        ports = self.ports(step)
        if id(ports) not in self._open:  # the ports are kept, so that their id stays their own
            needed = [
                each for each in ports.values() if each.is_data and not each.optional and each.default is None
            ]
            self._open[id(ports)] = (ports, needed)
        return self._open[id(ports)][1]

    def outputs(self, step: str) -> Mapping[str, Port] | None:
        """The outputs that a step's component declares; None where it cannot be seen."""
        component = self.components.get(step)
        return component.outputs if component else None

    def makers(self) -> Mapping[str, list[str]]:
        """The steps that have an output of each name, in the order of the file."""
        if not self._makers:
            for step in self.spec.steps:
                for name in self.outputs(step) or {}:
                    self._makers.setdefault(name, []).append(step)
        return self._makers

    def unreadable(self, step: str) -> bool:
        """Whether a step's component should lie here but could not be read: its ports are unknown."""
        uses = self.spec.steps[step].uses
        return self.components.get(step) is None and (uses is None or classify(uses.value) == "local")

    def sources(self, step: str) -> dict[str, tuple[str, Span | None]]:
        """The steps that a step reads from, each with the place that says so."""
        found: dict[str, tuple[str, Span | None]] = {}
        for name, argument in self.arguments.get(step, {}).items():
            value = argument.value
            if isinstance(value, Binding) and value.expression.step:
                found.setdefault(value.expression.step, (name, argument.span))
        return found


def part_span(located: Located[Any], start: int, end: int) -> Span:
    """The place of ``text[start:end]`` of a value."""
    return located.node.subspan(start, end) if isinstance(located.node, Scalar) else located.span
