"""Files that the script names in its text are read and written where options say."""

from __future__ import annotations

import ast

from worldsize.adopting.flags import Parser, add_flag, is_visible, list_flags
from worldsize.adopting.group import Header
from worldsize.adopting.script import Script
from worldsize.adopting.tracing import Tracer
from worldsize.rules.script._module import constant_value

_SAVES = {"torch.save": 1, "joblib.dump": 1, "np.save": 0, "numpy.save": 0}
_LAST = ("savefig", "to_csv", "save_pretrained", "save_weights")
_READS = ("read_csv", "np.load", "numpy.load", "ImageFolder", "loadtxt", "read_parquet", "genfromtxt")


def place_files(script: Script, tracer: Tracer, parser: Parser, header: Header) -> None:
    """Write into `--output`, and read from `--data`, unless the script has options for them."""
    roles = {flag.role for flag in list_flags(parser)}
    written: dict[str, ast.Constant] = {}
    for name, call in script.module.calls:
        position = _SAVES.get(name, 0 if name.rpartition(".")[2] in _LAST else None)
        if position is not None and position < len(call.args):
            _collect(tracer, script, call.args[position], written)
        elif name == "open" and len(call.args) > 1 and set(str(constant_value(call.args[1]))) & set("wa"):
            _collect(tracer, script, call.args[0], written)
    if written and "output" not in roles:
        _write_to_output(script, tracer, parser, header, written)
    read: dict[str, ast.Constant] = {}
    for call in script.module.called(*_READS):
        for argument in call.args[:1]:
            _collect(tracer, script, argument, read)
    left = {path: node for path, node in read.items() if path not in written}
    if left and "data" not in roles:
        for path, node in list(left.items())[:1]:
            if is_visible(script, parser, node):
                script.replace(
                    node, add_flag(script, parser, "data", path), "WS947", "a job mounts its data elsewhere"
                )
        for node in list(left.values())[1:]:
            script.leave(
                node, "this file is read from the folder of the script", "add an option for its path"
            )


def _collect(tracer: Tracer, script: Script, node: ast.expr, found: dict[str, ast.Constant]) -> None:
    value, _ = tracer.follow(node, script.scope(node))
    if (
        isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and not value.value.startswith(("/", "~"))
    ):
        if "://" not in value.value:
            found.setdefault(value.value, value)


def _write_to_output(
    script: Script, tracer: Tracer, parser: Parser, header: Header, written: dict[str, ast.Constant]
) -> None:
    """Also where a file is read again."""
    nodes = [
        node
        for node in script.module.kinds.get(ast.Constant, ())
        if isinstance(node.value, str) and node.value in written and _is_path(script, node)
    ]
    if not all(is_visible(script, parser, node) for node in nodes):
        node = next(iter(written.values()))
        help_ = "write it into a folder that an option names"
        script.leave(node, f"`{node.value}` is written beside the script, where a job loses it", help_)
        return
    name = add_flag(script, parser, "output", ".")
    header.imports["import os"] = None
    for node in nodes:
        text = f"os.path.join({name}, {script.written(node)})"
        script.replace(node, text, "WS953", "a job keeps only what is written into its outputs")
    if parser.statement is None:
        parser.then.append(f"os.makedirs({name}, exist_ok=True)")


def _is_path(script: Script, node: ast.Constant) -> bool:
    """Whether a text is what a call or an assignment gets, and not a key or a part of another."""
    above = script.module.parents.get(node)
    return isinstance(above, ast.Call | ast.keyword | ast.Assign | ast.AnnAssign)
