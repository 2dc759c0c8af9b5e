"""What several rules of the graph ask: the bindings of a pipeline, and what they name.

A graph may hold values that were not written, such as the inputs that a spec's steps get by their name or
from the plan. These have no place in a file and cannot be wrong, so rules look at written values only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from collections.abc import Mapping as MappingType
from typing import Any

from msgspec import Struct

from worldsize.azureml import graph, literals
from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Argument, Binding, Component, Data, Field, Job, Literal, Port, Step
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Fix
from worldsize.base.span import NOWHERE, Span
from worldsize.base.suggest import closest
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, find_node, list_entries, list_items

LITERAL_TYPES = frozenset(literals.PRIMITIVES)


class Wire(Struct, frozen=True):
    """An input of a step that is bound."""

    step: Step
    name: str
    expression: Expression
    node: Scalar  # the text of the binding

    def part(self, index: int) -> Span:
        """The place of one dotted part."""
        return self.node.subspan(*self.expression.part_range(index))

    @property
    def port(self) -> Port | None:
        """The declared port; None if the component is unknown or lacks it."""
        return self.step.component.inputs.get(self.name) if self.step.component else None


def find_wires(context: Tree, job: Job) -> list[Wire]:
    """The bound inputs of all steps of a pipeline, as far as they were written."""
    return context.all_of(_find_wires, job)


def _find_wires(_context: Tree, job: Job) -> Iterator[Wire]:
    if job.type != "pipeline":
        return
    for step in job.steps.values():
        for name, field in step.inputs.items():
            if isinstance(field.value, Binding):
                node = text_node(field.node)
                if node is not None:
                    yield Wire(step, name, field.value.expression, node)


def text_node(node: Node | None) -> Scalar | None:
    """The scalar that holds a binding: the value itself or its ``path``."""
    if isinstance(node, Mapping):
        inner = node.get("path")
        return text_node(node.get("value") if inner is None else inner)
    return node if isinstance(node, Scalar) else None


_DECLARING = frozenset({"command", "pipeline", "parallel", "sweep", "spark", "import", "data_transfer"})


def declared_component(step: Step) -> Component | None:
    """The component of a step, if it declares its own ports; a prompt flow does not."""
    component = step.component
    if component is None or graph.is_inline(step) or component.type.lower() not in _DECLARING:
        return None
    return component


def known_ports(step: Step, side: str) -> dict[str, Port] | None:
    """The inputs or outputs of a step by name; None if unknown."""
    if step.component is None or not (graph.is_inline(step) or declared_component(step)):
        return None
    ports = dict(step.component.inputs if side == "inputs" else step.component.outputs)
    if side == "outputs":  # every job has it: the folder with its ./outputs and ./logs
        ports.setdefault("artifacts", Port("artifacts", "uri_folder"))
    if side == "inputs":
        ports |= {name: ports.get(name, Port(name, "open")) for name in searched_inputs(step)}
    return ports


def list_searched(step: Step) -> list[tuple[Scalar, Node]]:
    """The inputs that a sweep gives its trials, each with its entry in the search space."""
    return list_entries(find_node(step.raw, "search_space")) if step.type == "sweep" else []


def searched_inputs(step: Step) -> tuple[str, ...]:
    """The names of the inputs that a sweep gives its trials."""
    return tuple(key.text for key, _ in list_searched(step))


def pipeline_inputs(job: Job) -> dict[str, str]:
    """The inputs of a pipeline with their types; those of a pipeline component as it declares them."""
    if job.interface is not None:
        return {name: port.type for name, port in job.interface.inputs.items()}
    return {name: _type(field) for name, field in job.inputs.items()}


def _type(field: Field[Any]) -> str:
    value = field.value
    if isinstance(value, Literal):
        return "open" if isinstance(value.value, (dict, list)) else literals.primitive_type(value.value)
    if isinstance(value, Data):
        return (value.type or "uri_folder").lower()
    return "open"


def port_finder(names: Collection[str]) -> Callable[[str], bool]:
    """A test of whether a port exists; a group counts for its members, and they for the group."""
    ordered = sorted(names)

    def has(name: str) -> bool:
        if name in names or name.split(".", maxsplit=1)[0] in names:
            return True
        members = bisect_left(ordered, f"{name}.")
        return members < len(ordered) and ordered[members].startswith(f"{name}.")

    return has


def source_type(job: Job, expression: Expression) -> str | None:
    """The type of the port that an expression names; None if unknown."""
    if expression.scope == "parent.inputs":
        declared = pipeline_inputs(job).get(expression.port or "")
        return None if declared == "open" else declared
    step = job.steps.get(expression.step or "")
    if step is None or expression.side is None:
        return None
    port = (known_ports(step, expression.side) or {}).get(expression.port or "")
    return None if port is None or port.type == "open" else port.type


def find_arguments(job: Job) -> Iterator[tuple[Step, str, Field[Argument], Port]]:
    """The values in the files for inputs that a component declares."""
    if job.type != "pipeline":
        return
    for step in job.steps.values():
        component = declared_component(step)
        if component is not None:
            for name, field in step.inputs.items():
                port = component.inputs.get(name)
                if port is not None and field.span is not None:
                    yield step, name, field, port
            for name, value in _find_choices(step):
                if (port := component.inputs.get(name)) is not None:
                    yield step, name, value, port


def _find_choices(step: Step) -> Iterator[tuple[str, Field[Argument]]]:
    """The values from which a sweep chooses one for every trial."""
    for key, entry in list_searched(step):
        for item in list_items(find_node(entry, "values")):
            if isinstance(item, Scalar):
                yield key.text, Field(Literal(item.value), item.span, key.span, item)


def span_of(field: Field[Any] | None) -> Span:
    """Where a field stands."""
    return (field.span if field is not None else None) or NOWHERE


def find_unknown_names(
    arguments: MappingType[str, Field[Any]], names: Collection[str]
) -> Iterator[tuple[str, Span, Fix | None]]:
    """The inputs or outputs of a step that do not exist, with their places and fixes."""
    has = port_finder(names)
    for name, field in arguments.items():
        if not has(name):
            span = field.key_span or span_of(field)
            yield name, span, suggest_fix(span, name, names)


def suggest_fix(span: Span, word: str, names: Collection[str]) -> Fix | None:
    """The fix that replaces a mistyped name by the most similar one."""
    near = closest(word, names)
    return None if near is None else Fix(span, near, safe=False)


def find_unbound_texts(job: Job) -> Iterator[Scalar]:
    """The texts of inputs and outputs of steps that are not whole bindings."""
    if job.type != "pipeline":
        return
    for step in job.steps.values():
        nodes = [field.node for field in step.inputs.values() if isinstance(field.value, (Literal, Data))]
        nodes += [setting.node for setting in step.outputs.values() if setting.value.path is not None]
        yield from (text for text in map(text_node, nodes) if text is not None)


def list_output_paths(job: Job) -> list[tuple[str, Scalar]]:
    """The paths that outputs of steps are written to, each with the name of its step."""
    return [
        (step.name, path.node)
        for step in job.steps.values()
        for setting in step.outputs.values()
        if (path := setting.value.path) is not None and isinstance(path.node, Scalar)
    ]
