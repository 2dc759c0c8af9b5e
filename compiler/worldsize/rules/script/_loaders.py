"""Data loaders and their samplers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.job import JobSchedule
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Fix
from worldsize.facts.library_calls import find_call
from worldsize.scripts.dividing import is_random, read_division
from worldsize.scripts.edits import call_set_epoch, divide_rows
from worldsize.scripts.interface.read import read_reached, runs_in_job
from worldsize.scripts.loops import find_assigned, find_loop, list_backward_calls, list_prepared
from worldsize.scripts.module import (
    Module,
    constant_value,
    find_mentions,
    find_passed,
    is_environment,
    keep,
    keyword_argument,
    last_name,
)
from worldsize.scripts.program import Program, find_programs
from worldsize.scripts.ranks import mentions_rank
from worldsize.scripts.values import find_values, open_variable


def check_sampler_without_set_epoch(context: Tree, program: Program) -> Iterator[Finding]:
    if not program.is_own_loop or not any(map(_counts_epochs, program.modules)):
        return
    if program.says("set_epoch"):
        yield from _judge_epochs(program)
        return
    for module, call in program.called("DistributedSampler"):
        if constant_value(keyword_argument(call, "shuffle")) is False:
            continue
        message = "nothing calls `set_epoch` of this sampler, so every epoch has the same order"
        help_ = "call `sampler.set_epoch(epoch)` at the start of each epoch"
        fix = call_set_epoch(module, call)
        yield Finding(module.span(call), message, help_, related=program.related, fix=fix)
        return


def _judge_epochs(program: Program) -> Iterator[Finding]:
    """Report `set_epoch(0)` in the loop over epochs, which repeats the order of the first one."""
    calls = program.called("set_epoch")
    for module, call in calls:
        number, loop = find_passed(call, 0, "epoch"), find_loop(module, call)
        if len(calls) == 1 and type(constant_value(number)) is int and isinstance(loop, ast.For) and number:
            names = [name.id for name in ast.walk(loop.target) if isinstance(name, ast.Name)]
            message = f"`{ast.unparse(call)}` gives every epoch the same order"
            is_named = bool(names) and names[0] != "_"
            help_ = (
                f"write `{names[0]}` in place of `{ast.unparse(number)}`" if is_named else "pass the epoch"
            )
            yield Finding(module.span(number), message, help_, related=program.related)


@keep
def _counts_epochs(module: Module) -> bool:
    return any(
        "epoch" in word.lower()
        for node in module.kinds.get(ast.For, ())
        for word in (*find_mentions(node.target), *find_mentions(node.iter))
    )


_COLLECTIONS = ("torchvision.datasets.", "torchaudio.datasets.", "torchtext.datasets.")
_SHARDS = ("Sampler", ".shard(", "split_by_node", "rank::", "islice", "IterableDataset", "Subset(")


def check_no_distributed_sampler(context: Tree, program: Program) -> Iterator[Finding]:
    if program.processes > 1 and program.imports("accelerate"):
        yield from _judge_accelerate(program)
    if program.processes < 2 or not program.is_own_loop or not _averages(program):
        return
    if any(module.once(_takes_part) for module in program.modules):
        return
    found = next(_find_whole(program), None)
    if found is not None:
        yield found
        return
    if program.says(*_SHARDS) or any(module.once(_may_sample) for module in program.modules):
        return
    if not any(module.called("DistributedDataParallel") for module in program.modules):
        return
    for module, call in program.called("DataLoader"):
        shuffle = keyword_argument(call, "shuffle")
        shuffles = _is_true(program, module, shuffle) or _asks_for_none(shuffle)
        if shuffles or _trains_in_order(program, module, call):
            message = "every rank reads all rows: nothing divides them among the ranks"
            help_ = "write `sampler=DistributedSampler(rows)`"
            help_ += " in place of `shuffle=True`" if shuffles else ""
            fix = divide_rows(module, call) if shuffles else None
            yield Finding(module.span(call), message, help_, related=program.related, fix=fix)
            return


def _averages(program: Program) -> bool:
    """Whether the gradients of several ranks are averaged, so that they train one model."""
    return program.refers(
        "DistributedDataParallel", "DistributedOptimizer", "FullyShardedDataParallel", "fully_shard"
    )


def _find_whole(program: Program) -> Iterator[Finding]:
    """The loaders for training whose rows, as far as they can be followed, nothing divides."""
    code = read_reached(program)
    if any(_draws_by_rank(module) for module in program.modules):
        return
    for module, call in program.called("DataLoader"):
        division = read_division(code, module, call)
        shuffle = keyword_argument(call, "shuffle")
        trains = (
            constant_value(shuffle) is True or is_random(module, division.sampler) or _trains(module, call)
        )
        if division.verdict != "whole" or not trains or not code.runs(module, call):
            continue
        if division.sampler is not None:
            maker = open_variable(module, division.sampler)
            name = last_name(maker) if isinstance(maker, ast.Call) else ast.unparse(division.sampler)
            message = f"every rank draws from all rows: `{name}` does not divide them among the ranks"
            help_ = "give it the rank and the number of processes, or use `DistributedSampler`"
            yield Finding(module.span(division.sampler), message, help_, related=program.related)
            continue
        made = [name for name, _, _ in find_assigned(module, "DistributedSampler")]
        written = f"sampler={made[0]}" if made else "sampler=DistributedSampler(rows)"
        shuffles = constant_value(shuffle) is True
        message = "every rank reads all rows: nothing divides them among the ranks"
        help_ = f"write `{written}`" + (" in place of `shuffle=True`" if shuffles else "")
        fix = divide_rows(module, call) if shuffles and not made else None
        yield Finding(module.span(call), message, help_, related=program.related, fix=fix)


@keep
def _draws_by_rank(module: Module) -> bool:
    """Whether random numbers are seeded by the rank, so that rows that are drawn differ."""
    return any(mentions_rank(module, part) for call in _list_seeds(module) for part in call.args)


def _list_seeds(module: Module) -> list[ast.Call]:
    """The calls that seed random numbers, by their names."""
    return [call for name, call in module.calls if "seed" in name.rpartition(".")[2]]


def _trains(module: Module, loader: ast.Call) -> bool:
    """Whether a loop with a backward pass iterates over a loader."""
    names = {name for name, _, call in find_assigned(module, "DataLoader") if call is loader}
    loops = [find_loop(module, call) for call in list_backward_calls(module)]
    iterated = [set(find_mentions(loop.iter)) for loop in loops if isinstance(loop, ast.For)]
    return any(names & mentions for mentions in iterated)


def _is_true(program: Program, module: Module, node: ast.AST | None) -> bool:
    """Whether a value is true, also as a parameter that is true by default or in some call."""
    values = find_values(read_reached(program), module, node) if isinstance(node, ast.Name) else []
    return constant_value(node) is True or any(constant_value(value) is True for _, value in values)


def _trains_in_order(program: Program, module: Module, loader: ast.Call) -> bool:
    """Whether a loader without shuffling passes all rows of a collection to a training loop."""
    made = open_variable(module, find_passed(loader, 0, "dataset"))
    if not isinstance(made, ast.Call) or not module.name_of(made.func).startswith(_COLLECTIONS):
        return False
    if {keyword.arg for keyword in loader.keywords} & {None, "shuffle", "batch_sampler", "collate_fn"}:
        return False
    worked_out = any(isinstance(inner, ast.JoinedStr | ast.BinOp) for inner in ast.walk(made))
    if worked_out or mentions_rank(module, made) or any(other.once(_takes_part) for other in program.modules):
        return False
    return _trains(module, loader)


def _takes_part(module: Module) -> bool:
    """Whether a file selects a part by the rank, as in `rows[rank::world]`."""
    return any(
        mentions_rank(module, node.slice) and not is_environment(node.value)
        for node in module.kinds.get(ast.Subscript, ())
    )


def _may_sample(module: Module) -> bool:
    """Whether a variable named after a sampler ever has a value other than None."""
    samplers = [keyword_argument(call, "sampler") for call in module.called("DataLoader")]
    named = {node for node in module.kinds.get(ast.Name, ()) if "sampler" in node.id.lower()}
    stores = [node for node in named if not isinstance(node.ctx, ast.Load)]
    values = [getattr(module.parents.get(node), "value", module.tree) for node in stores]
    words = [arg.arg for arg in module.kinds.get(ast.arg, ())]
    words += [node.attr for node in module.kinds.get(ast.Attribute, ())]
    return (
        any("sampler" in word.lower() for word in (*words, *module.callers, *module.names))
        or not all(_is_none(value) for value in values)
        or not all(sampler is None or sampler in named or _is_none(sampler) for sampler in samplers)
    )


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _asks_for_none(node: ast.AST | None) -> bool:
    """`sampler is None`, where it always is."""
    if not isinstance(node, ast.Compare) or not any("sampler" in word for word in find_mentions(node.left)):
        return False
    return isinstance(node.ops[0], ast.Is) and _is_none(node.comparators[0])


def _judge_accelerate(program: Program) -> Iterator[Finding]:
    """Accelerate divides the rows of those loaders only that it has prepared."""
    prepares = any("prepare" in module.callers for module in program.modules)
    prepared = list_prepared(program.modules) if prepares else None
    if prepared is None or program.says(*_SHARDS, "sampler") or program.refers("prepare_data_loader"):
        return
    for module in program.modules:
        for name, _, maker in find_assigned(module, "DataLoader"):
            loops = [node for node in module.kinds.get(ast.For, ()) if name in find_mentions(node.iter)]
            calls = [call for _, call in module.callers.get("backward", ()) if call.args]
            trains = not module.around(calls).isdisjoint(loops)
            if trains and name not in prepared:
                message = f"every rank reads all rows: `accelerator.prepare` is not given `{name}`"
                help_ = f"add `{name}` to `accelerator.prepare(…)`, which divides its rows"
                yield Finding(module.span(maker), message, help_, related=program.related)
                return


def check_loader_options_exclusive(context: Tree, program: Program) -> Iterator[Finding]:
    for module, call in program.called(
        "torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"
    ):
        fault = _judge(program, module, call)
        if fault is not None and read_reached(program).runs(module, call):
            other, option = fault
            written = f"{option.arg}={ast.unparse(option.value)}"
            message = f"`{written}` and `{other}` exclude each other: `DataLoader` stops"
            help_ = f"remove `{written}`"
            fix = Fix(module.full_span(option.value), "False") if other == "sampler" else None
            yield Finding(module.span(option), message, help_, related=program.related, fix=fix)


def _judge(program: Program, module: Module, call: ast.Call) -> tuple[str, ast.keyword] | None:
    """The option that excludes another, and the option to remove."""
    options = {keyword.arg: keyword for keyword in call.keywords if keyword.arg is not None}
    shuffle = options.get("shuffle")
    has_sampler = _is_given(program, module, options, "sampler")
    if shuffle is not None and constant_value(shuffle.value) is True and has_sampler:
        return "sampler", shuffle
    if not _is_given(program, module, options, "batch_sampler"):
        return None
    for name, default in (("shuffle", False), ("batch_size", 1), ("drop_last", False)):
        value = constant_value(options[name].value) if name in options else default
        if type(value) in (bool, int) and value != default:
            return "batch_sampler", options[name]
    return ("batch_sampler", options["sampler"]) if has_sampler else None


def _is_given(program: Program, module: Module, options: dict[str, ast.keyword], name: str) -> bool:
    """Whether an option certainly is not None: it is a call, or a variable that is only set to one.

    None beside it is for the script that runs by itself.
    """
    value = options[name].value if name in options else None
    if not isinstance(value, ast.Name):
        return isinstance(value, ast.Call)
    if any(arg.arg == value.id for arg in module.kinds.get(ast.arg, ())):
        return False
    set_to = [module.parents.get(node) for node in module.stores(value.id)]
    values = {statement: statement.value for statement in set_to if isinstance(statement, ast.Assign)}
    made = {statement for statement, value in values.items() if isinstance(value, ast.Call)}
    if not made or len(values) < len(set_to):
        return False
    others = [value for statement, value in values.items() if statement not in made]
    if any(not isinstance(value, ast.Constant) or value.value is not None for value in others):
        return False
    return not others or (
        program.processes > 1 and all(runs_in_job(program, module, statement) for statement in made)
    )


def check_split_not_seeded(context: Tree, schedule: JobSchedule) -> Iterator[Finding]:
    for program in find_programs(context, schedule.job) if schedule.job is not None else ():
        if any(map(_list_seeds, program.modules)):
            continue  # a seed of all random numbers, whoever sets it
        for module, call in program.find(_list_unseeded):
            name = last_name(call.func)
            message = f"each run of the schedule holds out other rows: `{name}` has no `random_state`"
            help_ = f"give it a seed: `{name}(…, random_state=0)`"
            yield Finding(module.span(call.func), message, help_, related=program.related)


def _list_unseeded(module: Module) -> list[ast.Call]:
    """Calls that hold out rows at random. PyTorch's are the same in each process: it begins with one seed."""
    listed = []
    for name, call in module.calls:
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        if find_call(name, "holds_out") is not None and not keywords.keys() & {None, "shuffle"}:
            seed = keywords.get("random_state", ast.Constant(None))
            listed += [call] if isinstance(seed, ast.Constant) and seed.value is None else []
    return listed
