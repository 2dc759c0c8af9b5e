"""Divide the rows of the training loader among the processes, in a new order each epoch."""

from __future__ import annotations

import ast

from worldsize.adopting.distributing.randomness import find_seed
from worldsize.adopting.distributing.resuming import name_epoch_inside
from worldsize.adopting.options.flags import add_flag
from worldsize.adopting.options.parsers import Parser, is_visible
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.training.feeding import begin_anew, lays_out_columns, name_loader
from worldsize.adopting.training.loops import name_epoch
from worldsize.adopting.training.search import Training, lift_name
from worldsize.scripts.module import constant_value, find_passed, keyword_argument

_REASON = "each process trains on its own share of the rows"
_SHARE = '''class RankShare(torch.utils.data.Sampler):
    """Every n-th of what a sampler draws: the first process draws for all."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        drawn = [list(self.sampler)]
        dist.broadcast_object_list(drawn)
        whole = len(self) * {world_size}
        return iter(drawn[0][{rank}:whole:{world_size}])

    def __len__(self):
        return len(self.sampler) // {world_size}'''


def divide_rows(script: Script, training: Training, header: Header, parser: Parser) -> None:
    """Give the loader a sampler, and call its ``set_epoch``.

    Raises:
        AdoptError: The rows cannot be divided without knowing more.
    """
    feed, loader = training.feed, training.loader
    if feed.kind == "draws":
        return  # they are seeded apart
    if feed.kind == "ranges":
        stride_range(script, loader, header, parser)
        return
    if feed.kind == "columns":
        divide_columns(script, loader, header)
        return
    if feed.kind == "beside":
        share_loader(script, training, header)
        _set_epoch(script, training)
        return
    rows = find_passed(loader, 0, "dataset")
    if rows is None or any(isinstance(argument, ast.Starred) for argument in loader.args):
        raise script.refuse(
            loader, "which rows this loader reads cannot be told", "name them: `DataLoader(rows, …)`"
        )
    if (stream := _find_stream(script, rows)) is not None:
        share_stream(script, rows, stream, header)
        return
    samplers = [keyword_argument(loader, word) for word in ("batch_sampler", "sampler")]
    for sampler in samplers:
        if sampler is not None and ast.unparse(sampler) != "None":
            _share(script, sampler, header)
            return
    header.imports["from torch.utils.data.distributed import DistributedSampler"] = None
    seed = find_seed(script, parser, loader)
    _add_sampler(script, loader, rows, _find_condition(script, training), seed)
    _set_epoch(script, training)


def _share(script: Script, sampler: ast.expr, header: Header) -> None:
    """Deal what a sampler of the script draws, rows or batches, out to the processes."""
    share = script.new_name("RankShare")
    names = header.names
    text = _SHARE.format(rank=names.rank, world_size=names.world_size).replace("RankShare", share)
    header.helpers.append(text)
    script.replace(sampler, f"{share}({script.written(sampler)})", "WS903", _REASON)


def _find_condition(script: Script, training: Training) -> str | None:
    """For which of the loaders of a comprehension the rows are divided; None for a loader of its own."""
    above = script.module.parents.get(training.loader)
    if training.feed.kind != "phases" or not isinstance(above, ast.DictComp):
        return None
    assert training.feed.phase is not None
    return f"{script.written(above.key)} == {script.written(training.feed.phase)}"


def _find_stream(script: Script, rows: ast.expr) -> ast.ClassDef | ast.Call | None:
    """The class of rows that are a stream, or the call that opens one: ``load(…, streaming=True)``."""
    value = script.value(rows)
    if not isinstance(value, ast.Call):
        return None
    if constant_value(keyword_argument(value, "streaming")) is True:
        return value
    class_ = script.classes.get(getattr(value.func, "id", ""))
    bases = class_.bases if class_ is not None else []
    return class_ if any("IterableDataset" in ast.unparse(base) for base in bases) else None


def _add_sampler(
    script: Script, loader: ast.Call, rows: ast.expr, condition: str | None, seed: str | None
) -> None:
    name = script.written(rows)
    if not isinstance(rows, ast.Name | ast.Attribute | ast.Subscript):
        held = script.new_name("train_rows")
        script.insert_before(
            script.statement(loader), [f"{held} = {name}"], "WS903", "the sampler counts the rows"
        )
        script.replace(rows, held, "WS903", "the sampler counts the rows")
        name = held
    shuffle = next((keyword for keyword in loader.keywords if keyword.arg == "shuffle"), None)
    place: ast.AST | None = shuffle
    drawn: ast.expr | None = shuffle.value if shuffle is not None else None
    if len(loader.args) > 2:
        place = drawn = loader.args[2]
        if len(loader.args) > 3:
            raise script.refuse(loader.args[3], "this option of `DataLoader` is given by position", "name it")
    last = f", seed={seed}" if seed is not None else ""
    last += ", drop_last=True" if constant_value(keyword_argument(loader, "drop_last")) is True else ""
    made = _make_sampler(script, name, drawn, last)
    if condition is not None:
        made = f"{made} if {condition} else None"
    options = _find_shuffling_options(script, loader) if shuffle is None else None
    if options is not None:
        text = script.written(options)
        made = f'sampler=DistributedSampler({name}, shuffle={text}.get("shuffle", False){last})'
        reason = "a sampler and `shuffle` exclude each other"
        script.replace(options, f'{{**{text}, "shuffle": False}}', "WS903", reason)
        script.insert_behind(rows, f", {made}", "WS903", _REASON)
        return
    none = next((keyword for keyword in loader.keywords if keyword.arg == "sampler"), None)
    if none is not None:  # `sampler=None`
        script.replace(none, made, "WS903", _REASON)
        if place is not None:
            script.replace(place, "shuffle=False", "WS903", "a sampler and `shuffle` exclude each other")
    elif place is not None:
        script.replace(place, made, "WS903", _REASON)
    else:
        behind = max((*loader.args, *loader.keywords), key=script.end)
        script.insert_behind(behind, f",{script.gap(behind, loader)}{made}", "WS903", _REASON)


def _make_sampler(script: Script, name: str, drawn: ast.expr | None, last: str) -> str:
    """The sampler in the order that the loader has: drawn, as it is, or as an expression says."""
    if constant_value(drawn) is True:
        return f"sampler=DistributedSampler({name}{last})"
    shuffle = "False" if drawn is None or constant_value(drawn) is False else script.written(drawn)
    return f"sampler=DistributedSampler({name}, shuffle={shuffle}{last})"


def _find_shuffling_options(script: Script, loader: ast.Call) -> ast.expr | None:
    """``options`` of ``DataLoader(rows, **options)``, where the script says `shuffle` for a mapping."""
    starred = next((keyword.value for keyword in loader.keywords if keyword.arg is None), None)
    module = script.module
    says = any(constant_value(node) == "shuffle" for node in module.kinds.get(ast.Constant, ())) or any(
        keyword_argument(call, "shuffle") is not None for call in module.called("dict", "update")
    )
    return starred if says else None


def _set_epoch(script: Script, training: Training) -> None:
    loop, feed = training.epoch_loop, training.feed
    if feed.maker is not None:
        begin_anew(script, feed, training.batch_loop)
    if loop is None or (feed.maker is not None and not script.is_under(feed.maker, loop)):
        return
    name: str | None
    if training.feed.kind == "phases":
        name = name_loader(script, training.feed)
    else:
        name = lift_name(script, training, training.loader_name, (training.batch_frame, training.epoch_frame))
    reason = "the rows come in a new order each epoch"
    if name is None:
        _set_epoch_inside(script, training, reason)
        return
    line = f"{name}.sampler.set_epoch({name_epoch(script, loop)})"
    made = script.statement(training.loader)
    if script.is_under(made, loop):  # anew in each epoch
        script.insert_after(made, [line], "WS902", reason)
    else:
        script.insert_before(loop.body[0], [line], "WS902", reason)


def _set_epoch_inside(script: Script, training: Training, reason: str) -> None:
    """Set the epoch of a loader that is made beside the loop over batches, and has no name elsewhere."""
    feed, loop, epoch_loop = training.feed, training.batch_loop, training.epoch_loop
    made = script.statement(feed.call)
    here = script.scope(made) is training.frames[training.batch_frame].scope
    epoch = name_epoch_inside(script, training) if here else None
    if epoch is None:
        assert epoch_loop is not None
        help_ = "pass the loader to the function as a parameter"
        message = "this loop over epochs cannot name the loader of the training rows"
        raise script.refuse(epoch_loop, message, help_)
    if feed.name is not None:
        line = f"{script.written(feed.name)}.sampler.set_epoch({epoch})"
        script.insert_after(made, [line], "WS902", reason)
        return
    name = script.new_name("train_loader")
    script.move_before(feed.call, script.statement(loop), name, reason)
    script.insert_before(script.statement(loop), [f"{name}.sampler.set_epoch({epoch})"], "WS902", reason)


_SHARED = '''def {name}(loader):
    """The same loader for the share of this process."""
    shuffles = not isinstance(loader.sampler, torch.utils.data.SequentialSampler)
    sampler = DistributedSampler(loader.dataset, shuffle=shuffles, drop_last=loader.drop_last)
    return torch.utils.data.DataLoader(
        loader.dataset,
        batch_size=loader.batch_size,
        sampler=sampler,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        drop_last=loader.drop_last,
        worker_init_fn=loader.worker_init_fn,
        persistent_workers=loader.persistent_workers,
    )'''


_STREAM = '''class {name}(torch.utils.data.IterableDataset):
    """Every n-th row of a stream, and equally many on each process."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        dealt = []
        for row in self.rows:
            dealt.append(row)
            if len(dealt) == {world_size}:
                yield dealt[{rank}]
                dealt = []'''
_LENGTH = """

    def __len__(self):
        return len(self.rows) // {world_size}"""
_CHANCE = ("random.", "numpy.random.", "torch.rand", "torch.randperm", "torch.normal")


def share_stream(script: Script, rows: ast.expr, stream: ast.ClassDef | ast.Call, header: Header) -> None:
    """Deal the rows of a stream out to the processes, each of which reads it whole.

    Raises:
        AdoptError: The script asks the loader for more than the rows of the stream.
    """
    for attribute in script.nodes(ast.Attribute):
        if getattr(attribute.value, "attr", "") == "dataset":
            help_ = "keep the stream in a variable, and ask that"
            message = "this stream is asked through its loader, which gets a share of it"
            raise script.refuse(attribute, message, help_)
    names, share = header.names, script.new_name("StreamShare")
    parts = {"name": share, "rank": names.rank, "world_size": names.world_size}
    methods = {method.name for method in getattr(stream, "body", ()) if isinstance(method, ast.FunctionDef)}
    header.helpers.append((_STREAM + (_LENGTH if "__len__" in methods else "")).format(**parts))
    script.replace(rows, f"{share}({script.written(rows)})", "WS903", _REASON)
    for node in ast.walk(stream) if isinstance(stream, ast.ClassDef) else ():
        name = script.called_name(node)
        if name.startswith(_CHANCE) and not name.endswith((".Random", ".default_rng")):
            help_ = "draw from a generator of its own, which all processes seed alike"
            script.leave(node, f"`{name}` draws for each process apart, so rows may be read twice", help_)
            break


def stride_range(script: Script, counted: ast.Call, header: Header, parser: Parser) -> None:
    """``range(0, n, size)``: each process takes every n-th slice, and all take equally many."""
    start, stop, size = counted.args
    names, step = header.names, _shown(script, size)
    if isinstance(size, ast.Constant):
        if not is_visible(script, parser, size) or not isinstance(size.value, int):
            help_ = "give the batch size a name, and let an option set it"
            raise script.refuse(size, "no option sets the size of these slices", help_)
        step = add_flag(parser, "batch_size", size.value)
    count = _shown(script, stop)
    script.replace(start, f"{names.rank} * {step}", "WS903", _REASON)
    script.replace(stop, f"{count} - {count} % ({step} * {names.world_size})", "WS903", _REASON)
    script.insert_behind(size, f" * {names.world_size}", "WS903", _REASON)


def _shown(script: Script, node: ast.expr) -> str:
    """An operand of a product."""
    text = script.written(node)
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant)
    return text if simple else f"({text})"


def divide_columns(script: Script, made: ast.Call, header: Header) -> None:
    """``batchify(tokens, size)``: the columns of all processes, of which each takes every n-th."""
    columns = lays_out_columns(script, made)
    assert columns is not None
    size, second = columns
    names = header.names
    script.insert_behind(size, f" * {names.world_size}", "WS903", _REASON)
    every = f"{names.rank}::{names.world_size}"
    script.insert_behind(made, f"[:, {every}]" if second else f"[{every}]", "WS903", _REASON)


def share_loader(script: Script, training: Training, header: Header) -> None:
    """Make the loader that a module beside the script has made anew, with a share of its rows."""
    helper = script.new_name("share_rows")
    header.helpers.append(_SHARED.format(name=helper))
    header.imports["from torch.utils.data.distributed import DistributedSampler"] = None
    statement = script.statement(training.loader)
    name = script.written(training.loader_name)
    script.insert_after(statement, [f"{name} = {helper}({name})"], "WS903", _REASON)
