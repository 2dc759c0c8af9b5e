"""Divide what no sampler divides: slices of a range, streams, their columns, a loader of another module."""

from __future__ import annotations

import ast

from worldsize.adopting.options.flags import add_flag
from worldsize.adopting.options.parsers import Parser
from worldsize.adopting.options.reaching import is_visible
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer
from worldsize.adopting.training.feeding import lays_out_columns
from worldsize.adopting.training.search import Training

_REASON = "each process trains on its own share of the rows"
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
    asked = [node for node in script.module.kinds.get(ast.Attribute, ())
             if isinstance(node.value, ast.Attribute) and node.value.attr == "dataset"]  # fmt: skip
    for node in asked:
        help_ = "keep the stream in a variable, and ask that"
        raise script.refuse(node, "this stream is asked through its loader, which gets a share of it", help_)
    names, share = header.names, script.new_name("StreamShare")
    parts = {"name": share, "rank": names.rank, "world_size": names.world_size}
    known = {each.name for each in getattr(stream, "body", ()) if isinstance(each, ast.FunctionDef)}
    header.helpers.append((_STREAM + (_LENGTH if "__len__" in known else "")).format(**parts))
    script.replace(rows, f"{share}({script.written(rows)})", "WS903", _REASON)
    for node in ast.walk(stream) if isinstance(stream, ast.ClassDef) else ():
        name = script.module.name_of(node.func) if isinstance(node, ast.Call) else ""
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


def divide_columns(script: Script, tracer: Tracer, made: ast.Call, header: Header) -> None:
    """``batchify(tokens, size)``: the columns of all processes, of which each takes every n-th."""
    found = lays_out_columns(tracer, made)
    assert found is not None
    size, second = found
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
