"""Lightning logs the mean over all processes only where `sync_dist` asks for it."""

from __future__ import annotations

import ast

from worldsize.adopting.distributing.first_rank import is_own_method
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer
from worldsize.scripts.bindings import Scope
from worldsize.scripts.module import constant_value, keyword_argument

_EVALUATES = ("validation", "test", "on_validation", "on_test")
_TRAINS = ("training_step",)
_ENDS = ("on_train_epoch", "training_epoch_end")  # where Lightning logs the mean of an epoch too
_REASON = "the metric is of the rows of all processes"


def sync_metrics(script: Script, tracer: Tracer) -> None:
    """Let what is logged of an epoch be the mean over all processes: callbacks and schedules read it."""
    for call in script.module.called("log", "log_dict"):
        last = script.written(call.func).removeprefix("self.")
        given = [keyword_argument(call, "sync_dist"), keyword_argument(call, "rank_zero_only")]
        own = last not in ("log", "log_dict") or is_own_method(script, call, last)
        if own or any(given) or _is_synced(script, tracer, call):
            continue
        text = _choose(tracer, call)
        if text is not None:
            script.set_keyword(call, "sync_dist", text, None, _REASON)


def _choose(tracer: Tracer, call: ast.Call) -> str | None:
    """What `sync_dist` is to be: where both steps log by one method, training goes on without a mean."""
    given = constant_value(keyword_argument(call, "on_epoch"))
    if given is not None:
        return "True" if given else None
    hooks = set(_list_hooks(tracer, tracer.script.scope(call), set()))
    if hooks and all(each.startswith((*_EVALUATES, *_ENDS)) for each in hooks):
        return "True"
    return "not self.training" if any(each.startswith(_EVALUATES) for each in hooks) else None


def _list_hooks(tracer: Tracer, scope: Scope, seen: set[Scope]) -> list[str]:
    """The methods that Lightning calls from which a method is reached."""
    if isinstance(scope, ast.Module) or scope in seen:
        return []
    seen.add(scope)
    if scope.name.startswith((*_EVALUATES, *_ENDS, *_TRAINS)):
        return [scope.name]
    callers = [tracer.script.scope(each) for each in tracer.calls(scope)]
    return [hook for each in callers for hook in _list_hooks(tracer, each, seen)]


def _is_synced(script: Script, tracer: Tracer, call: ast.Call) -> bool:
    """Whether a metric of torchmetrics is logged, which is computed over all processes anyway."""
    at = 1 if script.written(call.func).endswith(".log") else 0
    value = keyword_argument(call, "value" if at else "dictionary")
    value = value or (call.args[at] if len(call.args) > at else None)
    if value is None:
        return False
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "compute":
        return True
    made, _ = tracer.follow(value, script.scope(call))
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr == "clone":
        made, _ = tracer.follow(made.func.value, script.scope(made))
    return isinstance(made, ast.Call) and script.module.name_of(made.func).startswith("torchmetrics.")
