"""Files that `logging` and loguru write: into the output folder, and by the first process."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.adopting.distributing.opening import FILE
from worldsize.adopting.options.parsers import Parser
from worldsize.adopting.options.reaching import find_place
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer
from worldsize.scripts.module import Module, constant_value, keyword_argument

SINK = "loguru.logger.add"
_HANDLER = re.compile(r"logging\.(?:handlers\.)?(?:Rotating|TimedRotating|Watched)?FileHandler")


def list_log_files(module: Module) -> Iterator[tuple[str, ast.expr]]:
    """What each such call is, and the expression of its file."""
    for name, call in module.calls:
        handles = _HANDLER.fullmatch(name) is not None
        given = keyword_argument(call, "sink" if name == SINK else "filename")
        if (handles or name == SINK) and call.args:
            given = call.args[0]
        if given is not None and (handles or name in (SINK, "logging.basicConfig")):
            yield name, given


def leave_log_files(script: Script, tracer: Tracer, parser: Parser, *, placed: bool) -> set[ast.expr]:
    """Report the files that stay beside the script; they are not the others' concern.

    ``placed`` says whether the output folder takes those that an option reaches.
    """
    left = set()
    help_ = "write it into a folder that an option names"
    for node in (*_list_configured(script.module), *(each for _, each in list_log_files(script.module))):
        value, _ = tracer.follow(node, script.scope(node))
        path = read_path(value)
        is_key = isinstance(script.module.parents.get(node), ast.Dict)
        if path is not None and (is_key or not placed or find_place(script, tracer, parser, value) is None):
            script.leave(node, f"`{path}` is written beside the script, where a job loses it", help_)
            left.add(node)
    return left


def read_path(value: ast.expr) -> str | None:
    """A relative path of the text, or how one starts that is filled in."""
    if isinstance(value, ast.JoinedStr) and value.values:
        value = value.values[0]
    path = constant_value(value)
    is_own = isinstance(path, str) and not path.startswith(("/", "~")) and "://" not in path
    return path if isinstance(path, str) and path and is_own else None


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
