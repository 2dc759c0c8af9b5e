"""The passes of a training loop: which losses are scaled and divided, and when gradients are applied."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec.structs import replace

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Confidence, Finding, Fix, Problem, Related
from worldsize.facts.library_calls import list_last_names
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.loops import (
    counts_passes,
    find_assigned,
    find_block,
    find_loop,
    list_backward_calls,
    list_conditions,
    list_steps,
)
from worldsize.scripts.module import (
    Module,
    constant_value,
    find_mentions,
    find_passed,
    keyword_argument,
    name_variable,
)
from worldsize.scripts.program import Program
from worldsize.scripts.settings import read_setting

_LIBRARIES = {
    "Accelerator": "Accelerate neither scales it nor counts it for accumulation",
    "deepspeed.initialize": "older versions of DeepSpeed then do not average its gradients",
}


def check_backward_past_library(context: Tree, program: Program) -> Iterator[Finding]:
    if not program.imports("accelerate", "deepspeed"):
        return
    if any(call.args for module in program.modules for _, call in module.callers.get("backward", ())):
        return  # also given to the library, perhaps in another case
    runs = read_reached(program).runs
    for maker, effect in _LIBRARIES.items():
        owners = [name for module in program.modules for name, _, _ in find_assigned(module, maker)]
        if len(set(owners)) != 1 or (maker == "Accelerator" and not _matters(program)):
            continue
        for module, call in program.find(list_backward_calls):
            if runs(module, call) and isinstance(call.func, ast.Attribute) and not call.keywords:
                loss, span = ast.unparse(call.func.value), module.full_span(call)
                message = f"`{loss[:60]}.backward()` bypasses the library that wraps the model: {effect}"
                right = f"{owners[0]}.backward({loss})"
                fix = Fix(span, right, safe=False) if span.line == span.end_line else None
                # newer versions of DeepSpeed average them
                sure: Confidence | None = None if maker == "Accelerator" else "possible"
                help_ = f"write `{right[:80]}`"
                yield Finding(module.span(call), message, help_, program.related, fix, sure)
                return


def _matters(program: Program) -> bool:
    """Whether Accelerate has more to do with a loss than to call ``backward``."""
    return program.refers("prepare") and program.says("fp16", "gradient_accumulation_steps")


_SCALER = re.compile(r"scaler|amp|fp16|half|mixed", re.IGNORECASE)
_NO_GRADIENTS = ("no_grad", "inference_mode", "set_grad_enabled")
_CLIPS = ("clip_grad_norm_", "clip_grad_value_")
_HALF = ("torch.float16", "torch.half")


def check_loss_scaling_incomplete(context: Tree, program: Program) -> Iterator[Finding]:
    if not program.complete:
        return
    has_scaler = program.refers("GradScaler", "ShardedGradScaler")
    finding = _judge_scaler(program) if has_scaler else _judge_plain(program)
    if finding is not None:
        yield finding


def _judge_plain(program: Program) -> Finding | None:
    """No scaler at all."""
    runs = read_reached(program).runs
    for module in program.modules:
        trains = {_find_pass(module, call) for call in list_backward_calls(module)}
        for call in module.called("autocast"):
            if _find_pass(module, call) in trains and _is_half(module, call) and runs(module, call):
                message = (
                    "the forward pass is in float16, but no `GradScaler` scales the loss: gradients become 0"
                )
                help_ = "use `torch.amp.GradScaler`, or `dtype=torch.bfloat16` on a GPU that has it"
                return Finding(module.span(call), message, help_, related=program.related)
    return None


def _find_pass(module: Module, node: ast.AST) -> ast.AST | None:
    """The loop or function around a node; None where no gradients are computed."""
    for above, _ in module.ancestors(node):
        mentions = (word for item in getattr(above, "items", ()) for word in find_mentions(item))
        if isinstance(above, ast.With) and not {*mentions}.isdisjoint(_NO_GRADIENTS):
            return None
    return find_loop(module, node) or find_block(module, node)


def _is_half(module: Module, call: ast.Call) -> bool:
    """Whether an autocast is surely in float16."""
    enabled = keyword_argument(call, "enabled")
    if enabled is not None and constant_value(enabled) is not True:
        return False
    name = module.name_of(call.func)
    on_cuda = name.startswith("torch.cuda.")
    first = constant_value(find_passed(call, 0, "device_type"))
    dtype = find_passed(call, 1, "dtype")
    if dtype is None:
        return name.startswith("torch.") and (on_cuda or first == "cuda") and (on_cuda or not call.args[1:])
    return module.name_of(dtype) in _HALF and (on_cuda or first != "cpu")


def _judge_scaler(program: Program) -> Finding | None:
    """A scaler that the script bypasses."""
    modules = program.modules
    scales = [(module, call) for module in modules for _, call in module.callers.get("scale", ())]
    applies = [
        (module, call)
        for module in modules
        for _, call in module.callers.get("step", ())
        if call.args and _is_of_scaler(call)
    ]
    if scales and not applies:
        for module, call in scales:
            loop = find_loop(module, call) or find_block(module, call)
            for owner, step in list_steps(module):
                if (find_loop(module, step) or find_block(module, step)) is loop and not step.args:
                    message = (
                        f"`{owner}` applies gradients that are still multiplied by the scale of the loss"
                    )
                    related = (Related(module.span(call), "scaled here"), *program.related)
                    help_ = f"write `scaler.step({owner})`, then `scaler.update()`"
                    return Finding(module.span(step), message, help_, related=related)
    if applies and not scales:
        for module, call in applies:
            for backward in list_backward_calls(module)[:1]:
                message = "this loss is not scaled, but `scaler.step` expects scaled gradients and stops"
                related = (Related(module.span(call), "the step"), *program.related)
                help_ = "write `scaler.scale(loss).backward()`"
                return Finding(module.span(backward), message, help_, related=related)
    if applies and not any(
        _is_of_scaler(call) for module in modules for _, call in module.callers.get("update", ())
    ):
        module, call = applies[0]
        message = "`scaler.update()` is never called, and the next `scaler.step` stops"
        return Finding(module.span(call), message, "call `scaler.update()` after it", related=program.related)
    return _judge_clipping(program, scales) if not program.refers("unscale_") else None


def _is_of_scaler(call: ast.Call) -> bool:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return any("scaler" in word.lower() for word in find_mentions(owner))


def _judge_clipping(program: Program, scales: list[tuple[Module, ast.Call]]) -> Finding | None:
    for module, call in scales:
        for clip in module.called(*_CLIPS):
            same = find_block(module, clip) is find_block(module, call)
            tests = [condition.test for condition in list_conditions(module, clip)]
            asks = any(_SCALER.search(word) for test in tests for word in find_mentions(test))
            if same and not asks:
                message = "the gradients are clipped while they are multiplied by the scale of the loss"
                related = (Related(module.span(call), "scaled here"), *program.related)
                help_ = "call `scaler.unscale_(optimizer)` first"
                return Finding(module.span(clip), message, help_, related=related)
    return None


_OWN_GRADIENTS = re.compile(r"\.grad\b|[\"']sum[\"']")
_ACCUMULATION = re.compile(r"accum", re.IGNORECASE)


def check_program(context: Tree, program: Program) -> Iterator[Problem]:
    runs = read_reached(program).runs
    for module in program.modules:
        faults = [*module.once(_judge_loops)]
        if program.processes > 1 and not program.refers(*list_last_names("sums")):
            faults += [*module.once(_judge_no_sync), *module.once(_judge_chosen_no_sync)]
        for problem, node in faults:
            if runs(module, node):
                yield replace(problem, related=(*problem.related, *program.related))
    yield from _judge_accelerate(program)


_Fault = tuple[Problem, ast.AST]


def _judge_loops(module: Module) -> list[_Fault]:
    """Loops in which the gradients of several passes are to be added, but are not."""
    faults: list[_Fault] = []
    loops: dict[ast.AST, list[ast.Call]] = {}
    for call in list_backward_calls(module):
        loop = find_loop(module, call)
        if loop is not None and not list_conditions(module, call):
            loops.setdefault(loop, []).append(call)
    for loop, backward in loops.items():
        steps = [step for step in list_steps(module) if find_loop(module, step[1]) is loop]
        clears = [
            call
            for _, call in module.callers.get("zero_grad", ())
            if isinstance(call.func, ast.Attribute) and find_loop(module, call) is loop
        ]
        if len({owner for owner, _ in steps}) != 1 or not clears:
            continue
        fault = _judge_loop(module, backward[-1], [call for _, call in steps], clears)
        if fault is not None:
            faults.append(fault)
    return faults


def _judge_loop(
    module: Module, backward: ast.Call, steps: list[ast.Call], clears: list[ast.Call]
) -> _Fault | None:
    at_times = [_find_count(module, call) for call in steps]
    always = [call for call in clears if not list_conditions(module, call)]
    where = Related(module.span(steps[0]), "the step")
    slug = "accumulation-incomplete"
    if all(at_times) and always:
        message = "the gradients are cleared in every pass, but applied only in some: the others are lost"
        help_ = "call `zero_grad()` after `step()`, under the same condition"
        return Problem(slug, module.span(always[0]), message, help_, (where,)), always[0]
    plain = [call for call in steps if not list_conditions(module, call)]
    if plain and all(_find_count(module, call) for call in clears):
        message = (
            "the gradients are applied in every pass, but cleared only in some: they are applied repeatedly"
        )
        help_ = "call `step()` under the same condition as `zero_grad()`"
        return Problem(slug, module.span(plain[0]), message, help_), plain[0]
    whole = _find_undivided(module, at_times, backward)
    if whole is not None:
        message = f"the gradients of `{whole}` passes are added, but the loss is never divided by it"
        help_ = f"write `loss = loss / {whole}`, or keep the sum and lower the learning rate"
        return Problem(slug, module.span(backward), message, help_, (where,), None, "possible"), backward
    divided = _find_divided(module, backward)
    if len(plain) == len(steps) and always and divided is not None:
        message = (
            f"the loss is divided by `{divided}`, but the gradients are applied and cleared in every pass"
        )
        help_ = (
            f"call `step()` and `zero_grad()` only in every `{divided}`-th pass, or do not divide the loss"
        )
        return Problem(slug, module.span(plain[0]), message, help_), plain[0]
    return None


def _find_count(module: Module, node: ast.AST) -> ast.If | None:
    """The condition that holds in every n-th pass, under which something is done."""
    return next(
        (condition for condition in list_conditions(module, node) if counts_passes(module, condition.test)),
        None,
    )


def _find_undivided(module: Module, at_times: list[ast.If | None], backward: ast.Call) -> str | None:
    """The number of added passes, where nothing in the file calculates with it or with gradients."""
    moduli = {
        name_variable(part.right)
        for test in at_times
        for part in (ast.walk(test.test) if test is not None else ())
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)
    }
    name = moduli.pop() if len(moduli) == 1 and all(at_times) else ""
    if not _ACCUMULATION.search(name) or _OWN_GRADIENTS.search(module.text):
        return None
    last = name.rpartition(".")[2]
    uses = [
        node
        for kind in (ast.Name, ast.Attribute)
        for node in module.kinds.get(kind, ())
        if getattr(node, "id", getattr(node, "attr", "")) == last and isinstance(node.ctx, ast.Load)
    ]
    counts = all(_is_only_counted(module, node) for node in uses)
    return name if counts and not isinstance(getattr(backward.func, "value", None), ast.BinOp) else None


def _is_only_counted(module: Module, node: ast.AST) -> bool:
    """Whether a number is used after ``%`` or ``//`` only, or compared."""
    above = module.parents.get(node)
    if isinstance(above, ast.BinOp):
        return isinstance(above.op, ast.Mod | ast.FloorDiv)
    return isinstance(above, ast.Compare)


def _find_divided(module: Module, backward: ast.Call) -> str | None:
    """The number of passes by which the loss is divided, named as such."""
    loop = find_loop(module, backward)
    for node in module.kinds.get(ast.BinOp, []) + module.kinds.get(ast.AugAssign, []):
        divisor = node.right if isinstance(node, ast.BinOp) else node.value
        name = name_variable(divisor)
        whole = node.left if isinstance(node, ast.BinOp) else node.target
        if (
            isinstance(node.op, ast.Div)
            and _ACCUMULATION.search(name)
            and any("loss" in word.lower() for word in find_mentions(whole))
            and find_loop(module, node) is loop
        ):
            return name
    return None


def _judge_no_sync(module: Module) -> list[_Fault]:
    """Steps that apply gradients which DDP was told not to average."""
    blocks = [node for node in module.kinds.get(ast.With, ()) if _find_no_sync(node) is not None]
    inside = {id(node) for block in blocks for node in ast.walk(block)}
    faults: list[_Fault] = []
    for block in blocks:
        within = set(ast.walk(block))
        backward = [call for call in list_backward_calls(module) if call in within]
        scope = find_block(module, block)
        others = [
            call
            for _, call in module.callers.get("backward", ())
            if id(call) not in inside and find_block(module, call) is scope
        ]
        steps = [call for _, call in list_steps(module) if find_block(module, call) is scope]
        after = [call for call in steps if _follows(module, block, call)]
        if backward and ((steps and not others) or after):
            message = "all gradients that the step applies come from `no_sync()`: they are never averaged"
            help_ = "run the last backward pass before the step outside of `no_sync()`"
            related = (Related(module.span((after or steps)[0]), "the step"),)
            call = _find_no_sync(block) or block
            faults.append(
                (Problem("step-without-averaging", module.span(call), message, help_, related), call)
            )
    return faults


def _judge_chosen_no_sync(module: Module) -> list[_Fault]:
    """``model.no_sync() if last else nullcontext()`` if the step is under ``last``: the wrong way round."""
    faults: list[_Fault] = []
    for choice in module.kinds.get(ast.IfExp, ()):
        call = choice.body
        if not (isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "no_sync"):
            continue
        test, loop = ast.dump(choice.test), find_loop(module, choice)
        for _, step in list_steps(module):
            same = any(ast.dump(condition.test) == test for condition in list_conditions(module, step))
            if same and loop is not None and find_loop(module, step) is loop:
                message = (
                    "`no_sync()` is used in the pass of the step, so that its gradients are not averaged"
                )
                related = (Related(module.span(step), "the step"),)
                help_ = "use it in the other passes: exchange the two sides of `else`"
                slug, span = "step-without-averaging", module.span(call)
                faults.append((Problem(slug, span, message, help_, related), call))
                break
    return faults


def _find_no_sync(block: ast.With) -> ast.Call | None:
    calls = [item.context_expr for item in block.items if isinstance(item.context_expr, ast.Call)]
    return next((call for call in calls if getattr(call.func, "attr", "") == "no_sync"), None)


def _follows(module: Module, block: ast.With, step: ast.Call) -> bool:
    """Whether a step stands behind `with no_sync():` in its own block, and no backward pass between them."""
    statement = module.parents.get(step)
    above = module.parents.get(block)
    for body in (getattr(above, "body", None), getattr(above, "orelse", None)):
        if isinstance(body, list) and block in body and statement in body:
            between = body[body.index(block) + 1 : body.index(statement)]
            passes = any(
                getattr(node, "attr", "") == "backward"
                for statement in between
                for node in ast.walk(statement)
            )
            return body.index(statement) > body.index(block) and not passes
    return False


def _judge_accelerate(program: Program) -> Iterator[Problem]:
    """Accelerate adds gradients only in its own context."""
    if not program.imports("accelerate") or program.refers(
        "accumulate", "no_sync", "sync_gradients", "_do_sync"
    ):
        return
    tests = [(module, node.test) for module in program.modules for node in module.kinds.get(ast.If, ())]
    if any(counts_passes(module, test) for module, test in tests):
        return
    for module in program.modules:
        backward = [call for _, call in module.callers.get("backward", ()) if call.args]
        for call in module.called("Accelerator") if backward else ():
            value = keyword_argument(call, "gradient_accumulation_steps")
            count = read_setting(program, module, value) if value is not None else None
            is_count = type(count) is int and count > 1
            if value is not None and is_count and constant_value(value) in (None, count):
                message = (
                    f"`gradient_accumulation_steps` is {count}, but no pass is under `accelerator.accumulate`"
                )
                help_ = "put the body of the loop under `with accelerator.accumulate(model):`"
                slug, span = "accumulation-incomplete", module.span(value)
                yield Problem(slug, span, message, help_, program.related)
