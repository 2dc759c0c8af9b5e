"""Reads inputs, strategy and degrees of a step, and finds the spans to report them at.

The settings of a training besides its batches (optimizer, betas, epochs) are under ``scale:`` for the user's
own scripts, under ``with:`` for components, or component defaults.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from worldsize.azureml import literals
from worldsize.base.problem import Related, relate
from worldsize.base.span import Span
from worldsize.base.wording import show_number
from worldsize.facts import optimizers
from worldsize.facts.optimizers import Optimizer
from worldsize.planning.model import Interface, Notes, Topology
from worldsize.spec.model import Located, Scale, Step


def parse_count(value: Any) -> int | None:
    """The whole number from 1 on that a literal stands for; None for another value."""
    number = literals.parse_number(value)
    return int(number) if number is not None and number >= 1 and number == int(number) else None


class Setting(Struct, frozen=True):
    """A value, its span, and its source for the table."""

    value: Any
    span: Span
    source: str


class Settings(Struct, frozen=True):
    """What a step and its component say of a step, its topology so far, and where its problems go."""

    step: Step
    interface: Interface | None
    topology: Topology
    notes: Notes

    @property
    def scale(self) -> Scale:
        """``scale:`` of a step that trains."""
        assert self.step.scale is not None
        return self.step.scale

    @property
    def has_built_in_models(self) -> bool:
        """Whether the component is one of the built-in trainers, whose inputs are known."""
        return self.interface is not None and "gpt_heads" in self.interface.inputs

    @property
    def trains_gpt(self) -> bool:
        """Whether the step trains the built-in gpt, whose heads, width and layers are inputs."""
        return self.has_built_in_models and self.read("model") == "gpt"

    @property
    def strategy(self) -> Any:
        """The strategy that the degrees decide, else that of the step or of its component."""
        return self.topology.strategy or self.read("strategy")

    def offers(self, name: str) -> bool:
        """Whether the component has an input."""
        return self.interface is not None and name in self.interface.inputs

    def read(self, name: str) -> Any:
        """The value of an input in the step, else the component's default; None if there is neither."""
        setting = self.step.with_.get(name)
        if setting is not None:
            return setting.value
        return self.interface.inputs.get(name) if self.interface is not None else None

    def count(self, name: str) -> int | None:
        """An input that counts something, at least 1; None if it is unknown or not such a number."""
        return parse_count(self.read(name))

    def span_of(self, name: str) -> Span:
        """The span of an input, else of the component's name, whose default applies."""
        return (self.step.with_.get(name) or self.step.uses or self.step).span

    def relate(self, name: str) -> tuple[Related, ...]:
        """The place of an input that the step gives."""
        return relate(self.step.with_[name].span if name in self.step.with_ else None, f"`{name}`")

    def named_strategy(self) -> Located[Any] | None:
        """The strategy that the step names; None if it names none or binds it."""
        setting = self.step.with_.get("strategy")
        named = setting is not None and isinstance(setting.value, str) and "${{" not in setting.value
        return setting if named else None

    def pinned_degree(self, name: str) -> Located[int] | None:
        """A degree as the step pins it, by its name under ``parallelism:``."""
        degree: Located[int] | None = getattr(self.step.parallelism, name, None)
        return degree

    def degree_span(self, name: str) -> Span:
        """The span of a degree: where it is pinned, else what it is derived from."""
        pinned = self.pinned_degree(name) or self.named_strategy()
        return (pinned or self.step.parallelism or self.step).span

    def refuse(self, name: str, message: str, help_: str, *related: Related) -> None:
        """Report an input that the trainer refuses."""
        self.notes.report("strategy-option-refused", self.span_of(name), message, help_, *related)

    def report_useless(self, name: str, message: str, help_: str) -> None:
        """Report an input of the step that has no effect."""
        self.notes.report("option-without-effect", self.step.with_[name].span, message, help_)

    def find(self, name: str) -> Setting | None:
        """A setting by the name it has in ``scale:`` and as an input."""
        scaled: Located[Any] | None = getattr(self.scale, name, None)
        if scaled is not None:
            return Setting(scaled.value, scaled.span, f"given as {self.step.name}.scale.{name}")
        setting = self.step.with_.get(name)
        if setting is not None:
            return Setting(setting.value, setting.span, f"given as {self.step.name}.with.{name}")
        default = self.interface.inputs.get(name) if self.interface else None
        if default is None:
            return None
        declared = self.step.uses or self.step.command
        source = f"default of {declared.value}" if self.step.uses and declared else "default"
        return Setting(default, declared.span if declared else self.step.span, source)

    def number(self, name: str) -> tuple[float, str] | None:
        """A setting that is a number, and its source; other rules report other values."""
        setting = self.find(name)
        value = literals.parse_number(setting.value) if setting else None
        return None if setting is None or value is None else (float(value), setting.source)

    def optimizer(self) -> tuple[str | None, Optimizer | None]:
        """The optimizer's name as given, and the facts about it."""
        setting = self.find("optimizer")
        if setting is None or not isinstance(setting.value, str) or "${{" in setting.value:
            return None, None
        return setting.value, optimizers.lookup(setting.value)


_TOLD_TWICE = ("optimizer", "beta1", "beta2", "epsilon", "epochs")


def verify_settings(settings: Settings) -> None:
    """Report settings with different values under ``scale:`` and in the component's inputs."""
    defaults = settings.interface.inputs if settings.interface is not None else {}
    for name in _TOLD_TWICE:
        scaled: Located[Any] | None = getattr(settings.scale, name)
        setting = settings.step.with_.get(name)
        # `epochs` left open is filled from the plan; the others are not.
        value = setting.value if setting is not None else defaults.get(name) if name != "epochs" else None
        if scaled is None or (setting is None and value is None) or _agree(scaled.value, value):
            continue
        here, where = show_number(scaled.value), "by default" if setting is None else "under `with:`"
        message = f"`{name}` is {here} under `scale:` but {show_number(value)} {where}"
        help_ = f"give it once: write `{name}: {here}` under `with:` and remove it here"
        related = () if setting is None else (Related(setting.span, "the component's input"),)
        settings.notes.report("scale-disagrees-with-input", scaled.span, message, help_, *related)


def _agree(left: Any, right: Any) -> bool:
    if isinstance(right, str) and "${{" in right:
        return True
    first, second = literals.parse_number(left), literals.parse_number(right)
    if first is not None and second is not None:
        return first == second
    return str(left).lower() == str(right).lower()
