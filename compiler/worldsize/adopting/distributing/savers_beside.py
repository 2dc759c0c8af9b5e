"""Functions of modules beside the script that save for it: ``utils.save_checkpoint(state, is_best)``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.adopting.source.reading import find_function_beside, list_classes_beside
from worldsize.adopting.source.script import Script
from worldsize.adopting.training.epoch_counter import list_assigned
from worldsize.facts.library_calls import list_last_names
from worldsize.scripts.module import constant_value

_SAVES = re.compile(r"save|checkpoint|ckpt|plot|dump|export|write|log", re.IGNORECASE)
# Their functions are for all processes: they set up loggers.
_LOGS = frozenset(
    {"FileHandler", "RotatingFileHandler", "TimedRotatingFileHandler", "WatchedFileHandler"} | {"basicConfig"}
)


def saves_beside(script: Script, call: ast.Call) -> bool:
    """Whether a call is of such a function, by its name and what it does."""
    return _find_saver(script, call) is not None


def leave_paths_beside(script: Script) -> None:
    """Report what such a function, or a setting beside the script, lets a job write into its folder."""
    _leave_settings_beside(script)
    for name, call in script.module.calls:
        found = _find_saver(script, call, or_logs=True) if _SAVES.search(name) else None
        path = next(_list_paths(found, call), None) if found is not None else None
        if path is not None:
            help_ = "let the function take a folder, and pass the one that an option names"
            script.leave(call, f"`{path}` is written beside the script, where a job loses it", help_)


def _leave_settings_beside(script: Script) -> None:
    """Report a file that a class of settings beside the script names: ``torch.save(model, config.path)``."""
    texts = {
        target: value.value
        for class_ in dict(list_classes_beside(script.module)).values()
        for statement in class_.body
        for target, value in ((ast.unparse(each), held) for each, held in list_assigned(statement))
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }
    for call in script.module.called("torch.save") if texts else ():
        for each in call.args[1:2]:
            path = texts.get(getattr(each, "attr", ""))
            if path is not None:
                help_ = "let an option set it"
                script.leave(each, f"`{path}` is written beside the script, where a job loses it", help_)


def _find_saver(script: Script, call: ast.Call, *, or_logs: bool = False) -> ast.FunctionDef | None:
    name = script.module.name_of(call.func)
    if not _SAVES.search(name.rpartition(".")[2]):
        return None
    found = find_function_beside(script.module, name)
    return found[1] if found is not None and any(_list_written(found[1], or_logs=or_logs)) else None


def _list_written(function: ast.FunctionDef, *, or_logs: bool) -> Iterator[ast.Call]:
    """The calls of a function that write files, or set up logs in them."""
    words = list_last_names("writes", "copies") | (_LOGS if or_logs else frozenset())
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            mode = constant_value(node.args[1]) if last == "open" and len(node.args) > 1 else None
            if last in words or (isinstance(mode, str) and set(mode) & set("wax")):
                yield node


def _list_paths(function: ast.FunctionDef, call: ast.Call) -> Iterator[str]:
    """The files that a function writes by names of its own: in its text, or by a default."""
    parts = function.args
    names = [each.arg for each in parts.args]
    given = {*names[: len(call.args)], *(each.arg for each in call.keywords)}
    kept = dict(zip(names[len(names) - len(parts.defaults) :], parts.defaults, strict=True))
    texts = [value for name, value in kept.items() if name not in given]
    for written in _list_written(function, or_logs=True):
        texts += [*written.args, *(each.value for each in written.keywords if each.arg == "filename")]
    for each in texts:
        value = constant_value(each)
        if isinstance(value, str) and "." in value[1:] and not value.startswith("/") and " " not in value:
            yield value
