"""Resume from a checkpoint folder where a library has the loop: Lightning, the Trainer, Keras."""

from __future__ import annotations

import ast

from worldsize.adopting.flags import Parser, add_flag, is_visible
from worldsize.adopting.group import Header
from worldsize.adopting.script import Script
from worldsize.adopting.tracing import Tracer
from worldsize.rules.script._module import constant_value, keyword_argument

_REASON = "a job that is interrupted goes on from its last checkpoint"


def resume_lightning(script: Script, parser: Parser, header: Header, trainer: ast.Call, package: str) -> None:
    """A checkpoint after each epoch in `--checkpoints`, and `ckpt_path` of `fit`."""
    fits = [call for call in script.module.called("fit") if keyword_argument(call, "ckpt_path") is None]
    if len(fits) != 1 or len(fits[0].args) > 4:
        return
    if not is_visible(script, parser, trainer) or not is_visible(script, parser, fits[0]):
        _leave(script, fits[0], "give `fit` its `ckpt_path`, and a `ModelCheckpoint` the folder")
        return
    folder = add_flag(parser, "checkpoints", None)
    name = _import(script, header, f"{package}.callbacks", "ModelCheckpoint")
    saver = f"{name}(dirpath={folder}, save_last=True, save_on_train_epoch_end=True)"
    for call in script.module.called("ModelCheckpoint"):
        if keyword_argument(call, "monitor") is None:  # Lightning takes one of a kind
            script.set_keyword(call, "save_last", "True", None, _REASON)
            script.set_keyword(call, "dirpath", _prefer(script, call, "dirpath", folder), None, _REASON)
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
    """The Trainer keeps its checkpoints in `--checkpoints`, and goes on from the last."""
    trains = [call for call in script.module.called("train") if is_trainer(script, call)]
    if len(trains) != 1 or trains[0].args or trains[0].keywords:
        return
    train = trains[0]
    assert isinstance(train.func, ast.Attribute)
    given = keyword_argument(arguments, "output_dir") if arguments is not None else None
    has_option = any(each.flag.role in ("output", "checkpoints") for each in parser.options.declared)
    if given is not None and not has_option and is_visible(script, parser, given):
        folder = add_flag(parser, "checkpoints", None)
        script.insert_front(given, f"{folder} or ", None, _REASON)
    elif given is not None and not has_option:
        _leave(script, given, "read `output_dir` from an option")
        return
    header.imports["import os"] = None
    find = _import(script, header, "transformers.trainer_utils", "get_last_checkpoint")
    where = f"{script.written(train.func.value)}.args.output_dir"
    statement = script.statement(train)
    if script.has_own_line(statement):
        last = script.new_name("last_checkpoint")
        line = f"{last} = {find}({where}) if os.path.isdir({where}) else None"
        script.insert_before(statement, [line], None, _REASON)
        script.set_keyword(train, "resume_from_checkpoint", last, None, _REASON)


def resume_keras(script: Script, parser: Parser, fit: ast.Call, keras: str) -> None:
    """Back the state of `fit` up in `--checkpoints`, and restore it from there."""
    if script.module.called("BackupAndRestore"):
        return
    if not is_visible(script, parser, fit):
        _leave(script, fit, "give `fit` a `BackupAndRestore` with a folder that an option names")
        return
    statement = script.statement(fit)
    if not script.has_own_line(statement):
        return
    folder = add_flag(parser, "checkpoints", None)
    held = script.new_name("backups")
    line = f"{held} = [{keras}.callbacks.BackupAndRestore({folder})] if {folder} else []"
    script.insert_before(statement, [line], None, _REASON)
    _append(script, fit, held)


def is_trainer(script: Script, call: ast.Call) -> bool:
    """Whether a call is of a method of the Trainer."""
    if not isinstance(call.func, ast.Attribute):
        return False
    value, _ = Tracer(script).follow(call.func.value, script.scope(call))
    return isinstance(value, ast.Call) and script.module.name_of(value.func).endswith("Trainer")


def _append(script: Script, call: ast.Call, more: str) -> None:
    """Give a call more callbacks than those of the script."""
    given = keyword_argument(call, "callbacks")
    if given is None:
        script.set_keyword(call, "callbacks", more, None, _REASON)
    elif isinstance(given, ast.List) and given.elts:
        script.insert_behind(given.elts[-1], f", *{more}", None, _REASON)
    else:
        script.replace(given, f"[*{_as_list(script, given)}, *{more}]", None, _REASON)


def _as_list(script: Script, given: ast.expr) -> str:
    """Callbacks that a name stands for, which may be none."""
    value, _ = Tracer(script).follow(given, script.scope(given))
    text = script.written(given)
    return text if isinstance(value, ast.List) and isinstance(given, ast.Name) else f"({text} or [])"


def _prefer(script: Script, call: ast.Call, keyword: str, folder: str) -> str:
    given = keyword_argument(call, keyword)
    return folder if given is None else f"{folder} or {script.written(given)}"


def _import(script: Script, header: Header, module: str, name: str) -> str:
    bound = next((each for each, full in script.module.names.items() if full.endswith(f".{name}")), None)
    if bound is None:
        header.imports[f"from {module} import {name}"] = None
    return bound or name


def _leave(script: Script, node: ast.AST, help_: str) -> None:
    script.leave(node, "no checkpoints: the options cannot be read here", help_)
