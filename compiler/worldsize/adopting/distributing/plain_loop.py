"""A training loop of one's own in PyTorch."""

from __future__ import annotations

import ast
from pathlib import Path

from worldsize.adopting.distributing.accumulation import sync_once
from worldsize.adopting.distributing.devices import may_use_gpu, refuse_several_gpus, use_own_gpu
from worldsize.adopting.distributing.downloads import wait_for_downloads
from worldsize.adopting.distributing.first_rank import act_on_first_rank
from worldsize.adopting.distributing.group import join_group
from worldsize.adopting.distributing.loading import load_everywhere
from worldsize.adopting.distributing.losses import add_up_sums
from worldsize.adopting.distributing.metrics import reduce_metrics
from worldsize.adopting.distributing.numbers import leave_counted_steps, set_epochs, set_feed, set_optimizer
from worldsize.adopting.distributing.paths import place_files
from worldsize.adopting.distributing.randomness import (
    agree_on_random_numbers,
    draw_apart,
    draw_rows_apart,
    draw_samples_apart,
)
from worldsize.adopting.distributing.resuming import resume_from_checkpoints
from worldsize.adopting.distributing.rows import divide_rows
from worldsize.adopting.distributing.savers_beside import leave_paths_beside
from worldsize.adopting.distributing.wrapping import WRAP, wrap_model, write_wrap
from worldsize.adopting.options.flags import write_flags
from worldsize.adopting.options.parsers import Parser, find_parser
from worldsize.adopting.source.beside import list_imported_beside
from worldsize.adopting.source.header import start_header, write_header
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer
from worldsize.adopting.training.refusals import refuse_savers, refuse_sparse
from worldsize.adopting.training.search import find_training


def adopt_plain(script: Script, *, random: bool) -> Parser:
    """Edit the script; ``random`` says whether its layers or its rows draw random numbers.

    Raises:
        AdoptError: Something that decides about correct training cannot be told from the text.
    """
    refuse_several_gpus(script)
    refuse_sparse(script)
    refuse_savers(script)
    tracer = Tracer(script)
    training = find_training(script, tracer)
    header = start_header(script)
    header.imports |= dict.fromkeys(("import os", "import torch", f"from torch.nn.parallel import {WRAP}"))
    parser = find_parser(script)
    header.on_gpu = may_use_gpu(script, parser)
    if not header.on_gpu:
        help_ = "make a `device`, `cuda` where it is available, and move the model and each batch to it"
        script.leave(
            training.model, "this script trains on the processor: nothing moves this model to a GPU", help_
        )
    downloads = wait_for_downloads(script, header)
    wrapped = wrap_model(script, tracer, training)
    sync_once(script, training, wrapped)
    divide_rows(script, tracer, training, header, parser)
    use_own_gpu(script, header, parser)
    set_feed(script, tracer, parser, training)
    set_optimizer(script, tracer, parser, training.optimizer)
    if training.epoch_loop is not None or training.feed.kind != "draws":
        set_epochs(script, tracer, parser, training.epoch_loop)
    leave_counted_steps(script, tracer)
    place_files(script, tracer, parser, header)
    leave_paths_beside(script)
    reduce_metrics(script, tracer, training, header)
    add_up_sums(script, tracer, training, header)
    resume_from_checkpoints(script, tracer, training, wrapped, parser=parser, header=header)
    write_wrap(script, wrapped)
    agree_on_random_numbers(script, header, by_place=training.feed.kind in ("ranges", "columns"))
    if training.feed.kind == "draws":
        draw_rows_apart(script, header, wrapped, training.feed.libraries)
    else:
        random = random and training.feed.kind != "ranges"  # whose order all processes draw alike
        draw_apart(script, tracer, header, wrapped, parser, random=random)
        draw_samples_apart(script, tracer, header, wrapped, parser)
    chain = [frame.scope for frame in training.frames]
    act_on_first_rank(script, header, {each.name for each in chain if not isinstance(each, ast.Module)})
    load_everywhere(script)
    _leave_norm(script)
    in_file = wrapped.anchor in script.module.tree.body and not training.is_attribute
    places = [training.loader, training.optimizer, wrapped.anchor, *downloads]
    join_group(script, header, places, wrapped.name if in_file else None)
    write_flags(script, parser, header)
    write_header(script, header)
    return parser


def _leave_norm(script: Script) -> None:
    """Say what batch normalization computes in each process."""
    help_ = (
        "on GPUs, `nn.SyncBatchNorm.convert_sync_batchnorm(model)` takes the rows of all processes,"
        " and is slower: write it under `if torch.cuda.is_available():`"
    )
    takes = "takes the mean of the rows of one process"
    own = next((call for name, call in script.module.calls if _is_norm(name)), None)
    if own is not None:
        script.leave(own, f"batch normalization {takes}", help_)
        return
    for module, statement in list_imported_beside(script.module):
        if any(_is_norm(name) for name, _ in module.calls):
            path = Path(module.source.path).name
            script.leave(statement, f"the batch normalization in `{path}` {takes}", help_)
            return


def _is_norm(name: str) -> bool:
    return name.rpartition(".")[2].startswith("BatchNorm")
