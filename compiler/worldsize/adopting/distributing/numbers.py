"""The numbers that the plan sets: batch size, learning rate and epochs."""

from __future__ import annotations

import ast
from pathlib import Path

from worldsize.adopting.model import find_role
from worldsize.adopting.options.flags import set_by_flag
from worldsize.adopting.options.parsers import Parser, find_option
from worldsize.adopting.source.script import Script
from worldsize.adopting.training.feeding import find_batch_size, find_maker, lays_out_columns
from worldsize.adopting.training.loops import find_counter, find_range_call
from worldsize.adopting.training.search import (
    Maker,
    Training,
    find_optimizer_maker,
    is_optimizer,
    makes_optimizer,
)
from worldsize.scripts.bindings import find_argument, find_entry, is_parameter
from worldsize.scripts.module import constant_value, find_passed, keyword_argument, last_name


def set_loader(script: Script, parser: Parser, loader: ast.Call) -> None:
    """The batch size of a data loader, which is that of one process."""
    size = find_passed(loader, 1, "batch_size")
    batches = keyword_argument(loader, "batch_sampler")
    if size is None and batches is not None:
        made = script.value(batches)  # the script's own sampler
        size = find_named(script, made, "batch_size") if isinstance(made, ast.Call) else None
    for keyword in loader.keywords if size is None else ():
        if keyword.arg is None:  # `**options`
            mapping = script.value(keyword.value)
            size = find_entry(mapping, "batch_size")
    if size is None:
        script.leave(loader, "no option sets the batch size here", "give `batch_size=` to the loader")
    else:
        set_by_flag(script, parser, "batch_size", size)


def set_feed(script: Script, parser: Parser, training: Training) -> None:
    """The batch size of whatever feeds the loop."""
    feed, loop = training.feed, training.batch_loop
    if training.counts_steps:
        message = "this loop counts steps, of which each process takes as many: together they see more rows"
        help_ = "let an option set the steps, and divide them by the number of processes"
        script.leave(training.epoch_loop or loop, message, help_)
    if feed.kind in ("loader", "phases"):
        set_loader(script, parser, feed.call)
        return
    size: ast.expr | None = None
    if feed.kind == "columns" and (columns := lays_out_columns(script, feed.call)) is not None:
        size = columns[0]
    elif feed.kind == "ranges":
        size = feed.call.args[2]
        _set_literals(script, parser, loop, size)
    elif feed.kind == "beside":
        maker = find_maker(script, feed.call)
        names = [parameter.arg for parameter in maker.args.args] if maker is not None else []
        pairs = zip(names, feed.call.args, strict=False)
        passed = next((value for name, value in pairs if find_role(name) == "batch_size"), None)
        size = find_named(script, feed.call, "batch_size") or passed
    else:
        size = find_batch_size(script, feed, loop)
    if size is None:
        script.leave(feed.call, "no option sets the batch size here", "name it `batch_size` where it is set")
        return
    set_by_flag(script, parser, "batch_size", size)


def _set_literals(script: Script, parser: Parser, loop: ast.AST, size: ast.expr) -> None:
    """A batch size that is written out is also in the slices of the loop."""
    for node in ast.walk(loop) if isinstance(size, ast.Constant) else ():
        above = script.module.parents.get(node)
        sliced = isinstance(above, ast.BinOp) and isinstance(script.module.parents.get(above), ast.Slice)
        if (
            isinstance(node, ast.Constant)
            and node is not size
            and node.value == constant_value(size)
            and sliced
        ):
            set_by_flag(script, parser, "batch_size", node)


def find_named(script: Script, call: ast.Call, role: str) -> ast.expr | None:
    """The argument of a call that is for this, by the name of the parameter or by its own."""
    function = script.function(call)
    names = [parameter.arg for parameter in function.args.args] if function is not None else []
    for name in names:
        value = script.argument(call, function, name) if function is not None else None
        if value is not None and find_role(name) == role:
            return value
    for keyword in call.keywords:
        if keyword.arg and find_role(keyword.arg) == role:
            return keyword.value
    for argument in call.args:
        last = last_name(argument)
        if find_role(last) == role:
            return argument
    return None


def set_optimizer(script: Script, parser: Parser, optimizer: ast.Call, position: int = 1) -> None:
    """The learning rate of an optimizer."""
    maker = find_optimizer_maker(script, optimizer)
    rate = find_passed(optimizer, position, "lr") or keyword_argument(optimizer, "learning_rate")
    highest = _find_highest_rate(script)
    if maker is not None and highest is None:
        _set_rate_beside(script, parser, optimizer, maker)
        return
    if highest is not None:  # this scheduler sets the rate of the optimizer
        set_by_flag(script, parser, "learning_rate", highest)
    elif rate is None:
        script.leave(optimizer, "no option sets the learning rate here", "give the rate to the optimizer")
    else:
        set_by_flag(script, parser, "learning_rate", rate)


def _set_rate_beside(script: Script, parser: Parser, call: ast.Call, maker: Maker) -> None:
    """The rate of an optimizer that a module beside the script makes: what the script passes for it.

    Raises:
        AdoptError: The rate does not come from the script.
    """
    made = {
        last_name(node)
        for node in ast.walk(maker.function)
        if isinstance(node, ast.Call) and makes_optimizer(maker.module, node)
    }
    if len(made) > 1:
        message = (
            f"`{maker.function.name}` chooses between optimizers, and the rate is scaled for one of them"
        )
        script.leave(call, message, "name the one that is made in the spec: `optimizer:` under `scale:`")
    rate = find_passed(maker.optimizer, 1, "lr")
    root = rate.value if isinstance(rate, ast.Attribute) else rate
    passed = find_argument(maker.module, call, maker.function, last_name(root))
    option = (
        find_option(parser, rate) if passed is not None and rate is not root and rate is not None else None
    )
    if option is not None and passed is not None and parser.place == f"{script.written(passed)}.{{}}":
        parser.roles[option.flag.option] = "learning_rate"
        default = option.flag.default
        parser.numbers["learning_rate"] = default if isinstance(default, int | float) else None
    elif passed is not None and rate is root:
        set_by_flag(script, parser, "learning_rate", passed)
    else:
        where = f"`{Path(maker.module.source.path).name}`, line {maker.optimizer.lineno}"
        takes = is_parameter(maker.function, last_name(root)) and rate is root
        how = (
            f"pass it for `{last_name(root)}`"
            if takes
            else f"let `{maker.function.name}` take it as a parameter"
        )
        help_ = f"declare an option such as `--lr` in this script, and {how}"
        raise script.refuse(call, f"no option of this script sets the learning rate in {where}", help_)


def set_accumulation(script: Script, parser: Parser, steps: ast.expr | None) -> None:
    """The batches of an optimizer step, whose number a library or the script's own test takes."""
    value = script.value(steps) if steps is not None else None
    if steps is not None and isinstance(value, ast.Constant | ast.Attribute) and constant_value(value) != 1:
        set_by_flag(script, parser, "accumulation", steps)


def _find_highest_rate(script: Script) -> ast.expr | None:
    """The rate of a scheduler that goes up to it, whatever the optimizer has."""
    for call in script.module.called("OneCycleLR", "CyclicLR"):
        position = 1 if script.module.name_of(call.func).endswith("OneCycleLR") else 2
        return find_passed(call, position, "max_lr")
    return None


def leave_counted_steps(script: Script) -> None:
    """Schedulers that are given a number of steps, of which one process takes fewer than the original."""
    for name, word in (("OneCycleLR", "total_steps"), ("get_scheduler", "num_training_steps")):
        for call in script.module.called(name):
            steps = keyword_argument(call, word)
            value = script.value(steps) if steps is not None else None
            if steps is not None and isinstance(constant_value(value), int):
                message = (
                    f"this schedule ends after {constant_value(value)} steps; several processes take fewer"
                )
                script.leave(steps, message, "count them by the loader: `epochs * len(loader)`")


def set_epochs(script: Script, parser: Parser, loop: ast.stmt | None) -> None:
    """The end of a loop over epochs."""
    if isinstance(loop, ast.While):
        counted = find_counter(script, loop)
        if counted is not None and counted.is_epoch:
            set_by_flag(script, parser, "epochs", counted.bound)
        return
    counter = find_range_call(loop) if isinstance(loop, ast.For) else None
    if counter is None:
        return
    stop = counter.args[min(1, len(counter.args) - 1)]
    if len(counter.args) > 1 and isinstance(stop, ast.BinOp) and isinstance(stop.op, ast.Add):
        start = script.written(counter.args[0])
        parts = [part for part in (stop.left, stop.right) if script.written(part) != start]
        stop = parts[0] if len(parts) == 1 else stop  # `range(start, start + n)`
    set_by_flag(script, parser, "epochs", stop)


def find_loader(script: Script) -> ast.Call | None:
    """The loader of the training rows in a script whose library has the loop: the one that shuffles."""
    loaders = script.module.called("DataLoader")
    drawn = [
        call
        for call in loaders
        if (keyword_argument(call, "shuffle") or keyword_argument(call, "sampler")) is not None
        and constant_value(keyword_argument(call, "shuffle")) is not False
    ]
    return next(iter(drawn or loaders), None)


def find_optimizer(script: Script) -> ast.Call | None:
    """The only optimizer that is made."""
    made = [call for _, call in script.module.calls if is_optimizer(script, call)]
    return made[0] if len(made) == 1 else None
