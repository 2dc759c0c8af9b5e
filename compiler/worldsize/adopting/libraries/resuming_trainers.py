"""Resume from a checkpoint folder where a library has the loop: Lightning, the Trainer, Keras."""

from __future__ import annotations

import ast

from worldsize.adopting.distributing.resuming import name_by_variable
from worldsize.adopting.options.flags import add_flag
from worldsize.adopting.options.parsers import Parser, is_visible
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.scripts.module import constant_value, keyword_argument

_REASON = "a job that is interrupted goes on from its last checkpoint"


def resume_lightning(script: Script, parser: Parser, header: Header, trainer: ast.Call, package: str) -> None:
    """A checkpoint after each epoch in `--checkpoints`, and `ckpt_path` of `fit`."""
    calls = [call for call in script.module.called("fit") if _may_train(script, call)]
    fits = [call for call in calls if keyword_argument(call, "ckpt_path") is None]
    if len(fits) != 1 or len(fits[0].args) > 4:
        return
    folder = name_folder(script, parser, header, trainer, fits[0])
    name = _import(script, header, f"{package}.callbacks", "ModelCheckpoint")
    saver = f"{name}(dirpath={folder}, save_last=True, save_on_train_epoch_end=True)"
    for call in script.module.called("ModelCheckpoint"):
        if keyword_argument(call, "monitor") is None:  # Lightning takes one of a kind
            script.set_keyword(call, "save_last", "True", None, _REASON)
            folder_argument = keyword_argument(call, "dirpath")
            chosen = folder if folder_argument is None else f"{folder} or {script.written(folder_argument)}"
            script.set_keyword(call, "dirpath", chosen, None, _REASON)
            saver = ""
    statement = script.statement(trainer)
    if saver and script.has_own_line(statement):
        held = script.new_name("savers")
        script.insert_before(
            statement, [f"{held} = []", f"if {folder}:", f"    {held} = [{saver}]"], None, _REASON
        )
        _append(script, trainer, held)
    if constant_value(keyword_argument(trainer, "enable_checkpointing")) is False:
        script.set_keyword(trainer, "enable_checkpointing", f"bool({folder})", None, _REASON)
    script.set_keyword(fits[0], "ckpt_path", f'"last" if {folder} else None', None, _REASON)


def resume_transformers(script: Script, parser: Parser, header: Header, arguments: ast.Call | None) -> None:
    """While the Trainer trains, it keeps its checkpoints in `--checkpoints`, and goes on from the last."""
    trains = [call for call in script.module.called("train") if is_trainer(script, call)]
    if len(trains) != 1 or trains[0].args or script.module.called("get_last_checkpoint"):
        return
    train = trains[0]
    resumed = keyword_argument(train, "resume_from_checkpoint")
    if len(train.keywords) > (resumed is not None):
        return
    statement = script.statement(train)
    if not script.has_own_line(statement):
        script.leave(train, "no checkpoints: this call shares its line", "write it on a line of its own")
        return
    assert isinstance(train.func, ast.Attribute)
    folder = name_folder(script, parser, header, train)
    header.imports["import os"] = None
    find = _import(script, header, "transformers.trainer_utils", "get_last_checkpoint")
    where = f"{script.written(train.func.value)}.args"
    last, before = script.new_name("last_checkpoint"), script.new_name("output_dir")
    lines = [f"{last}, {before} = None, {where}.output_dir", f"if {folder}:"]
    lines += [f"    os.makedirs({folder}, exist_ok=True)", f"    {where}.output_dir = {folder}"]
    if _saves_too_late(script, arguments, train):
        lines.append(f'    {where}.save_strategy = "epoch"')
    lines.append(f"    {last} = {find}({folder})")
    script.insert_before(statement, lines, None, _REASON)
    chosen = last if resumed is None else f"{last} or {script.written(resumed)}"
    script.set_keyword(train, "resume_from_checkpoint", chosen, None, _REASON)
    if not isinstance(statement, ast.Return):
        script.insert_after(statement, [f"{where}.output_dir = {before}"], None, _REASON)


def _saves_too_late(script: Script, arguments: ast.Call | None, train: ast.Call) -> bool:
    """Whether the Trainer has to be set to save before the end; reports it where the command line decides."""
    if arguments is None:
        words = {word.partition("=")[0] for word in script.arguments}
        if not words & {"--save_strategy", "--save_steps"}:
            message = "the Trainer saves a checkpoint each 500 steps, and none in a shorter training"
            script.leave(train, message, "--arguments '--save_strategy epoch'")
        return False
    chosen = [keyword_argument(arguments, name) for name in ("save_strategy", "save_steps")]
    if constant_value(chosen[0]) != "no" and any(chosen):
        return False
    if keyword_argument(arguments, "max_steps") or keyword_argument(arguments, "load_best_model_at_end"):
        message = "the Trainer saves a checkpoint each 500 steps, and none in a shorter training"
        if chosen[0] is not None:
            message = '`save_strategy="no"` saves no checkpoint: an interrupted job begins anew'
        script.leave(arguments, message, "write `save_strategy=` and `save_steps=`")
        return False
    return True


def resume_keras(script: Script, parser: Parser, header: Header, fit: ast.Call, keras: str) -> None:
    """Back the state of `fit` up in `--checkpoints`, and restore it from there."""
    if script.module.called("BackupAndRestore"):
        return
    statement = script.statement(fit)
    if not script.has_own_line(statement):
        return
    folder = name_folder(script, parser, header, fit)
    held = script.new_name("backups")
    line = f"{held} = [{keras}.callbacks.BackupAndRestore({folder})] if {folder} else []"
    script.insert_before(statement, [line], None, _REASON)
    _append(script, fit, held)


def _may_train(script: Script, call: ast.Call) -> bool:
    """Whether a call of `fit` may be of the Trainer, and not of a scaler of scikit-learn."""
    value = script.owner(call)
    is_trainer_or_open = not isinstance(value, ast.Call) or script.called_name(value).endswith("Trainer")
    return value is not None and is_trainer_or_open


def is_trainer(script: Script, call: ast.Call) -> bool:
    """Whether a call is of a method of the Trainer."""
    return script.called_name(script.owner(call)).endswith("Trainer")


def _append(script: Script, call: ast.Call, more: str) -> None:
    """Give a call more callbacks than those of the script."""
    callbacks = keyword_argument(call, "callbacks")
    if callbacks is None:
        script.set_keyword(call, "callbacks", more, None, _REASON)
    elif isinstance(callbacks, ast.List) and callbacks.elts:
        script.insert_behind(callbacks.elts[-1], f", *{more}", None, _REASON)
    else:
        script.replace(callbacks, f"[*{_as_list(script, callbacks)}, *{more}]", None, _REASON)


def _as_list(script: Script, callbacks: ast.expr) -> str:
    """Callbacks that a name stands for, which may be none."""
    value = script.value(callbacks)
    text = script.written(callbacks)
    return text if isinstance(value, ast.List) and isinstance(callbacks, ast.Name) else f"({text} or [])"


def _import(script: Script, header: Header, module: str, name: str) -> str:
    bound = next((word for word, full in script.module.names.items() if full.endswith(f".{name}")), None)
    if bound is None:
        header.imports[f"from {module} import {name}"] = None
    return bound or name


def name_folder(script: Script, parser: Parser, header: Header, *nodes: ast.AST) -> str:
    """What names the folder at some nodes: an option, else the variable that a job has for its output."""
    declared = next(
        (option.flag for option in parser.options.declared if option.flag.role == "checkpoints"), None
    )
    seen = all(is_visible(script, parser, node) for node in nodes)
    if declared is not None and declared.default:  # it would resume by hand too
        parser.roles["--checkpoints"] = "checkpoints"
        if not any(option.flag.role == "output" for option in parser.options.declared):
            parser.roles[declared.option] = "output"
    elif declared is not None and seen:
        name = next(option.name for option in parser.options.declared if option.flag is declared)
        return parser.place.format(name)
    if seen and (declared is None or declared.option != "--checkpoints"):
        return add_flag(parser, "checkpoints", None)
    return name_by_variable(script, header)
