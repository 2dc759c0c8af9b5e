"""Files that the script names in its text are read and written where options say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.adopting.distributing.files import (
    leave_log_files,
    list_log_files,
    opens_to_write,
    read_opened,
    read_path,
    read_start,
)
from worldsize.adopting.distributing.first_rank import is_own_method
from worldsize.adopting.options.flags import add_flag, list_flags, open_with, set_in_file
from worldsize.adopting.options.parsers import Parser, find_place
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.facts.library_calls import find_call
from worldsize.scripts.module import keyword_argument

_FOLDERS = (
    ("output_dir", "TrainingArguments"),
    ("dirpath", "ModelCheckpoint"),
    ("filepath", "ModelCheckpoint"),
    ("default_root_dir", "Trainer"),
    ("log_dir", "SummaryWriter"),
    ("log_dir", "TensorBoard"),
    ("save_dir", "Logger"),
    ("project_dir", "Accelerator"),
    ("filename", "CSVLogger"),
    ("filename", "update_summary"),
)
_BY_PLACE = (
    "callbacks.ModelCheckpoint",
    "SummaryWriter",
    "TrainingArguments",
    "TensorBoard",
    "CSVLogger",
    "TensorBoardLogger",
)
_MAKERS = {
    "save_model",
    "save_state",
    "save_pretrained",
    "SummaryWriter",
    *(ending for _, ending in _FOLDERS),
}
PATHS = ("os.path.join", "pathlib.Path", "Path", "str")  # what puts a path together
_REASON = "a job keeps only what is written into its outputs"


def place_files(script: Script, parser: Parser, header: Header) -> None:
    """Write into `--output`, and read from `--data`, unless the script has options for them."""
    roles = {flag.role for flag in list_flags(parser)}
    left_logs = leave_log_files(script, parser, placed="output" not in roles)
    logs = [log for _, log in list_log_files(script.module) if log not in left_logs]
    written = _list_written(script, logs)
    if written and "output" not in roles:
        apart = _list_written(script, logs, openly=True)
        _write_to_output(script, parser, header=header, written=written, apart=[*apart.values()])
    elif "output" not in roles:
        _set_folder_of_file(script, parser)
    read: dict[str, ast.expr] = {}
    for node in _list_read(script):
        _collect(script, node, read)
    left = [
        node
        for path, node in read.items()
        if path not in written and isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    if not left or "data" in roles:
        return
    first, *others = left
    if (place := find_place(script, parser, first)) is not None:
        name = add_flag(parser, "data", str(first.value), place=place)
        script.replace(first, name, None, "a job mounts its data elsewhere")
    for node in others if place is not None else left:
        script.leave(node, "this file is read from the folder of the script", "add an option for its path")


def _list_written(script: Script, logs: list[ast.expr], *, openly: bool = False) -> dict[str, ast.expr]:
    """The files and folders of the text that are written; ``openly`` by what makes no folder for them."""
    written: dict[str, ast.expr] = {}
    for node in (*_list_targets(script, openly=openly), *logs):
        _collect(script, node, written)
    return written


def _list_read(script: Script) -> Iterator[ast.expr]:
    """What calls that read rows get as their path, also ``load_dataset("csv", data_files={"train": …})``."""
    for name, call in script.module.calls:
        if find_call(name, "reads"):
            yield from call.args[:1]
    for call in script.module.called("load_dataset"):
        files_argument = keyword_argument(call, "data_files") or keyword_argument(call, "data_dir")
        if files_argument is None:
            continue
        files = script.value(files_argument)
        parts = files.values if isinstance(files, ast.Dict) else getattr(files, "elts", [files_argument])
        yield from parts


def _list_targets(script: Script, *, openly: bool = False) -> Iterator[ast.expr]:
    """What calls that write get as their path."""
    for name, call in script.module.calls:
        if openly and name.rpartition(".")[2] in _MAKERS:
            continue
        last = name.rpartition(".")[2]
        effect = find_call(name, "writes", "copies")
        by_method = last == "save_checkpoint" or (effect is not None and effect.call == "*.save")
        position = 0 if by_method else effect.argument if effect is not None else None
        if by_method and (not isinstance(call.func, ast.Attribute) or is_own_method(script, call, last)):
            position = None
        folder = next((folder_argument for word, ending in _FOLDERS if name.endswith(ending)
                       and (folder_argument := keyword_argument(call, word)) is not None), None)  # fmt: skip
        if folder is None and name.endswith(_BY_PLACE) and call.args:
            position = 0
        opened = read_opened(call).path if opens_to_write(call) else None
        if opened is None and last in ("write_text", "write_bytes") and isinstance(call.func, ast.Attribute):
            opened = call.func.value
        if opened is not None and position is None:
            yield opened
        if folder is not None:
            yield folder
        if position is not None and position < len(call.args):
            yield call.args[position]


def _set_folder_of_file(script: Script, parser: Parser) -> None:
    """Let `--output` replace the folder that a configuration file names."""
    for node in _list_targets(script):
        value = script.value(node)
        is_folder = False
        while (inner := find_start(script, value)) is not None:
            is_folder = True
            value = script.value(inner)
        if is_folder and set_in_file(script, parser, "output", value):
            return


def _collect(script: Script, node: ast.expr, paths: dict[str, ast.expr]) -> None:
    value = script.value(node)
    whole: ast.expr | None = None  # `"epoch" + str(n)`, whose constant is not a path
    seen: set[ast.expr] = set()  # `path = path + name`
    while (inner := find_start(script, value)) is not None:
        if value in seen:
            return
        seen.add(value)
        joins = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)
        whole = (whole or value) if joins else None
        value = script.value(inner)
        whole = whole if value is inner else None
    path = read_path(value)
    value = whole or value
    if path is not None:
        paths.setdefault(path if isinstance(value, ast.Constant) else script.written(value), value)


def find_start(script: Script, value: ast.expr) -> ast.expr | None:
    """What a path starts with: `folder` of ``os.path.join(folder, name)`` or ``Path(folder) / name``."""
    if isinstance(value, ast.Call) and value.args:
        name = script.module.name_of(value.func)
        return value.args[0] if name in PATHS else None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Div):
        return value.left
    if isinstance(value, ast.JoinedStr) and value.values and isinstance(value.values[0], ast.FormattedValue):
        return value.values[0].value
    return None


def _write_to_output(
    script: Script, parser: Parser, *, header: Header, written: dict[str, ast.expr],
    apart: list[ast.expr],
) -> None:  # fmt: skip
    """Also where a file is read again."""
    nodes = _list_same(script, [node for node in written.values() if not isinstance(node, ast.Constant)])
    nodes += [
        node
        for node in script.nodes(ast.Constant)
        if isinstance(node.value, str) and node.value in written and _is_path(script, node)
    ]
    folders = [folder for folder in _list_folders(nodes) if folder not in written]
    made = _list_made(script, folders)
    nodes += [node for node in made if node not in nodes]
    defaults = parser.function.args if parser.function is not None else None  # options, as with fire
    options = [node for node in nodes if script.module.parents[node] is defaults]
    places = {node: find_place(script, parser, node) for node in nodes if node not in options}
    hidden = [node for node, place in places.items() if place is None]
    function = _find_writer(script, parser, hidden)
    if not nodes or (hidden and function is None):
        node = next(iter(written.values()))
        help_ = "write it into a folder that an option names"
        script.leave(node, f"`{read_start(node)}` is written beside the script, where a job loses it", help_)
        return
    name = add_flag(parser, "output", ".")
    header.imports["import os"] = None
    for node, place in places.items():
        if place is not None:
            text = f"os.path.join({add_flag(parser, 'output', '.', place=place)}, {script.written(node)})"
            script.replace(node, text, "WS953", _REASON)
    if function is not None:
        _pass_folder(script, parser, function, hidden)
    existing = {_clean(str(node.value)) for node in made} | written.keys()
    missing = [folder for folder in _list_folders(apart) if folder not in existing]
    within = [f'os.path.join({name}, "{folder}")' for folder in missing] or [name]
    parser.then += [f"os.makedirs({folder}, exist_ok=True)" for folder in within]
    if parser.function is not None:
        parser.then += list(_join_parameters(parser.function, options, name))


def _list_same(script: Script, made: list[ast.expr]) -> list[ast.expr]:
    """Paths that are put together, in each place that does it alike: written, and read again."""
    texts = {script.written(node) for node in made}
    kinds: dict[type[ast.expr], None] = dict.fromkeys(map(type, made))
    alike = [
        node
        for kind in kinds
        for node in script.nodes(kind)
        if _is_path(script, node) and script.written(node) in texts
    ]
    return [*made, *(inner for inner in alike if isinstance(inner, ast.expr) and inner not in made)]


def _list_folders(nodes: list[ast.expr]) -> list[str]:
    """The folders in which files are written: `results` of ``f"results/{name}.pt"``."""
    return list(dict.fromkeys(folder for folder in map(_find_folder, nodes) if folder))


def _find_folder(node: ast.expr) -> str:
    """The folder of a path, as far as it is not filled in."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node = node.left
    fixed = re.split(r"[{%\\]", read_start(node) or "")[0]
    return _clean(fixed.rpartition("/")[0])


def _clean(folder: str) -> str:
    """A folder by one name: `results` of `./results/`."""
    cleaned = folder.removeprefix("./").rstrip("/")
    return "" if cleaned == "." else cleaned


def _list_made(script: Script, folders: list[str]) -> list[ast.Constant]:
    """The folders that the script itself makes or looks for."""
    calls = script.module.called("makedirs", "mkdir", "exists", "isdir", "Path", "rmtree")
    texts = [argument for call in calls for argument in call.args[:1] if isinstance(argument, ast.Constant)]
    return [text for text in texts if isinstance(text.value, str) and _clean(text.value) in folders]


def _join_parameters(function: ast.FunctionDef, nodes: list[ast.expr], folder: str) -> Iterator[str]:
    """The lines that put the files which parameters name into a folder."""
    parts = function.args
    for node in nodes:
        if node in parts.defaults:
            parameter = parts.args[parts.defaults.index(node) - len(parts.defaults)].arg
            yield f"{parameter} = os.path.join({folder}, {parameter})"


def _is_path(script: Script, node: ast.AST) -> bool:
    """Whether a call, an assignment or a parameter gets a text that is not a key or a part of another."""
    above = script.module.parents.get(node)
    return isinstance(above, ast.Call | ast.keyword | ast.Assign | ast.AnnAssign | ast.arguments)


def _find_writer(script: Script, parser: Parser, nodes: list[ast.expr]) -> ast.FunctionDef | None:
    """The function in which all of these are, if each of its calls can pass the folder on."""
    functions = {script.scope(node) for node in nodes}
    function = next(iter(functions)) if len(functions) == 1 else None
    if not isinstance(function, ast.FunctionDef) or not isinstance(
        script.module.parents[function], ast.Module
    ):
        return None
    calls = [call for _, call in script.module.callers.get(function.name, ())]
    uses = [node for node in script.nodes(ast.Name) if node.id == function.name]
    more = function.args.vararg or function.args.kwarg or function.args.kwonlyargs
    sees = all(call.args and find_place(script, parser, call) for call in calls)
    return (
        function if calls and sees and len(uses) == len(calls) and function.args.args and not more else None
    )


def _pass_folder(script: Script, parser: Parser, function: ast.FunctionDef, nodes: list[ast.expr]) -> None:
    """Give a function the folder as a parameter: ``def save(state, filename="x.pt", folder=".")``."""
    folder, parts = script.new_name("folder"), function.args
    script.add_parameter(function, f'{folder}="."', "WS953", _REASON)
    for _, call in script.module.callers[function.name]:
        name = add_flag(parser, "output", ".", place=find_place(script, parser, call))
        script.set_keyword(call, folder, name, "WS953", _REASON)
    for node in nodes:
        if node not in parts.defaults:
            text = f"os.path.join({folder}, {script.written(node)})"
            script.replace(node, text, "WS953", _REASON)
    lines = list(_join_parameters(function, nodes, folder))
    if lines:
        open_with(script, function, lines, "WS953", _REASON)
