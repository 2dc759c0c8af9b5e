"""Divide the rows of the training loader among the processes, in a new order each epoch."""

from __future__ import annotations

import ast

from worldsize.adopting.group import Header
from worldsize.adopting.script import Script
from worldsize.adopting.tracing import Tracer
from worldsize.adopting.training import Training, lift_name
from worldsize.rules.script._module import constant_value, keyword_argument

_REASON = "each process trains on its own share of the rows"
_SHARE = '''class RankShare(torch.utils.data.Sampler):
    """Every n-th of the rows that a sampler draws: the first process draws them for all."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        drawn = [list(self.sampler)]
        dist.broadcast_object_list(drawn)
        whole = len(self) * {world_size}
        return iter(drawn[0][{rank}:whole:{world_size}])

    def __len__(self):
        return len(self.sampler) // {world_size}'''


def divide_rows(script: Script, tracer: Tracer, training: Training, header: Header) -> None:
    """Give the loader a sampler, and call its ``set_epoch``.

    Raises:
        AdoptError: The rows cannot be divided without knowing more.
    """
    loader = training.loader
    rows = loader.args[0] if loader.args else keyword_argument(loader, "dataset")
    if rows is None or any(isinstance(each, ast.Starred) for each in loader.args):
        raise script.refuse(
            loader, "which rows this loader reads cannot be told", "name them: `DataLoader(rows, …)`"
        )
    batches = keyword_argument(loader, "batch_sampler")
    if batches is not None and constant_value(batches) is None:
        help_ = "use `sampler=`, whose rows can be divided, or divide the batches by rank in your sampler"
        raise script.refuse(
            batches, "an own `batch_sampler` gives whole batches, which nothing divides", help_
        )
    _refuse_stream(script, tracer, rows)
    own = keyword_argument(loader, "sampler")
    if own is not None and not (isinstance(own, ast.Constant) and own.value is None):
        share = script.new_name("RankShare")
        names = header.names
        text = _SHARE.format(rank=names.rank, world_size=names.world_size).replace("RankShare", share)
        header.helpers.append(text)
        script.replace(own, f"{share}({script.written(own)})", "WS903", _REASON)
        return
    header.imports["from torch.utils.data.distributed import DistributedSampler"] = None
    _add_sampler(script, loader, rows)
    _set_epoch(script, tracer, training)


def _refuse_stream(script: Script, tracer: Tracer, rows: ast.expr) -> None:
    value, _ = tracer.follow(rows, script.scope(rows))
    name = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
    bases = [ast.unparse(base) for base in tracer.classes[name].bases] if name in tracer.classes else []
    if any("IterableDataset" in base for base in bases):
        help_ = (
            f"yield every n-th row by rank in `{name}`, equally many on each, or use a map-style `Dataset`"
        )
        raise script.refuse(rows, f"`{name}` is a stream of rows, which no sampler divides", help_)


def _add_sampler(script: Script, loader: ast.Call, rows: ast.expr) -> None:
    name = script.written(rows)
    if not isinstance(rows, ast.Name | ast.Attribute | ast.Subscript):
        held = script.new_name("train_rows")
        script.insert_before(
            script.statement(loader), [f"{held} = {name}"], "WS903", "the sampler counts the rows"
        )
        script.replace(rows, held, "WS903", "the sampler counts the rows")
        name = held
    shuffle = next((each for each in loader.keywords if each.arg == "shuffle"), None)
    place: ast.AST | None = shuffle
    drawn: ast.expr | None = shuffle.value if shuffle is not None else None
    if len(loader.args) > 2:
        place = drawn = loader.args[2]
        if len(loader.args) > 3:
            raise script.refuse(loader.args[3], "this option of `DataLoader` is given by position", "name it")
    last = ", drop_last=True" if constant_value(keyword_argument(loader, "drop_last")) is True else ""
    made = f"sampler=DistributedSampler({name}{last})"
    if drawn is None or constant_value(drawn) is False:
        made = f"sampler=DistributedSampler({name}, shuffle=False{last})"
    elif constant_value(drawn) is not True:
        made = f"{made} if {script.written(drawn)} else None"
    none = next((each for each in loader.keywords if each.arg == "sampler"), None)
    if none is not None:  # `sampler=None`
        script.replace(none, made, "WS903", _REASON)
        if place is not None:
            script.replace(place, "shuffle=False", "WS903", "a sampler and `shuffle` exclude each other")
    elif place is not None:
        script.replace(place, made, "WS903", _REASON)
    else:
        behind = max((*loader.args, *loader.keywords), key=script.end)
        script.insert_behind(behind, f", {made}", "WS903", _REASON)


def _set_epoch(script: Script, tracer: Tracer, training: Training) -> None:
    loop = training.epoch_loop
    if not isinstance(loop, ast.For):
        return
    name = lift_name(
        script, tracer, training, training.loader_name, (training.batch_frame, training.epoch_frame)
    )
    if name is None:
        help_ = "pass the loader to the function as a parameter"
        raise script.refuse(loop, "this loop over epochs cannot name the loader of the training rows", help_)
    script.insert_before(
        loop.body[0], [f"{name}.sampler.set_epoch({name_epoch(script, loop)})"], "WS902",
        "the rows come in a new order each epoch",
    )  # fmt: skip


def name_epoch(script: Script, loop: ast.For) -> str:
    """The variable that counts the epochs; ``_`` gets a name."""
    target = loop.target
    if isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
        target = target.elts[0]
    if not isinstance(target, ast.Name):
        raise script.refuse(target, "this loop counts no epochs", "write `for epoch in range(…)`")
    if target.id != "_":
        return target.id
    name = script.module.memo.get((name_epoch, loop))
    if name is None:
        name = script.module.memo[name_epoch, loop] = script.new_name("epoch")
        script.replace(target, name, None, "the epoch is needed by its number")
    return str(name)
