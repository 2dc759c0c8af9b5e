"""The ``inputs:`` of a spec: their types and defaults, and the values that steps take from them.

``${{parent.inputs.x}}`` under ``with:`` stays a binding in the compiled pipeline. Elsewhere in a step, such
as ``scale:`` and ``when:``, Azure ML has no bindings, or the plan is made with the number. There the default
takes the place of the expression before the spec is validated, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml import literals
from worldsize.azureml.binding import Expression, find_expressions, parse_expression
from worldsize.azureml.model import Port
from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.documents.yaml.nodes import Mapping as MappingNode
from worldsize.documents.yaml.nodes import Node, Scalar, Sequence, list_entries
from worldsize.spec.model import Located, PipelineInput, Spec

# Parts of a step whose expressions are read elsewhere: they stay bindings, or become inputs of the command.
_KEPT = frozenset({"with", "command", "environment_variables", "environment", "outputs", "uses", "code"})


class Fixed(Struct, frozen=True):
    """An expression that the default of an input has replaced."""

    name: str  # of the input
    key: str  # of the value: `learning_rate`
    span: Span  # of the expression
    value: Any


def is_pipeline_input(expression: Expression | None) -> bool:
    """Whether an expression names an input of the pipeline."""
    return expression is not None and expression.scope == "parent.inputs" and expression.port is not None


def find_bound_inputs(text: object) -> Iterator[Expression]:
    """The ``${{parent.inputs.x}}`` of a text."""
    if isinstance(text, str) and "parent.inputs" in text:
        yield from (expression for expression in find_expressions(text) if is_pipeline_input(expression))


def check_inputs(spec: Spec) -> Iterator[Problem]:
    """Report inputs without a value, of another type than they declare, or of a key for the other kind."""
    for declared in spec.inputs.values():
        key = "path" if declared.is_data else "default"
        if declared.value is None:
            if declared.optional is None or not declared.optional.value:
                message = (
                    f"input `{declared.name}` has no `{key}`, and Azure ML starts no pipeline without it"
                )
                help_ = f"add `{key}:`, which a run may override; `optional: true` is for what no step needs"
                yield Problem("pipeline-input-without-value", declared.span, message, help_)
            continue
        other = declared.value_key
        if other not in ("", key):
            message = f"input `{declared.name}` is of type {declared.type}, so its value is not a `{other}`"
            yield Problem("input-type", declared.value.key_span, message, f"write `{key}:`")
        elif not declared.is_data:
            wrong = literals.check_value(
                declared.name, declared.value.value, Port(declared.name, declared.type), declared.value.span
            )
            yield from [wrong] if wrong is not None else []
    yield from _check_schedule(spec)


def _check_schedule(spec: Spec) -> Iterator[Problem]:
    for name, located in (spec.schedule.inputs if spec.schedule is not None else {}).items():
        declared = spec.inputs.get(name)
        if declared is None:
            message = f"the scheduled pipeline has no input `{name}`"
            help_ = did_you_mean(name, spec.inputs) or f"declare `{name}` under `inputs:` of the spec"
            yield Problem("schedule-input-unknown", located.key_span, message, help_)
        elif not declared.is_data:
            # `epochs: 3` may feed an input that is a number.
            loose = not declared.value_key and declared.type == "integer"
            port = Port(name, "number" if loose else declared.type)
            wrong = literals.check_value(name, located.value, port, located.span)
            if wrong is not None:
                yield replace(wrong, related=(Related(declared.span, "the input is declared here"),))


def fill_defaults(root: MappingNode) -> tuple[MappingNode, list[Fixed], list[Problem]]:
    """Replace the expressions of steps that are fixed when the spec is compiled by the defaults of inputs.

    Returns:
        The tree, what was replaced, and the problems of expressions that name no input.
    """
    steps = root.get("steps")
    if not isinstance(steps, MappingNode) or "parent.inputs" not in root.source.text:
        return root, [], []
    defaults: dict[str, Any] = {}
    for key, node in list_entries(root.get("inputs")):
        value = node.get("default") if isinstance(node, MappingNode) else node
        defaults[key.text] = value.value if isinstance(value, Scalar) else None
    filler = _Filler(defaults, [], [])
    filled = [
        (key, filler.fill_step(step) if isinstance(step, MappingNode) else step)
        for key, step in steps.entries
    ]
    if not filler.fixed:
        return root, [], filler.problems
    entries = [(key, _copy(steps, filled) if node is steps else node) for key, node in root.entries]
    return _copy(root, entries), filler.fixed, filler.problems


class _Filler(Struct):
    defaults: Mapping[str, Any]
    fixed: list[Fixed]
    problems: list[Problem]

    def fill_step(self, step: MappingNode) -> MappingNode:
        entries = [
            (key, node if key.text in _KEPT else self._fill(node, key.text)) for key, node in step.entries
        ]
        return _copy(step, entries)

    def _fill(self, node: Node, key: str) -> Node:
        if isinstance(node, MappingNode):
            return _copy(node, [(name, self._fill(inner, name.text)) for name, inner in node.entries])
        if isinstance(node, Sequence):
            items = [self._fill(item, key) for item in node.items]
            return Sequence(node.source, node.start, node.end, items, node.flow)
        return self._fill_scalar(node, key)

    def _fill_scalar(self, node: Scalar, key: str) -> Scalar:
        value: Any = node.value
        for expression in reversed(list(find_bound_inputs(value))):
            name = expression.port or ""
            default = self.defaults.get(name)
            if default is None:
                self._report(node, expression, name)
                return node
            self.fixed.append(Fixed(name, key, node.subspan(expression.start, expression.end), default))
            whole = expression.start == 0 and expression.end == len(node.text)
            text = literals.render_literal(default)
            value = default if whole else f"{value[: expression.start]}{text}{value[expression.end :]}"
        if value is node.value:
            return node
        shown = literals.render_literal(value)
        return Scalar(node.source, node.start, node.end, shown, node.style, node.tag, [], value)

    def _report(self, node: Scalar, expression: Expression, name: str) -> None:
        if name in self.defaults:
            span = node.subspan(expression.start, expression.end)
            message = f"`{name}` has no default, and this is fixed when the spec is compiled"
            self.problems.append(
                Problem("pipeline-input-without-value", span, message, f"give `{name}` a `default:`")
            )
            return
        span = node.subspan(*expression.part_range(2))
        self.problems.append(report_unknown(name, span, self.defaults))


def report_unknown(name: str, span: Span, inputs: Mapping[str, Any]) -> Problem:
    """The problem of an expression that names no input of the pipeline."""
    help_ = f"declare `{name}` under `inputs:` of the pipeline"
    if meant := did_you_mean(name, inputs):
        help_ = meant if meant.startswith("did") else f"{meant}; else {help_}"
    return Problem("pipeline-input-unknown", span, f"the pipeline has no input `{name}`", help_)


def _copy(node: MappingNode, entries: list[tuple[Scalar, Node]]) -> MappingNode:
    return MappingNode(node.source, node.start, node.end, entries, node.flow)


def report_fixed(fixed: list[Fixed]) -> Iterator[Problem]:
    """Warn of values that a later value of an input does not change."""
    for replaced in fixed:
        shown = literals.render_literal(replaced.value)
        message = f"the plan is made with `{replaced.key}` {shown}, the default of input `{replaced.name}`"
        help_ = (
            "another value given at submit does not change the plan; compile with"
            f" `--set inputs.{replaced.name}=…` instead"
        )
        yield Problem("plan-follows-default", replaced.span, message, help_)


# Inputs of a training component that decide the rule of the learning rate or what the processes share.
_DECISIVE = ("optimizer", "reduction", "strategy")


def find_decisive(spec: Spec) -> Iterator[Fixed]:
    """The bound inputs of planned steps that the plan depends on, although they may change at submit."""
    for step in spec.steps.values() if spec.inputs else ():
        for name in _DECISIVE if step.scale is not None else ():
            located = step.with_.get(name)
            expression = parse_expression(located.value) if located is not None else None
            source = spec.inputs.get(expression.port or "") if expression else None
            if located is not None and source is not None and source.value is not None:
                yield Fixed(source.name, name, located.span, source.value.value)


def plan_with_defaults(spec: Spec) -> Spec:
    """A spec whose ``with:`` has defaults in place of bindings; the nodes stay those of the bindings."""
    if not spec.inputs:
        return spec
    steps = {
        step.name: replace(
            step, with_={name: _default(value, spec.inputs) for name, value in step.with_.items()}
        )
        for step in spec.steps.values()
    }
    return replace(spec, steps=steps)


def _default(located: Located[Any], inputs: Mapping[str, PipelineInput]) -> Located[Any]:
    text = located.value.get("path") if isinstance(located.value, dict) else located.value
    expression = parse_expression(text)
    source = inputs.get(expression.port or "") if expression and is_pipeline_input(expression) else None
    if source is None or source.value is None:
        return located
    value = {"type": source.type, "path": source.value.value} if source.is_data else source.value.value
    return replace(located, value=value)
