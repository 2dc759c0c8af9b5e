"""Search spaces of sweeps: without values, continuous although the sampling is a grid, or of no input."""

from __future__ import annotations

import math
from collections.abc import Iterator

from worldsize.azureml import binding, literals
from worldsize.azureml.fields import read_command
from worldsize.azureml.model import Component, Step
from worldsize.azureml.references import list_names, local_path
from worldsize.azureml.sweep import find_algorithm, list_values
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Problem
from worldsize.base.suggest import did_you_mean
from worldsize.documents.yaml.load import to_python
from worldsize.documents.yaml.nodes import Mapping, Scalar, Sequence, find_node, list_entries
from worldsize.rules.graph._common import declared_component, list_searched, port_finder, suggest_fix

_LARGEST_LOGARITHM = 30  # exp(30) is 1e13


def check_step(context: Tree, step: Step) -> Iterator[Problem]:
    is_grid = step.type == "sweep" and _samples_grid(step)
    for key, entry in list_entries(find_node(step.raw, "search_space")):
        if isinstance(entry, Mapping):
            yield from _check_bounds(key, entry)
            yield from _check_single(key, entry)
            yield from _check_choice(key, entry, is_grid=is_grid)
    yield from _check_keys(context, step, [key for key, _ in list_searched(step)])


def _check_keys(context: Tree, step: Step, keys: list[Scalar]) -> Iterator[Problem]:
    """Report parameters of the search that reach no trial."""
    component, command = step.component, read_command(step.component)
    if component is None or not command or "search_space.*" in command:
        return
    used = {expression.port for expression in binding.find_expressions(command)}
    for key in keys:
        name, is_declared = key.text, declared_component(step) is not None
        if is_declared and not port_finder(component.inputs)(name):
            trial = step.reference.value if step.reference else step.name
            message = f"the trial `{trial}` has no input `{name}`"
            help_ = did_you_mean(name, component.inputs) or f"declare the input `{name}` in the component"
            fix = suggest_fix(key.span, name, component.inputs)
            yield Problem("search-space-key-unknown", key.span, message, help_, fix=fix)
        elif not is_declared and name not in used and not _reads_variables(context, component):
            expression, without = f"${{{{search_space.{name}}}}}", f"{{search_space.{name}}}"
            message = f"no trial gets `{name}`: the command does not have `{expression}`"
            help_ = f"pass it: `--{name} {expression}`"
            if without in command:
                help_ = f"write `{expression}` in place of `{without}`"
            yield Problem("search-space-key-unused", key.span, message, help_)


def _reads_variables(context: Tree, component: Component) -> bool:
    """Whether code that is uploaded may read the values from the environment, or cannot be read."""
    code = component.code.value if component.code is not None else None
    path = local_path(code, component.folder) if isinstance(code, str) and component.folder else None
    names = [name for name in list_names(path) if name.endswith((".py", ".sh", ".R"))] if path else []
    texts = [context.text(path / name) for name in names] if path is not None else []
    return code is not None and any(text is None or "AZUREML_" in text.text for text in texts or [None])


def _samples_grid(step: Step) -> bool:
    name = find_algorithm(find_node(step.raw, "sampling_algorithm"))
    return name is not None and name.text.lower() == "grid"


def _check_bounds(key: Scalar, entry: Mapping) -> Iterator[Problem]:
    low, high = entry.get("min_value"), entry.get("max_value")
    if not isinstance(low, Scalar) or not isinstance(high, Scalar):
        return
    lower, upper = literals.parse_number(low.value), literals.parse_number(high.value)
    if lower is None or upper is None:
        return
    if lower > upper:
        message = f"`{key.text}` has `min_value` {low.text} above `max_value` {high.text}"
        yield Problem("search-space-empty", low.span, message, "swap the two bounds")
    kind = entry.get("type")
    is_logarithm = isinstance(kind, Scalar) and kind.text.lower() in ("loguniform", "qloguniform")
    # Positive bounds are those of the values where the logarithms of the drawn ones span less than one unit
    # below e, or reach numbers that no parameter has.
    if is_logarithm and 0 < lower < upper and (upper <= 1 or upper > _LARGEST_LOGARITHM):
        drawn = f"{math.exp(lower):.6g} and {math.exp(upper):.6g}" if upper < 700 else "1e304 and more"
        bounds = f"`min_value: {math.log(lower):.4g}` and `max_value: {math.log(upper):.4g}`"
        message = f"`{key.text}` is drawn between {drawn}: the bounds are logarithms"
        help_ = f"for values from {low.text} to {high.text} write {bounds}"
        yield Problem("bounds-not-logarithms", low.span, message, help_)


def _check_single(key: Scalar, entry: Mapping) -> Iterator[Problem]:
    """Report a distribution that draws one value only; a choice of one says so itself."""
    distribution, kind = to_python(entry), entry.get("type")
    if not isinstance(kind, Scalar) or kind.text.lower() not in ("randint", "quniform"):
        return
    try:
        values = list_values({**distribution, "type": kind.text.lower()})
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return
    if values is not None and len(values) == 1:
        message = f"every trial gets `{key.text}` = {values[0]}"
        help_ = (
            "raise `upper`: it is not drawn itself" if "upper" in entry else "lower `q`, or widen the bounds"
        )
        yield Problem("search-space-single", key.span, message, help_)


def _check_choice(key: Scalar, entry: Mapping, *, is_grid: bool) -> Iterator[Problem]:
    kind, values = entry.get("type"), entry.get("values")
    if not isinstance(kind, Scalar):
        return
    if kind.text.lower() == "choice":
        if values is None or (isinstance(values, Sequence) and not values.items):
            message = f"choice `{key.text}` has no `values`, so there is nothing to try"
            span = (values or kind).span
            yield Problem("search-space-empty", span, message, "list them, such as `values: [16, 32]`")
    elif is_grid and isinstance(kind.value, str):
        message = f"grid sampling tries every value, but `{key.text}` is `{kind.text}`"
        help_ = "write `type: choice` with `values:`, or `sampling_algorithm: random`"
        yield Problem("grid-needs-choice", kind.span, message, help_)
