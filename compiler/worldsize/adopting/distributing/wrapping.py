"""Train through `DistributedDataParallel`; evaluation, saving and loading keep the model itself."""

from __future__ import annotations

import ast

from msgspec import Struct

from worldsize.adopting.source.script import Script
from worldsize.adopting.training.loops import is_without_gradient, without_gradient
from worldsize.adopting.training.search import Frame, Training, is_optimizer, refuse_second_call
from worldsize.scripts.bindings import Function, Scope, is_parameter, list_parameters
from worldsize.scripts.module import last_name

WRAP = "DistributedDataParallel"
_MOVES = ("to", "cuda", "load_state_dict", "apply", "half", "float", "double", "bfloat16", "requires_grad_")
_STATES = ("lr_scheduler", "GradScaler", "Scheduler", "LambdaLR", "StepLR", "CosineAnnealingLR", "OneCycleLR")
_OF_BOTH = frozenset(
    {"forward", "train", "eval", "parameters", "named_parameters", "zero_grad", "to", "cuda", "training"}
    | {"modules", "named_modules", "no_sync", "module", "device"}
)
_OF_MODEL = frozenset(
    {"state_dict", "load_state_dict", "named_buffers", "buffers", "children", "half", "cpu"} | _OF_BOTH
)
_ZEROS = frozenset(
    {"zeros", "zeros_like", "new_zeros", "ones", "randn", "new", "zero_", "to", "cuda", "cpu", "next"}
    | {"parameters", "size", "Variable", "device", "is_available", "tuple", "range"}
)
_REASON = "the gradients of all processes are averaged: training calls the wrapped model"


class Wrapped(Struct, eq=False):
    """Where the model is wrapped, and what its scope is."""

    name: str  # `ddp_model`, `self.ddp_model`
    model: str  # the model itself, there
    scope: Scope
    anchor: ast.stmt  # the wrap follows this statement
    parameters: dict[Function, str]  # the functions that get the wrapped model, with their name for it
    evaluated: set[ast.Call] = set()  # calls in loops over the rows of other loaders


def wrap_model(script: Script, training: Training) -> Wrapped:
    """Wrap the model after everything that makes, moves or loads it; call the wrapped one in training.

    Raises:
        AdoptError: No call of the model in the training loop, or one that would bypass the wrapped model.
    """
    model = script.written(training.model)
    scope, anchor = _find_anchor(script, training, model)
    last = model.rpartition(".")[2]
    name = script.new_name(f"ddp_{last}")
    wrapped = Wrapped(f"self.{name}" if training.is_attribute else name, model, scope, anchor, {})
    count = _pass_on(script, training, wrapped)
    if not count:
        call = training.backward
        help_ = f"call it there: `output = {model}(inputs)`"
        raise script.refuse(call, f"the loop of this `backward()` does not call `{model}` itself", help_)
    return wrapped


def write_wrap(script: Script, wrapped: Wrapped) -> None:
    """Write the line that wraps the model, behind what loads it."""
    script.insert_after(wrapped.anchor, [f"{wrapped.name} = {WRAP}({wrapped.model})"], "WS915", _REASON)


def _find_anchor(script: Script, training: Training, model: str) -> tuple[Scope, ast.stmt]:
    """The last statement that makes, moves or loads the model, or makes what follows its steps."""
    if training.model_frame is None:
        scope = _find_holder(script, training, model)
        use = None
    else:
        frames = training.frames
        number = training.model_frame
        scope = frames[number].scope if number < len(frames) else script.module.tree
        use = _find_use(script, training, number, scope)
    relevant = [
        node for node in _list_relevant(script, scope, model) if use is None or node.lineno < use.lineno
    ]
    if not relevant:
        help_ = "make and move it before the loop, in the function that trains"
        raise script.refuse(training.model, f"where `{model}` is made cannot be told", help_)
    bound = relevant[0]
    block = _common_block(script, bound, use) if use is not None else script.block(bound)
    tops = [top for node in relevant if (top := _climb(script, node, block)) is not None]
    anchor = max(tops, key=lambda statement: statement.lineno)
    if use is not None and (top := _climb(script, use, block)) is not None and anchor.lineno >= top.lineno:
        anchor = max(
            (one for one in tops if one.lineno < top.lineno),
            key=lambda one: one.lineno,
        )
    return scope, anchor


def _find_holder(script: Script, training: Training, model: str) -> Scope:
    """The method that sets ``self.model``; of several the one that makes the optimizer."""
    stores = (node for node in script.nodes(ast.Attribute) if isinstance(node.ctx, ast.Store))
    scopes = [script.scope(node) for node in stores if script.written(node) == model]
    optimizing = script.scope(training.optimizer)
    return optimizing if optimizing in scopes or not scopes else scopes[0]


def _find_use(script: Script, training: Training, number: int, scope: Scope) -> ast.stmt | None:
    """The statement of a scope in which the training lies."""
    if number >= len(training.frames):
        return None
    node: ast.AST = training.frames[number].call
    loops = [loop for loop in script.loops(node) if script.scope(loop) is scope]
    training_loops = (training.batch_loop, training.epoch_loop)
    outer = [loop for loop in loops if loop in training_loops]
    return script.statement(outer[-1] if outer else node)


def _list_relevant(script: Script, scope: Scope, model: str) -> list[ast.stmt]:
    """The statements of a scope that bind or move the model, or make an optimizer, scheduler or scaler."""
    statements = [
        node
        for kind in (ast.Assign, ast.AnnAssign, ast.Expr)
        for node in script.nodes(kind)
        if script.scope(node) is scope and _is_relevant(script, node, model)
    ]
    return sorted(statements, key=lambda node: node.lineno)


def _is_relevant(script: Script, node: ast.stmt, model: str) -> bool:
    value = getattr(node, "value", None)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = [part for target in targets for part in (getattr(target, "elts", None) or [target])]
        if any(script.written(part) == model for part in parts):
            return True
    if not isinstance(value, ast.Call):
        return False
    if (
        isinstance(value.func, ast.Attribute)
        and value.func.attr in _MOVES
        and script.written(value.func.value) == model
    ):
        return True
    name = script.module.name_of(value.func)
    return isinstance(node, ast.Assign) and (
        is_optimizer(script, value) or any(word in name for word in _STATES)
    )


def _common_block(script: Script, bound: ast.stmt, use: ast.stmt) -> list[ast.stmt]:
    """The innermost block that holds both."""
    for above in (bound, *(above for above, _ in script.module.ancestors(bound))):
        if isinstance(above, ast.stmt) and _climb(script, use, block := script.block(above)) is not None:
            return block
    message = "the model is made apart from where it is trained"
    raise script.refuse(bound, message, "make it in the same function")


def _climb(script: Script, node: ast.stmt, block: list[ast.stmt]) -> ast.stmt | None:
    """The statement of a block in which a node lies."""
    around = (node, *(above for above, _ in script.module.ancestors(node)))
    return next((above for above in around if isinstance(above, ast.stmt) and above in block), None)


def _pass_on(script: Script, training: Training, wrapped: Wrapped) -> int:
    """Use the wrapped model in training; the number of places that do."""
    frames, number = training.frames, training.model_frame
    if number is None or number >= len(frames):
        return _rename_calls(script, training, wrapped)
    name, bare = wrapped.model, False
    for frame, below in zip(reversed(frames[1 : number + 1]), reversed(frames[:number]), strict=True):
        function = below.scope
        assert not isinstance(function, ast.Module)
        parameter = _find_parameter(script, frame.call, function, name)
        if parameter is None:
            inside = script.is_under(function, wrapped.scope)
            if frame.scope is wrapped.scope and inside:  # it reads a global, or a variable around it
                return _rename_calls(script, training, wrapped)
            help_ = f"pass `{name}` to `{function.name}` as a parameter"
            raise script.refuse(frame.call, f"how `{function.name}` gets the model cannot be told", help_)
        if frame.scope is wrapped.scope:
            passed = script.argument(frame.call, function, parameter)
            assert passed is not None
            script.replace(passed, wrapped.name, "WS915", _REASON)
            bare |= _pass_to_others(script, frame, wrapped, parameter)
        wrapped.parameters[function] = name = parameter
    if number == 0:
        return _rename_calls(script, training, wrapped)
    before = len(script.list_inserted())
    for function, parameter in wrapped.parameters.items():
        _reach_inside(script, training, function, parameter)
    if bare and len(script.list_inserted()) > before:  # `.module`, which the model itself does not have
        raise refuse_second_call(script, next(call for frame in frames for call in frame.others), frames)
    return 1


def _pass_to_others(script: Script, frame: Frame, wrapped: Wrapped, parameter: str) -> bool:
    """Pass the wrapped model where the same function evaluates; whether some call has it bare."""
    bare = False
    for call in frame.others:
        function = script.function(call)
        passed = script.argument(call, function, parameter) if function is not None else None
        if (
            passed is not None
            and script.written(passed) == wrapped.model
            and script.scope(call) is wrapped.scope
        ):
            script.replace(passed, wrapped.name, "WS915", _REASON)
        else:
            bare = True
    return bare


def _find_parameter(script: Script, call: ast.Call, function: Function, name: str) -> str | None:
    for parameter, _ in list_parameters(function):
        value = script.argument(call, function, parameter.arg)
        if value is not None and script.written(value) == name:
            return parameter.arg
    return None


def _rename_calls(script: Script, training: Training, wrapped: Wrapped) -> int:
    """``model(x)`` → ``ddp_model(x)`` where gradients are wanted."""
    region: ast.AST = training.batch_loop if training.batch_frame == 0 else training.frames[0].scope
    for loop in list_evaluations(script, training, region):
        wrapped.evaluated |= {node for node in ast.walk(loop) if isinstance(node, ast.Call)}
    count = _rename_in(script, region, wrapped)
    for call in [node for node in ast.walk(region) if isinstance(node, ast.Call)] if not count else ():
        function = script.function(call)
        if (
            function is not None
            and _reads_model(script, training, wrapped, call, function)
            and all(other is call or is_without_gradient(script, other) for other in script.calls(function))
        ):
            count += _rename_in(script, function, wrapped)
    return count


def _reads_model(
    script: Script, training: Training, wrapped: Wrapped, call: ast.Call, function: Function
) -> bool:
    """Whether a function knows the model by the name that it has where it is wrapped."""
    if training.is_attribute:
        return isinstance(call.func, ast.Attribute)
    is_local = is_parameter(function, wrapped.model) or script.bindings(wrapped.model, function)
    inside = script.is_under(function, wrapped.scope)
    return isinstance(call.func, ast.Name) and inside and not is_local


def list_evaluations(script: Script, training: Training, region: ast.AST) -> list[ast.For]:
    """The loops over other loaders, as of an evaluation between two steps."""
    loops: list[ast.For] = []
    for loop in ast.walk(region):
        if not isinstance(loop, ast.For) or loop is training.batch_loop:
            continue
        calls = {node for node in ast.walk(loop) if isinstance(node, ast.Call)}
        reads = [inner for inner in ast.walk(loop.iter) if isinstance(inner, ast.Name | ast.Attribute)]
        values = [script.value(read) for read in reads]
        loads = [value for value in values if script.called_name(value).endswith("DataLoader")]  # fmt: skip
        if loads and training.loader not in loads and training.backward not in calls:
            loops.append(loop)
    return loops


def _rename_in(script: Script, region: ast.AST, wrapped: Wrapped) -> int:
    count = 0
    for call in [node for node in ast.walk(region) if isinstance(node, ast.Call)]:
        if without_gradient(script, call, region) or call in wrapped.evaluated:
            continue
        if script.written(call.func) in (wrapped.model, f"{wrapped.model}.forward"):
            script.replace(call.func, wrapped.name, "WS915", _REASON)
            count += 1
        elif isinstance(call.func, ast.Attribute) and script.written(call.func.value) == wrapped.model:
            _check_method(script, call, call.func, wrapped.model)
        elif script.function(call) is not None or "loss" in ast.unparse(call.func).lower():
            for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
                if script.written(argument) == wrapped.model:
                    script.replace(argument, wrapped.name, "WS915", _REASON)
                    count += 1
    return count


def _check_method(script: Script, call: ast.Call, func: ast.Attribute, model: str) -> None:
    if func.attr not in _OF_MODEL and not _only_makes_zeros(script, func.attr):
        help_ = f"call `{model}(…)` and do it in its `forward`: only such calls average the gradients"
        raise script.refuse(call, f"training calls `{script.written(func)}` past the model's own call", help_)


def _only_makes_zeros(script: Script, name: str) -> bool:
    """Whether a method of the model makes a first hidden state, and computes nothing with weights."""
    statements = [
        node
        for node in script.nodes(ast.FunctionDef)
        if node.name == name and isinstance(script.module.parents.get(node), ast.ClassDef)
    ]
    lasts = {last_name(call) for node in statements for call in ast.walk(node) if isinstance(call, ast.Call)}
    return bool(statements) and lasts <= _ZEROS


def _reach_inside(script: Script, training: Training, function: Function, parameter: str) -> None:
    """Where a function gets the wrapped model, read what only the model itself has from ``model.module``."""
    loop = training.batch_loop
    whole = any(frame.scope is function for frame in training.frames[: training.batch_frame])
    for node in ast.walk(function):
        if not isinstance(node, ast.Name) or node.id != parameter or not isinstance(node.ctx, ast.Load):
            continue
        above = script.module.parents[node]
        reason = "the wrapped model keeps the one of the script as `module`"
        if isinstance(above, ast.Attribute) and above.attr not in _OF_BOTH:
            inside = script.module.parents.get(above)
            trains = whole or any(up is loop for up, _ in script.module.ancestors(node))
            if (
                isinstance(inside, ast.Call)
                and inside.func is above
                and trains
                and "state_dict" not in above.attr
            ):
                _check_method(script, inside, above, parameter)
            script.insert_behind(node, ".module", "WS953" if "state" in above.attr else None, reason)
        elif _is_returned(script, above):
            script.insert_behind(node, ".module", None, reason)
        elif isinstance(above, ast.Call | ast.keyword) and getattr(above, "func", None) is not node:
            call = above if isinstance(above, ast.Call) else script.module.parents[above]
            trains = whole or any(up is loop for up, _ in script.module.ancestors(node))
            passes = any(call is frame.call for frame in training.frames)
            if not passes and not (
                trains and not without_gradient(script, node, function if whole else loop)
            ):
                script.insert_behind(node, ".module", None, reason)


def _is_returned(script: Script, above: ast.AST) -> bool:
    """Whether the caller gets the model back, also as a part of several values."""
    if isinstance(above, ast.Tuple):
        above = script.module.parents[above]
    return isinstance(above, ast.Return)
