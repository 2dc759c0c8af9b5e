"""A training loop of one's own in PyTorch."""

from __future__ import annotations

import ast

from worldsize.adopting.devices import use_own_gpu
from worldsize.adopting.first_rank import act_on_first_rank, load_everywhere
from worldsize.adopting.flags import Parser, find_parser, set_by_flag, write_flags
from worldsize.adopting.group import join_group, start_header, write_header
from worldsize.adopting.metrics import reduce_metrics
from worldsize.adopting.paths import place_files
from worldsize.adopting.randomness import agree_on_random_numbers, draw_apart
from worldsize.adopting.resuming import resume_from_checkpoints
from worldsize.adopting.rows import divide_rows
from worldsize.adopting.script import Script
from worldsize.adopting.tracing import Tracer
from worldsize.adopting.training import Training, find_training
from worldsize.adopting.wrapping import WRAP, wrap_model, write_wrap
from worldsize.rules.script._module import keyword_argument


def adopt_plain(script: Script, *, random: bool) -> Parser:
    """Edit the script; ``random`` says whether its layers or its rows draw random numbers.

    Raises:
        AdoptError: Something that decides about correct training cannot be told from the text.
    """
    tracer = Tracer(script)
    training = find_training(script, tracer)
    header = start_header(script)
    header.imports |= dict.fromkeys(("import os", "import torch", f"from torch.nn.parallel import {WRAP}"))
    parser = find_parser(script)
    wrapped = wrap_model(script, tracer, training)
    divide_rows(script, tracer, training, header)
    use_own_gpu(script, header)
    _set_numbers(script, tracer, parser, training)
    place_files(script, tracer, parser, header)
    reduce_metrics(script, tracer, training, header)
    resume_from_checkpoints(script, tracer, training, parser, header, wrapped)
    write_wrap(script, wrapped)
    agree_on_random_numbers(script, header)
    draw_apart(script, tracer, header, wrapped, random=random)
    act_on_first_rank(script, header)
    load_everywhere(script)
    join_group(script, header, [training.loader, training.optimizer, wrapped.anchor])
    write_flags(script, parser, header)
    write_header(script, header)
    return parser


def _set_numbers(script: Script, tracer: Tracer, parser: Parser, training: Training) -> None:
    loader, optimizer, loop = training.loader, training.optimizer, training.epoch_loop
    size = keyword_argument(loader, "batch_size") or (loader.args[1] if len(loader.args) > 1 else None)
    rate = keyword_argument(optimizer, "lr") or (optimizer.args[1] if len(optimizer.args) > 1 else None)
    if size is None:
        script.leave(loader, "no option sets the batch size here", "give `batch_size=` to the loader")
    else:
        set_by_flag(script, tracer, parser, "batch_size", size)
    if rate is None:
        script.leave(optimizer, "no option sets the learning rate here", "give `lr=` to the optimizer")
    else:
        set_by_flag(script, tracer, parser, "learning_rate", rate)
    for node in ast.walk(loop.iter) if isinstance(loop, ast.For) else ():
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "range"
            and node.args
        ):
            set_by_flag(script, tracer, parser, "epochs", node.args[min(1, len(node.args) - 1)])
            break
