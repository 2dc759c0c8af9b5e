"""What a sharding step is to read, judged before anything runs as the step itself would judge it."""

from __future__ import annotations

from worldsize.azureml.model import Component
from worldsize.base.suggest import did_you_mean
from worldsize.planning.memory.workload import is_sharding
from worldsize.resolving.state import ResolveState
from wssources import planned_rows

PREFIX = "builtin:"


def check_shard_source(state: ResolveState, step: str) -> None:
    """Report a source that is not a built-in data set, or a path without `data`."""
    component = state.components.get(step)
    if not is_sharding(component) or component is None:
        return
    located = state.spec.steps[step].with_.get("source")
    default = component.inputs["source"].default if "source" in component.inputs else None
    source = located.value if located is not None else default.value if default is not None else None
    if not isinstance(source, str) or "${{" in source or source in planned_rows.SOURCES:
        return
    uses = state.spec.steps[step].uses
    span = located.span if located is not None else uses.span if uses is not None else state.spec.span
    listed = " or ".join(f"`source: {name}`" for name in planned_rows.SOURCES)
    if source.startswith(PREFIX):
        message = f"there is no built-in data set `{source}`"
        state.report("input-not-in-enum", span, message, did_you_mean(source, planned_rows.SOURCES))
    elif "data" not in state.arguments[step] and not _has_unknown(state, step, component):
        what = f"the path `{source}` inside `data`" if located is not None else "all of `data`"
        message = f"step `{step}` reads {what}, but no `data` is given"
        state.report("input-missing", span, message, f"give a file or folder as `data:`, or write {listed}")


def _has_unknown(state: ResolveState, step: str, component: Component) -> bool:
    """Whether an input is misspelt, perhaps the one that is missed here: one report is enough then."""
    return any(name not in component.inputs for name in state.spec.steps[step].with_)
