"""Files that are opened to be written: the first process writes, the others into nothing."""

from __future__ import annotations

import ast

from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.scripts.module import constant_value, keyword_argument

_OPENERS = ("gzip", "bz2", "lzma", "codecs", "io", "jsonlines")
_ARCHIVES = ("ZipFile", "File")  # of `zipfile` and `h5py`
FILE = "one process writes the file; the others would write over it"


def opens_to_write(node: ast.expr) -> bool:
    """Whether an expression opens a file to write it."""
    return bool(set(mode_of_opened(node)) & set("wax"))


def mode_of_opened(node: ast.expr) -> str:
    """The mode in which an expression opens a file, or nothing."""
    if not isinstance(node, ast.Call):
        return ""
    func = node.func
    last = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if last != "open" and last not in _ARCHIVES:
        return ""
    of_path = isinstance(func, ast.Attribute) and not is_opener(node)
    given = node.args[0 if of_path else 1 :][:1]
    values = [constant_value(each) for each in (*given, keyword_argument(node, "mode"))]
    return next((each for each in values if isinstance(each, str) and set(each) <= set("rwaxbt+")), "")


def is_opener(node: ast.Call) -> bool:
    """Whether a call is of a module that opens files as `open` does, or writes archives."""
    func = node.func
    base = getattr(func.value, "id", "") if isinstance(func, ast.Attribute) else ""
    return base in _OPENERS or getattr(func, "attr", getattr(func, "id", "")) in _ARCHIVES


def open_on_first_rank(script: Script, header: Header, shared: list[ast.With]) -> None:
    """Let the other processes write into nothing what goes to a file that is opened for a while."""
    opening = [each.value for each in script.module.kinds.get(ast.Assign, ())]
    opening += [item.context_expr for block in shared for item in block.items]
    for call in opening:
        if not isinstance(call, ast.Call) or not opens_to_write(call):
            continue
        of_path = isinstance(call.func, ast.Attribute) and not is_opener(call)
        named = keyword_argument(call, "file")
        first = next(iter(call.args), named)
        opened = call.func.value if of_path and isinstance(call.func, ast.Attribute) else first
        if opened is None or isinstance(opened, ast.IfExp | ast.Lambda):
            continue
        archive = script.module.name_of(call.func).rpartition(".")[2] in _ARCHIVES
        if archive or (of_path and getattr(opened, "id", "") in script.module.names):
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
