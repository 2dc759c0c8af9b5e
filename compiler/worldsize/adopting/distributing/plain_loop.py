"""A training loop of one's own in PyTorch."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from worldsize.adopting.distributing.curves import log_curves
from worldsize.adopting.distributing.files import above_tests, leave_paths_beside, load_everywhere
from worldsize.adopting.distributing.first_rank import act_on_first_rank
from worldsize.adopting.distributing.group import join_group
from worldsize.adopting.distributing.metrics import reduce_metrics
from worldsize.adopting.distributing.numbers import (
    leave_counted_steps,
    set_accumulation,
    set_epochs,
    set_feed,
    set_optimizer,
)
from worldsize.adopting.distributing.own_checkpoints import extend_own_checkpoints
from worldsize.adopting.distributing.paths import place_files
from worldsize.adopting.distributing.randomness import (
    agree_on_random_numbers,
    draw_apart,
    draw_rows_apart,
    draw_samples_apart,
)
from worldsize.adopting.distributing.resuming import resume_from_checkpoints
from worldsize.adopting.distributing.rows import divide_rows
from worldsize.adopting.distributing.wrapping import WRAP, Wrapped, wrap_model, write_wrap
from worldsize.adopting.options.flags import write_flags
from worldsize.adopting.options.parsers import Parser, find_parser
from worldsize.adopting.source.header import Header, start_header, write_header
from worldsize.adopting.source.reading import read_beside
from worldsize.adopting.source.script import Script
from worldsize.adopting.training.profile import find_optimizer_name
from worldsize.adopting.training.refusals import refuse_savers, refuse_sparse
from worldsize.adopting.training.search import Training, find_owner, find_training
from worldsize.scripts.loops import find_loop
from worldsize.scripts.module import constant_value, keyword_argument, variable_writes


def adopt_plain(script: Script, *, random: bool) -> Parser:
    """Edit the script; ``random`` says whether its layers or its rows draw random numbers.

    Raises:
        AdoptError: Something that decides about correct training cannot be told from the text.
    """
    refuse_several_gpus(script)
    refuse_sparse(script)
    refuse_savers(script)
    training = find_training(script)
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
    wrapped = wrap_model(script, training)
    steps = sync_once(script, training, wrapped)
    divide_rows(script, training, header, parser)
    use_own_gpu(script, header, parser)
    _use_numbered_gpu(script, header)
    _drop_data_parallel(script)
    set_feed(script, parser, training)
    set_optimizer(script, parser, training.optimizer)
    if _divides_by(script, steps):
        set_accumulation(script, parser, steps)
    if training.epoch_loop is not None or training.feed.kind != "draws":
        set_epochs(script, parser, training.epoch_loop)
    leave_counted_steps(script)
    place_files(script, parser, header)
    leave_paths_beside(script)
    reduce_metrics(script, training, header)
    log_curves(script, training, header)
    add_up_sums(script, training, header)
    if not extend_own_checkpoints(script, training, wrapped, parser=parser, header=header):
        resume_from_checkpoints(script, training, wrapped, parser=parser, header=header)
    write_wrap(script, wrapped)
    agree_on_random_numbers(script, header, by_place=training.feed.kind in ("ranges", "columns"))
    if training.feed.kind == "draws":
        draw_rows_apart(script, header, wrapped, training.feed.libraries)
    else:
        random = random and training.feed.kind != "ranges"  # whose order all processes draw alike
        draw_apart(script, header, wrapped, parser, random=random)
        draw_samples_apart(script, header, wrapped, parser)
    chain = [frame.scope for frame in training.frames]
    act_on_first_rank(script, header, {node.name for node in chain if not isinstance(node, ast.Module)})
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
    modules, importers, _, _ = read_beside(script.module)
    place: ast.AST
    for module in modules:
        for name, call in module.calls:
            if name.rpartition(".")[2].startswith("BatchNorm"):
                where = f"the batch normalization in `{Path(module.source.path).name}`"
                what = "batch normalization" if module is script.module else where
                importer, place = module, call
                while importer is not script.module:  # to the import of the script that leads there
                    importer, place = importers[importer]
                script.leave(place, f"{what} takes the mean of the rows of one process", help_)
                return


_REASON = "gradients travel once an optimizer step, as with `no_sync`"


def _divides_by(script: Script, steps: ast.expr | None) -> bool:
    """Whether the script divides by the batches of a step, under a name, so that their number can change."""
    if not isinstance(steps, ast.Name | ast.Attribute | ast.Subscript):
        return False
    divisors = [node.right for node in script.nodes(ast.BinOp) if isinstance(node.op, ast.Div)]
    divisors += [node.value for node in script.nodes(ast.AugAssign) if isinstance(node.op, ast.Div)]
    return ast.unparse(steps) in map(ast.unparse, divisors)


def sync_once(script: Script, training: Training, wrapped: Wrapped) -> ast.expr | None:
    """Average the gradients once an optimizer step, where several batches are accumulated: their number."""
    loop = training.batch_loop
    names = {
        node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    steps = _sync_last(script, training, wrapped)
    if not isinstance(loop, ast.For):
        return steps
    names -= {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    for node in ast.walk(loop):
        if not isinstance(node, ast.If) or training.batch_frame or node.orelse:
            continue
        calls = (
            inner for inner in ast.walk(node) if getattr(getattr(inner, "func", None), "attr", "") == "step"
        )
        owners = [script.written(find_owner(call)) for call in calls if isinstance(call, ast.Call)]
        is_step = script.written(training.optimizer_name) in owners  # and not only a scheduler
        divided = (part for part in ast.walk(node.test) if isinstance(part, ast.BinOp))
        counts = [part.right for part in divided if isinstance(part.op, ast.Mod)]
        outside = all(name.id not in names for name in ast.walk(node.test) if isinstance(name, ast.Name))
        if is_step and counts and outside and "\n" not in script.written(node.test):
            _sync_when(script, loop, wrapped, script.written(node.test))
            return counts[0]
    return steps


def _sync_last(script: Script, training: Training, wrapped: Wrapped) -> ast.expr | None:
    """The same for ``for micro_step in range(steps):`` inside of a step."""
    inner = find_loop(script.module, training.backward)
    if (
        not isinstance(inner, ast.For)
        or inner is training.batch_loop
        or not isinstance(inner.target, ast.Name)
    ):
        return None
    counted = inner.iter
    is_range = isinstance(counted, ast.Call) and getattr(counted.func, "id", "") == "range"
    if isinstance(counted, ast.Call) and is_range and len(counted.args) == 1:
        last = script.written(counted.args[0])
        simple = isinstance(counted.args[0], ast.Name | ast.Attribute)
        if simple and inner.target.id != "_" and script.is_under(inner, training.batch_loop):
            _sync_when(script, inner, wrapped, f"{inner.target.id} == {last} - 1")
            return counted.args[0]
    return None


def _sync_when(script: Script, loop: ast.For, wrapped: Wrapped, test: str) -> None:
    scope = script.scope(loop)
    name = wrapped.name if isinstance(scope, ast.Module) else wrapped.parameters.get(scope, wrapped.name)
    line = f"{name}.require_backward_grad_sync = {test}"
    script.insert_before(loop.body[0], [line], "WS918", _REASON)


_GPU = re.compile(r"cuda|gpu|torch\.accelerator|current_accelerator|\bmps\b|\bxpu\b", re.IGNORECASE)
_NUMBER = re.compile(r"device|gpu|gpu_id|cuda_id|device_id|cuda_device")
_DEVICE_REASON = "each process uses the GPU of its local rank, which `set_device` makes the current one"


def refuse_several_gpus(script: Script) -> None:
    """Refuse a script that spreads one model over GPUs itself."""
    for node in script.nodes(ast.Constant):
        if isinstance(node.value, str) and re.fullmatch(r"cuda:[1-9]", node.value):
            help_ = "train on one GPU first: each process gets its own"
            raise script.refuse(node, f"this script uses several GPUs itself: `{node.value}`", help_)


def may_use_gpu(script: Script, parser: Parser) -> bool:
    """Whether the script, or a module beside it, names a GPU; else it trains on the processor."""
    if any(option.name in ("device", "accelerator") for option in parser.options.declared):
        return True
    return any(module.holding(_GPU.search) for module in read_beside(script.module).modules)


def use_own_gpu(script: Script, header: Header, parser: Parser) -> None:
    """Take the numbers of GPUs out: ``cuda`` is the GPU that the process has chosen."""
    module = script.module
    for node in module.kinds.get(ast.Constant, ()):
        if isinstance(node.value, str) and re.fullmatch(r"cuda:0", node.value):
            written = script.written(node)
            script.replace(node, written.replace("cuda:0", "cuda"), "WS905", _DEVICE_REASON)
    for name, call in module.calls:
        if name.endswith(".cuda") and len(call.args) == 1 and constant_value(call.args[0]) == 0:
            script.replace(call.args[0], "", "WS905", _DEVICE_REASON)
        elif name.endswith("cuda.set_device") and call.args:
            script.replace(call.args[0], header.names.local_rank, "WS905", _DEVICE_REASON)
        elif name == "torch.device" and [constant_value(argument) for argument in call.args] == ["cuda", 0]:
            script.replace(call.args[1], header.names.local_rank, "WS905", _DEVICE_REASON)
    for variable, _, statement in variable_writes(module):
        if variable == "CUDA_VISIBLE_DEVICES":
            script.delete(statement, "WS905", "every process would see the same GPU")
    _set_option(script, header, parser)


def _use_numbered_gpu(script: Script, header: Header) -> None:
    """``gpu_id = 0`` of a script."""
    for node in script.nodes(ast.Assign):
        name = getattr(node.targets[0], "id", "")
        if _NUMBER.fullmatch(name) and type(constant_value(node.value)) is int:
            script.replace(node.value, header.names.local_rank, "WS905", _DEVICE_REASON)


def _set_option(script: Script, header: Header, parser: Parser) -> None:
    """``--gpu 0`` of a script: its value is the local rank wherever it is read.

    Raises:
        AdoptError: Where its value is kept cannot be told.
    """
    for option in parser.options.declared:
        if not _NUMBER.fullmatch(option.name) or not isinstance(option.flag.default, int | None):
            continue
        if isinstance(option.node, ast.Call) and keyword_argument(option.node, "action") is not None:
            continue  # `--gpu` alone: whether there is one
        value = parser.place.format(option.name)
        if parser.function is not None or parser.name:
            line = f"    {value} = {header.names.local_rank}  # each process uses the GPU of its local rank"
            parser.then += ["if torch.cuda.is_available():", line]
        elif option.flag.type == "int":
            help_ = "keep what is parsed in a variable, `args = parser.parse_args()`"
            message = f"`{option.flag.option}` names a GPU, and every process would take the same"
            raise script.refuse(option.node, message, help_)


def _drop_data_parallel(script: Script) -> None:
    reason = "one process per GPU takes the place of `DataParallel`"
    names: set[str] = set()
    for call in script.module.called("nn.DataParallel", "DataParallel"):
        if not call.args:
            continue
        model = script.written(call.args[0])
        statement = script.statement(call)
        names.add(model)
        if isinstance(statement, ast.Assign) and script.written(statement.targets[0]) == model:
            script.delete(statement, "WS915", reason)
        else:
            if isinstance(statement, ast.Assign):
                names.add(script.written(statement.targets[0]))
            script.replace(call, model, "WS915", reason)
    for node in script.nodes(ast.Attribute) if names else ():
        if node.attr == "module" and script.written(node.value) in names:
            script.replace(node, script.written(node.value), "WS915", reason)


_DOWNLOAD_REASON = "the other processes of a node wait until the first has the files"


def wait_for_downloads(script: Script, header: Header) -> list[ast.stmt]:
    """Let one process of each node come first to ``download=True``; the statements that need the group."""
    statements: list[ast.stmt] = []
    for _, call in script.module.calls:
        if constant_value(keyword_argument(call, "download")) is not True:
            continue
        statement = script.statement(call)
        if statement in statements:
            continue
        plain = isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr) and script.has_own_line(
            statement
        )
        alike = above_tests(script, statement) is statement and script.scope(call) not in script.sampling
        if plain and alike:
            statements.append(statement)
        else:
            script.leave(
                call, "all processes download this at the same time", "assign it to a variable first"
            )
    rank = header.names.local_rank
    for run in _list_runs(script, statements):
        script.insert_before(run[0], [f"if {rank} != 0:", "    dist.barrier()"], None, _DOWNLOAD_REASON)
        script.insert_after(run[-1], [f"if {rank} == 0:", "    dist.barrier()"], None, _DOWNLOAD_REASON)
    return statements


def _list_runs(script: Script, statements: list[ast.stmt]) -> list[list[ast.stmt]]:
    """Those that follow each other in a block, in their order."""
    runs: list[list[ast.stmt]] = []
    for statement in sorted(statements, key=lambda statement: statement.lineno):
        block = script.block(statement)
        place = block.index(statement)
        if place and runs and runs[-1][-1] is block[place - 1]:
            runs[-1].append(statement)
        else:
            runs.append([statement])
    return runs


_LOSS_REASON = "the gradients are averaged, and this loss is a sum over the rows of all processes"
_DEPTH = 10


def add_up_sums(script: Script, training: Training, header: Header) -> None:
    """Multiply a loss that is a sum over rows by the number of processes.

    Raises:
        AdoptError: The loss adds a sum and a mean, which no common factor keeps.
    """
    assert isinstance(training.backward.func, ast.Attribute)
    loss = training.backward.func.value
    scaled = script.called_name(loss).endswith("scale")
    if isinstance(loss, ast.Call) and scaled and loss.args:
        loss = loss.args[0]
    kinds = _judge(script, loss, _DEPTH)
    if "sum" not in kinds and kinds != {"added"}:
        return
    if "mean" in kinds:
        help_ = "use the same `reduction` for all of its parts: a mean needs no change"
        raise script.refuse(loss, "this loss adds a sum over the rows and a mean over them", help_)
    product = f"{script.written(loss)} * {header.names.world_size}"
    atom = isinstance(loss, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    text = product if atom else f"({script.written(loss)}) * {header.names.world_size}"
    script.replace(loss, text if scaled else f"({text})", None, _LOSS_REASON)
    if find_optimizer_name(script.module) == "sgd":
        message = "this loss is a sum over rows: its gradients grow with the batch, as the planned rate does"
        script.leave(loss, message, 'take the mean, `reduction="mean"`, and find its learning rate')


def _judge(script: Script, node: ast.expr, depth: int) -> set[str]:
    """How the parts of a loss are reduced: `sum`, `added` by a call of `sum`, `mean`, or `other`."""
    if not depth or isinstance(node, ast.Constant):
        return set()
    if isinstance(node, ast.UnaryOp):
        return _judge(script, node.operand, depth - 1)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Div) and not _is_number(script, node.right):
            return {"mean"}
        kinds = _judge(script, node.left, depth - 1)
        right = set() if isinstance(node.op, ast.Div) else _judge(script, node.right, depth - 1)
        # The weight of a product is not a loss.
        return kinds | (right - {"other"} if isinstance(node.op, ast.Mult) else right)
    if isinstance(node, ast.Call):
        return _judge_call(script, node, depth)
    value = script.step(node)
    return {"other"} if value is None else _judge(script, value, depth - 1)


def _is_number(script: Script, node: ast.expr) -> bool:
    value = script.value(node)
    name = getattr(node, "id", getattr(node, "attr", ""))
    return isinstance(value, ast.Constant) or "accum" in name.lower()


def _judge_call(script: Script, call: ast.Call, depth: int) -> set[str]:
    name = script.module.name_of(call.func)
    last = name.rpartition(".")[2]
    function = script.function(call)
    if function is not None and function.name != "__init__":
        values = script.returns(function)
        return _judge(script, values[-1], depth - 1) if values else {"other"}
    if last == "sum":
        whole = len(call.args) + len(call.keywords) == int(name == "torch.sum")
        return {"added"} if whole and "parameters" not in ast.unparse(call) else {"other"}
    if last == "mean":
        return {"mean"}
    made: ast.expr = call
    if isinstance(call.func, ast.Name | ast.Attribute):
        followed = script.value(call.func)
        made = followed if isinstance(followed, ast.Call) else call
    if isinstance(made, ast.Call):
        return {_read_reduction(made, script.module.name_of(made.func))}
    return {"other"}


def _read_reduction(call: ast.Call, name: str) -> str:
    """What a loss function, or the class of one, does with the rows."""
    reduction = constant_value(keyword_argument(call, "reduction"))
    if reduction == "sum" or constant_value(keyword_argument(call, "size_average")) is False:
        return "sum"
    is_loss = name.lower().endswith(("loss", "entropy", "entropy_with_logits", "kl_div"))
    return "mean" if is_loss and reduction in (None, "mean", "batchmean") else "other"
