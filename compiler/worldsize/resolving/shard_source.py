"""What a sharding step is to read, judged before anything runs as the step itself would judge it."""

from __future__ import annotations

from worldsize.azureml.model import Component
from worldsize.base.suggest import did_you_mean
from worldsize.emit.work import Work
from wssources import planned_rows

PREFIX = "builtin:"


def check_shard_source(state: ResolveState, step: str) -> None:
    """Report a source that is no built-in data set, or that lies in data which is not given."""
    component = state.components.get(step)
    if not is_sharding(component) or component is None:
        return
    given = state.spec.steps[step].with_.get("source")
    default = component.inputs["source"].default if "source" in component.inputs else None
    source = given.value if given is not None else default.value if default is not None else None
    if not isinstance(source, str) or "${{" in source or source in planned_rows.SOURCES:
        return
    uses = work.spec.steps[step].uses
    span = given.span if given is not None else uses.span if uses is not None else work.spec.span
    listed = " or ".join(f"`source: {name}`" for name in planned_rows.SOURCES)
    if source.startswith(PREFIX):
        message = f"there is no built-in data set `{source}`"
        work.report("input-not-in-enum", span, message, did_you_mean(source, planned_rows.SOURCES))
    elif "data" not in work.arguments[step] and not _has_unknown(work, step, component):
        what = f"the path `{source}` inside `data`" if given is not None else "all of `data`"
        message = f"step `{step}` reads {what}, but no `data` is given"
        state.report("input-missing", span, message, f"give a file or folder as `data:`, or write {listed}")


def _has_unknown(state: ResolveState, step: str, component: Component) -> bool:
    """Whether an input is misspelt, perhaps the one that is missed here: one report is enough then."""
    return any(name not in component.inputs for name in state.spec.steps[step].with_)
