"""Keras under `MultiWorkerMirroredStrategy`: one process per instance, which drives all of its GPUs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.adopting.distributing.first_rank import act_on_first_rank
from worldsize.adopting.distributing.numbers import set_optimizer
from worldsize.adopting.distributing.paths import place_files
from worldsize.adopting.distributing.randomness import agree_on_random_numbers
from worldsize.adopting.libraries.resuming_trainers import resume_keras
from worldsize.adopting.options.flags import set_by_flag, write_flags
from worldsize.adopting.options.parsers import Parser, find_parser
from worldsize.adopting.source.header import (
    MARK,
    Header,
    Names,
    find_top,
    first_statement,
    name_ranks,
    write_header,
)
from worldsize.adopting.source.script import Script
from worldsize.adopting.training.refusals import APART, list_fits
from worldsize.scripts.module import constant_value, find_alias, find_passed, keyword_argument

_TOGETHER = ("fit", "evaluate", "predict", "save", "save_weights", "train", "compile")
_SCOPE = "the weights of all workers are kept equal"


def adopt_keras(script: Script) -> Parser:
    """Build the model in the scope of the strategy, and multiply the batch by the workers.

    Raises:
        AdoptError: It is Keras 3 without TensorFlow's, or where the model is built cannot be told.
    """
    module, parser = script.module, find_parser(script)
    imported = next(
        (statement for name, _, statement in module.imports if name.partition(".")[0] == "keras"), None
    )
    if imported is not None:
        help_ = "import it as `from tensorflow import keras`: that is Keras 2 with `TF_USE_LEGACY_KERAS=1`"
        raise script.refuse(imported, "`fit` of Keras 3 cannot train on several workers", help_)
    fits = list_fits(module)
    if len(fits) > 1:
        raise script.refuse(fits[1], "a second `fit` trains here", APART)
    names = name_ranks(script)
    header = Header(names, imports={"import json": None, "import os": None})
    alias = find_alias(module, "tensorflow")
    if alias is None:
        header.imports["import tensorflow as tf"] = None
    strategy = script.new_name("strategy")
    header.constants = [
        f"# {MARK}",
        f'{names.rank} = json.loads(os.environ.get("TF_CONFIG", "{{}}")).get("task", {{}}).get("index", 0)',
        f"{strategy} = {alias or 'tf'}.distribute.MultiWorkerMirroredStrategy()",
    ]
    _choose_legacy(script, header, alias)
    header.imports.pop("import os")
    _build_in_scope(script, fits[0], strategy)
    _set_numbers(script, parser, fits[0], strategy)
    place_files(script, parser, header)
    agree_on_random_numbers(script, header, of_torch=False)
    _save_apart(script, header, names)
    resume_keras(script, parser, header, fits[0], f"{alias or 'tf'}.keras")
    script.set_keyword(
        fits[0], "verbose", _verbosity(script, fits[0], names), "WS904", "the first worker prints for all"
    )
    act_on_first_rank(script, header, _TOGETHER)
    write_flags(script, parser, header)
    write_header(script, header)
    return parser


def _choose_legacy(script: Script, header: Header, alias: str | None) -> None:
    first = next(s for name, _, s in script.module.imports if name.partition(".")[0] == "tensorflow")
    if not isinstance(script.scope(first), ast.Module):
        help_ = "import it at the top of the file: the strategy is made before anything else"
        raise script.refuse(first, "TensorFlow is imported inside of a function", help_)
    lines = [
        "import os",
        "",
        'os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # `fit` of Keras 3 takes one worker only',
    ]
    top = find_top(script)
    if top is None or top.lineno < first.lineno:  # the strategy is made above it
        line = "import tensorflow" if alias == "tensorflow" else f"import tensorflow as {alias or 'tf'}"
        header.imports[line] = None
        first = first_statement(script)
    if any(name == "os" and statement.lineno < first.lineno for name, _, statement in script.module.imports):
        lines = lines[2:]
    script.insert_before(first, lines, "WS921", "Keras 2 trains on several workers, Keras 3 does not")


def _build_in_scope(script: Script, fit: ast.Call, strategy: str) -> None:
    assert isinstance(fit.func, ast.Attribute)
    model = script.written(fit.func.value)
    made = [
        node
        for node in script.nodes(ast.Assign)
        if script.written(node.targets[0]) == model and script.scope(node) is script.scope(fit)
    ]
    if len(made) != 1:
        help_ = "build it in the function that calls `fit`"
        raise script.refuse(fit, f"where `{model}` is built cannot be told", help_)
    block = script.block(made[0])
    compiles = [
        script.statement(call)
        for call in script.module.called("compile")
        if isinstance(call.func, ast.Attribute) and script.written(call.func.value) == model
    ]
    inside = [call for call in compiles if call in block]
    last = inside[-1] if inside else made[0]
    part = block[_find_first(script, block, made[0]) : block.index(last) + 1]
    value = made[0].value
    if len(part) == 1 and isinstance(value, ast.Call) and not compiles and script.function(value) is None:
        raise script.refuse(fit, f"nothing compiles `{model}` here", "compile it where it is built")
    script.enclose(part, f"with {strategy}.scope():", "WS952", _SCOPE)


def _find_first(script: Script, block: list[ast.stmt], made: ast.Assign) -> int:
    """Where the layers of a functional model start: their weights belong to the strategy too."""
    first = block.index(made)
    wanted = {node.id for node in ast.walk(made.value) if isinstance(node, ast.Name)}
    for position in range(first - 1, -1, -1):
        statement = block[position]
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        names = {
            node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)
        }
        call = statement.value
        top = call.func.func if isinstance(call.func, ast.Call) else call.func
        library = script.module.name_of(top).partition(".")[0] in ("tensorflow", "keras")
        bound = isinstance(call.func, ast.Name) and script.bindings(call.func.id, script.scope(statement))
        if names & wanted and (library or bound or script.function(call) is not None):
            first = position
            wanted |= {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    return first


def _set_numbers(script: Script, parser: Parser, fit: ast.Call, strategy: str) -> None:
    epochs = keyword_argument(fit, "epochs")
    if epochs is not None:
        set_by_flag(script, parser, "epochs", epochs)
    set_batch_size(script, parser, fit, strategy)
    for name, call in script.module.calls:
        if ".optimizers." in f".{name}" and name.rpartition(".")[2][:1].isupper():
            set_optimizer(script, parser, call, 0)
            return
    script.leave(fit, "no option sets the learning rate", "give `compile` an optimizer with its rate")


def _verbosity(script: Script, fit: ast.Call, names: Names) -> str:
    verbosity = keyword_argument(fit, "verbose")
    shown = script.written(verbosity) if verbosity is not None else '"auto"'
    if constant_value(verbosity) == 0:
        return shown
    return f"{shown} if {names.rank} == 0 else 0"


def _save_apart(script: Script, header: Header, names: Names) -> None:
    """All workers save, each to its own place: the first where the script says, the others away."""
    for call in script.module.called("ModelCheckpoint", "CSVLogger"):
        chosen_path = keyword_argument(call, "filepath") or keyword_argument(call, "filename")
        path = chosen_path or next(iter(call.args), None)
        if path is not None:
            _divert(script, header, names, path)
    for call in script.module.called("save", "save_weights"):
        func = call.func
        if not isinstance(func, ast.Attribute) or not call.args or constant_value(func.value) is not None:
            continue
        if "model" not in script.written(func.value).lower():
            continue
        _divert(script, header, names, call.args[0])


def _divert(script: Script, header: Header, names: Names, path: ast.expr) -> None:
    header.imports["import tempfile"] = None
    reason = "saving takes all workers; the files of the others go to a folder of their own"
    value = constant_value(path)
    name = f"os.path.basename({script.written(path)})"
    name = f'"{value.rpartition("/")[2]}"' if isinstance(value, str) else name
    away = f"os.path.join(tempfile.mkdtemp(), {name})"
    script.insert_behind(path, f" if {names.rank} == 0 else {away}", "WS904", reason)


_BATCHES = ("batch", "padded_batch")
_READERS = (
    *("image_dataset_from_directory", "text_dataset_from_directory", "audio_dataset_from_directory"),
    *("timeseries_dataset_from_array", "make_csv_dataset"),
)
_REASON = "Keras divides this batch among the workers"


def set_batch_size(script: Script, parser: Parser, fit: ast.Call, strategy: str) -> None:
    """Multiply the batch that `fit` is given, or that its dataset has, by the number of replicas."""
    size = keyword_argument(fit, "batch_size")
    sizes = [size] if size is not None else []
    if not sizes:
        rows = find_passed(fit, 0, "x")
        drawn_size = next(_list_sizes(script, rows, set()), None) if rows is not None else None
        batches = (call for call in script.module.called(*_BATCHES, *_READERS) if hasattr(call.func, "attr"))
        made = [drawn for call in batches if (drawn := _find_size(script, call)) is not None]
        # Also of what is evaluated like it.
        sizes = [drawn for drawn in made if _is_same(script, drawn, drawn_size)]
    if not sizes:
        help_ = f"batch it by the rows of all workers: `{strategy}.num_replicas_in_sync` times as many"
        script.leave(fit, "`fit` is given no batch size here", help_)
        return
    seen: set[ast.expr] = set()
    for batch_size in sizes:
        value = script.value(batch_size)
        if value not in seen:
            set_by_flag(script, parser, "batch_size", batch_size)
        seen.add(value)
        script.insert_behind(batch_size, f" * {strategy}.num_replicas_in_sync", None, _REASON)
    steps = keyword_argument(fit, "steps_per_epoch")
    if steps is not None and constant_value(steps) is None and size is None:
        help_ = f"divide them by `{strategy}.num_replicas_in_sync`"
        script.leave(steps, "these steps count batches, which several workers make larger", help_)


def _find_size(script: Script, call: ast.Call) -> ast.expr | None:
    last = script.module.name_of(call.func).rpartition(".")[2]
    return find_passed(call, 0 if last in _BATCHES else len(call.args), "batch_size")


def _is_same(script: Script, size: ast.expr, other: ast.expr | None) -> bool:
    """Whether two batches have one size, by what their texts stand for."""
    if other is None or size is other:
        return other is not None
    values = [script.value(part) for part in (size, other)]
    alike = ast.dump(values[0]) == ast.dump(values[1]) and isinstance(values[0], ast.Constant | ast.Attribute)
    return values[0] is values[1] or alike


def _list_sizes(script: Script, node: ast.expr, seen: set[ast.AST]) -> Iterator[ast.expr]:
    """The sizes of the batches that an expression draws, through names, methods and functions."""
    if node in seen:
        return
    seen.add(node)
    if isinstance(node, ast.Name):
        bound = script.bindings(node.id, script.scope(node))
        for _, value, _ in reversed(bound):
            yield from _list_sizes(script, value, seen)
        value = script.value(node)
        if not bound and value is not node:
            yield from _list_sizes(script, value, seen)
    if not isinstance(node, ast.Call):
        return
    last = script.module.name_of(node.func).rpartition(".")[2]
    if last in (*_BATCHES, *_READERS) and (size := _find_size(script, node)) is not None:
        yield size
        return
    function = script.function(node)
    for value in script.returns(function) if function is not None else ():
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        for part in parts:
            yield from _list_sizes(script, part, seen)
    if isinstance(node.func, ast.Attribute):
        yield from _list_sizes(script, node.func.value, seen)
