"""Files that the first process writes, also of logs and by modules beside the script, and that all read."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from worldsize.adopting.options.parsers import Parser, find_place
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.training.loops import list_assigned
from worldsize.facts.library_calls import find_call, list_last_names
from worldsize.scripts.bindings import Function
from worldsize.scripts.module import Module, constant_value, keyword_argument, last_name, list_packages

_OPENERS = ("gzip", "bz2", "lzma", "codecs", "io", "jsonlines")
_ARCHIVES = ("ZipFile", "File")  # of `zipfile` and `h5py`
FILE = "one process writes the file; the others would write over it"


class Opened(NamedTuple):
    """What a call opens: ``open(path, mode)``, ``gzip.open(path, mode)``, ``path.open(mode)``."""

    path: ast.expr | None
    mode: str = ""
    is_method: bool = False  # of the path


def read_opened(node: ast.AST) -> Opened:
    """The file that an expression opens; without a mode if it opens none, or to read by default."""
    last = last_name(node)
    if not isinstance(node, ast.Call) or (last != "open" and last not in _ARCHIVES):
        return Opened(None)
    is_method, path = False, next(iter(node.args), keyword_argument(node, "file"))
    if isinstance(node.func, ast.Attribute) and last not in _ARCHIVES:
        is_method = getattr(node.func.value, "id", "") not in _OPENERS
        path = node.func.value if is_method else path
    modes = (*node.args[0 if is_method else 1 :][:1], keyword_argument(node, "mode"))
    values = [value for mode in modes if isinstance(value := constant_value(mode), str)]
    return Opened(path, next((value for value in values if set(value) <= set("rwaxbt+")), ""), is_method)


def opens_to_write(node: ast.AST) -> bool:
    """Whether an expression opens a file to write it."""
    return not set("wax").isdisjoint(read_opened(node).mode)


def open_on_first_rank(script: Script, header: Header, shared: list[ast.With]) -> None:
    """Let the other processes write into nothing what goes to a file that is opened for a while."""
    opening = [statement.value for statement in script.nodes(ast.Assign)]
    opening += [item.context_expr for block in shared for item in block.items]
    for call in opening:
        if not isinstance(call, ast.Call) or not opens_to_write(call):
            continue
        opened, _, of_path = read_opened(call)
        if opened is None or isinstance(opened, ast.IfExp | ast.Lambda):
            continue
        if last_name(call) in _ARCHIVES or (of_path and getattr(opened, "id", "") in script.module.names):
            help_ = f"open it only where `{header.names.is_first}`, and `os.devnull` elsewhere"
            script.leave(call, "every process writes this file", help_)
            continue  # of a module that is not known
        header.imports["import os"] = None
        other, bare = "os.devnull", True
        if of_path:
            header.imports["import pathlib"] = None
            other, bare = "pathlib.Path(os.devnull)", isinstance(opened, ast.BinOp)  # which has its own
        if not bare:
            script.insert_front(opened, "(", "WS904", FILE)
        text = f" if {header.names.is_first} else {other}"
        script.insert_behind(opened, text if bare else f"{text})", "WS904", FILE)


SINK = "loguru.logger.add"
_HANDLER = re.compile(r"logging\.(?:handlers\.)?(?:Rotating|TimedRotating|Watched)?FileHandler")


def list_log_files(module: Module) -> Iterator[tuple[str, ast.expr]]:
    """What each such call is, and the expression of its file."""
    for name, call in module.calls:
        handles = _HANDLER.fullmatch(name) is not None
        file = keyword_argument(call, "sink" if name == SINK else "filename")
        if (handles or name == SINK) and call.args:
            file = call.args[0]
        if file is not None and (handles or name in (SINK, "logging.basicConfig")):
            yield name, file


def leave_log_files(script: Script, parser: Parser, *, placed: bool) -> set[ast.expr]:
    """Report the files that stay beside the script; they are not the others' concern.

    ``placed`` says whether the output folder takes those that an option reaches.
    """
    left = set()
    help_ = "write it into a folder that an option names"
    for node in (*_list_configured(script.module), *(log for _, log in list_log_files(script.module))):
        value = script.value(node)
        path = read_path(value)
        is_key = isinstance(script.module.parents.get(node), ast.Dict)
        if path and (is_key or not placed or find_place(script, parser, value) is None):
            script.leave(node, f"`{path}` is written beside the script, where a job loses it", help_)
            left.add(node)
    return left


def read_path(value: ast.expr) -> str | None:
    """A relative path of the text, or how one starts that is filled in."""
    path = read_start(value)
    is_own = path is not None and not path.startswith(("/", "~")) and "://" not in path
    return path if is_own else None


def read_start(value: ast.expr) -> str | None:
    """The text with which a path starts, also one that is filled in: f"…", "…".format(…), "…" % …."""
    if isinstance(value, ast.JoinedStr):
        value = value.values[0] if value.values else value
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod):
        value = value.left
    elif isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "format":
        value = getattr(value.func, "value", value)
    path = constant_value(value)
    return path if isinstance(path, str) else None


def log_on_first_rank(script: Script, header: Header) -> None:
    """Let the other processes log into nothing; the sinks of loguru are under a test of the rank."""
    for name, node in list_log_files(script.module):
        if name == SINK or isinstance(node, ast.IfExp | ast.Lambda):
            continue
        header.imports["import os"] = None
        script.insert_behind(node, f" if {header.names.is_first} else os.devnull", "WS904", FILE)


def _list_configured(module: Module) -> Iterator[ast.expr]:
    """The files of `logging.config.dictConfig`: ``{"class": "logging.FileHandler", "filename": "x.log"}``."""
    for node in module.kinds.get(ast.Dict, ()):
        held = {constant_value(key): value for key, value in zip(node.keys, node.values, strict=True)}
        if _HANDLER.fullmatch(str(constant_value(held.get("class")))) and "filename" in held:
            yield held["filename"]


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
        saver = _find_saver(script, call, or_logs=True) if _SAVES.search(name) else None
        path = next(_list_paths(saver, call), None) if saver is not None else None
        if path is not None:
            help_ = "let the function take a folder, and pass the one that an option names"
            script.leave(call, f"`{path}` is written beside the script, where a job loses it", help_)


def _leave_settings_beside(script: Script) -> None:
    """Report a file that a class of settings beside the script names: ``torch.save(model, config.path)``."""
    texts = {
        target: value.value
        for class_ in map(script.find_class, script.module.names)
        for statement in (class_.body if class_ is not None else ())
        for target, value in ((ast.unparse(target), held) for target, held in list_assigned(statement))
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }
    for call in script.module.called("torch.save") if texts else ():
        for argument in call.args[1:2]:
            path = texts.get(getattr(argument, "attr", ""))
            if path is not None:
                help_ = "let an option set it"
                script.leave(argument, f"`{path}` is written beside the script, where a job loses it", help_)


def _find_saver(script: Script, call: ast.Call, *, or_logs: bool = False) -> Function | None:
    name = script.module.name_of(call.func)
    if not _SAVES.search(name.rpartition(".")[2]):
        return None
    beside = script.find_beside(call)
    return beside[1] if beside is not None and any(_list_written(beside[1], or_logs=or_logs)) else None


def _list_written(function: Function, *, or_logs: bool) -> Iterator[ast.Call]:
    """The calls of a function that write files, or set up logs in them."""
    words = list_last_names("writes", "copies") | (_LOGS if or_logs else frozenset())
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and (last_name(node) in words or opens_to_write(node)):
            yield node


def _list_paths(function: Function, call: ast.Call) -> Iterator[str]:
    """The files that a function writes by names of its own: in its text, or by a default."""
    parts = function.args
    names = [argument.arg for argument in parts.args]
    passed = {*names[: len(call.args)], *(keyword.arg for keyword in call.keywords)}
    kept = dict(zip(names[len(names) - len(parts.defaults) :], parts.defaults, strict=True))
    texts = [value for name, value in kept.items() if name not in passed]
    for written in _list_written(function, or_logs=True):
        texts += [
            *written.args,
            *(word.value for word in written.keywords if word.arg == "filename"),
        ]
    for text in texts:
        value = constant_value(text)
        if isinstance(value, str) and "." in value[1:] and not value.startswith("/") and " " not in value:
            yield value


_WAITS = "the other processes wait until the first has written the file"
_TESTS = re.compile(r"\b(?:exists|isfile|isdir|is_file|is_dir|listdir)\b")


def _gives_model(script: Script, call: ast.Call) -> bool:
    """Whether a call loads a whole model, which is used where it lies: ``model = torch.load(path)``."""
    above = script.module.parents.get(call)
    if not isinstance(above, ast.Assign) or not isinstance(above.targets[0], ast.Name):
        return False
    name, scope = above.targets[0].id, script.scope(above)
    used = {
        node.func.attr if isinstance(node.func, ast.Attribute) else "()"
        for node in script.nodes(ast.Call)
        if node.lineno > above.lineno and script.scope(node) is scope and _find_used(node) == name
    }
    trains = any(_find_used(call) == name for call in script.module.called("parameters"))
    return (trains or bool(used & {"()", "eval"})) and not used & {"to", "cuda", "items", "keys", "get"}


def _find_used(call: ast.Call) -> str | None:
    """The name that is called, or whose method is."""
    return getattr(call.func.value if isinstance(call.func, ast.Attribute) else call.func, "id", None)


def load_everywhere(script: Script, header: Header | None = None) -> None:
    """Load onto the CPU, and only what the first process has finished writing.

    ``header`` is given where a library has the loop, and joins the group itself.
    """
    saves = [call.lineno for call in script.module.called("torch.save")]
    for call in script.module.called("torch.load"):
        if keyword_argument(call, "map_location") is None and len(call.args) == 1:
            reason = "every process would load the weights onto the GPU that they were saved from"
            place = (
                '"cuda" if torch.cuda.is_available() else "cpu"' if _gives_model(script, call) else '"cpu"'
            )
            script.set_keyword(call, "map_location", place, "WS908", reason)
        if header is None and saves and min(saves) < call.lineno:
            statement = script.statement(call)
            if script.is_guarded(statement) or script.scope(call) in script.sampling:
                continue
            script.insert_before(above_tests(script, statement), ["dist.barrier()"], None, _WAITS)
    if header is None:
        _wait_for_files(script)
    else:
        _wait_for_first(script, header)


def _wait_for_first(script: Script, header: Header) -> None:
    """Wait for a file of the first process, by what the library has for it; else say that nobody waits."""
    tops = list_packages(script.module)
    written: dict[tuple[str, ast.AST], ast.Call] = {}
    for name, call in script.module.calls:
        effect = find_call(name, "writes")
        position = effect.argument if effect is not None else None
        if position is not None and len(call.args) > position and script.is_guarded(script.statement(call)):
            written.setdefault((script.written(call.args[position]), script.scope(call)), call)
    waits: set[ast.stmt] = set()
    for _, call in script.module.calls if written else ():
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            writer = written.get((script.written(argument), script.scope(call)))
            statement = script.statement(call)
            if writer is None or writer.lineno >= call.lineno or script.is_guarded(statement):
                continue
            if script.has_own_line(statement) and (lines := _choose_wait(script, header, call, tops)):
                if statement not in waits:
                    script.insert_before(above_tests(script, statement), lines, None, _WAITS)
                waits.add(statement)
                continue
            message = "every process reads this file, perhaps before the first has written it"
            script.leave(argument, message, "write it before the job, or let each process write its own")


def _choose_wait(script: Script, header: Header, call: ast.Call, tops: Collection[str]) -> list[str]:
    """The lines that wait at a call; none where the processes do not know each other yet."""
    if not {"accelerate", "transformers", "trl"}.isdisjoint(tops):
        header.imports |= {"from accelerate import PartialState": None, "import torch": None}
        return ["PartialState(cpu=not torch.cuda.is_available()).wait_for_everyone()"]
    return ["if dist.is_initialized():", "    dist.barrier()"] if _has_joined(script, call) else []


def _has_joined(script: Script, call: ast.Call) -> bool:
    """Whether a library has trained before a call, so that its processes know each other."""
    return any(
        script.scope(training_call) is script.scope(call) and training_call.lineno < call.lineno
        for training_call in script.module.called("fit", "train")  # and not `tokenizer.train(…)`
        if script.called_name(script.owner(training_call)).endswith("Trainer")
    )


def _wait_for_files(script: Script) -> None:
    """Wait before a file is read that the first process has written in the same function."""
    written: dict[tuple[str, ast.AST], int] = {}
    for name, call in script.module.calls:
        last = name.rpartition(".")[2]
        path = read_opened(call).path if opens_to_write(call) else None
        if last in ("to_csv", "savetxt", "to_json") and call.args:
            path = call.args[0]
        if path is not None:
            written.setdefault((script.written(path), script.scope(call)), call.lineno)
    for name, call in script.module.calls if written else ():
        last = name.rpartition(".")[2]
        path = None if opens_to_write(call) else read_opened(call).path
        if last in ("read_csv", "read_json", "loadtxt") and call.args:
            path = call.args[0]
        first = written.get((script.written(path), script.scope(call))) if path is not None else None
        statement = script.statement(call)
        waits = not script.is_guarded(statement) and script.scope(call) not in script.sampling
        if first is not None and first < call.lineno and waits:
            script.insert_before(above_tests(script, statement), ["dist.barrier()"], None, _WAITS)


def above_tests(script: Script, statement: ast.stmt) -> ast.stmt:
    """The statement, or the condition around it that asks for a file: processes may differ in it."""
    for above, child in script.module.ancestors(statement):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            break
        if isinstance(above, ast.If) and child is not above.test and _TESTS.search(ast.unparse(above.test)):
            statement = above
    while script.written(statement).startswith("elif"):
        above = script.module.parents[statement]
        assert isinstance(above, ast.stmt)
        statement = above
    return statement
