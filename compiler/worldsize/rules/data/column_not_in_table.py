"""A script reads a column that its local table does not have."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from worldsize.azureml import binding
from worldsize.azureml.graph import follow_binding
from worldsize.azureml.launch import Launch
from worldsize.azureml.model import Data
from worldsize.azureml.references import folder_of, is_file, local_path
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Related
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.documents.yaml.nodes import Scalar
from worldsize.facts.library_calls import list_last_names
from worldsize.scripts.bindings import find_scope
from worldsize.scripts.definitions import define_alone
from worldsize.scripts.interface.model import Option
from worldsize.scripts.interface.read import read_interface
from worldsize.scripts.module import Module, constant_value, is_conditional, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.values import evaluate
from worldsize.scripts.words import Argument, read_arguments

_PLAIN = (
    "low_memory", "nrows", "dtype", "na_values", "encoding", "memory_map", "engine", "filepath_or_buffer",
)  # fmt: skip
_COLUMNS = 1_000  # that a message could name; wider tables are not looked at


class _Table(Struct):
    """The table that `read_csv` reads: its variable, and the option with the path."""

    name: str
    arguments: str  # the variable of the parsed arguments
    option: str
    below: str  # the file, if the option gives its folder


def check_program(context: Tree, program: Program) -> Iterator[Finding]:
    module = program.entry
    if "read_csv" not in module.callers or len(program.launches) != 1:
        return
    interface = read_interface(program)
    if interface is None or interface.commands is not None:
        return
    arguments = _match_options(interface.options, read_arguments(program, program.launch))
    for table in _find_tables(module):
        columns = _find_columns(module, table.name)
        argument = arguments.get(table.option)
        if not columns or argument is None:
            continue
        data = _find_data(context, program.launch, argument.written, table.below)
        header = _read_header(data[0], data[1]) if data is not None else []
        for node in columns if data is not None else ():
            option = next((option for option in interface.options if _is_read(node, table, option)), None)
            value, span = _read_value(module, node, option, arguments)
            if header and value and span is not None and data is not None and value not in header:
                message = f"`{data[1]}` has no column `{value}`, which `{program.path.name}` reads"
                help_ = did_you_mean(value, header) or f"its columns are {', '.join(header[:12])}"
                yield Finding(span, message, help_, (Related(data[2], "the table that it reads"),))
                return


def _match_options(options: list[Option], arguments: list[Argument]) -> dict[str, Argument]:
    """The one word that follows each flag, by the name that the script reads."""
    by_name: dict[str, Argument] = {}
    for flag, value in itertools.pairwise(arguments):
        for option in options:
            if flag.written in option.flags and not value.is_flag and not value.loose and _is_text(option):
                by_name[option.name] = value
    return by_name


def _is_text(option: Option) -> bool:
    """Whether the script gets the word unchanged."""
    node = option.node
    kind = keyword_argument(node, "type") if isinstance(node, ast.Call) else None
    several = isinstance(node, ast.Call) and keyword_argument(node, "nargs") is not None
    return option.most == 1 and not several and (kind is None or getattr(kind, "id", "") in ("str", "Path"))


def _find_tables(module: Module) -> Iterator[_Table]:
    """The variables that are bound once, to a table whose columns are those of its file."""
    for name, call in module.calls:
        above = module.parents.get(call)
        if name != "pandas.read_csv" or not isinstance(above, ast.Assign) or len(above.targets) != 1:
            continue
        target, path = above.targets[0], call.args[0] if len(call.args) == 1 else None
        path = path or keyword_argument(call, "filepath_or_buffer")
        if not isinstance(target, ast.Name) or any(keyword.arg not in _PLAIN for keyword in call.keywords):
            continue
        option, below = _read_path(module, path)
        if option is not None and not any(
            parameter.arg == target.id for parameter in module.kinds.get(ast.arg, ())
        ):
            yield _Table(target.id, getattr(option.value, "id", ""), option.attr, below)


def _read_path(module: Module, node: ast.AST | None) -> tuple[ast.Attribute | None, str]:
    """The option in `args.data`, and the file in `os.path.join(args.data, "file.csv")` and the like."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node, ""
    parts: list[ast.expr] = []
    if isinstance(node, ast.Call) and module.name_of(node.func) == "os.path.join":
        parts = node.args
    elif isinstance(node, ast.Call) and module.name_of(node.func) == "pathlib.Path" and len(node.args) == 1:
        return _read_path(module, node.args[0])
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts = [node.left, node.right]
    if len(parts) == 2:
        option, below = _read_path(module, parts[0])
        file = constant_value(parts[1])
        if option is not None and not below and isinstance(file, str):
            return option, file
    return None, ""


def _find_columns(module: Module, name: str) -> list[ast.expr]:
    """The expressions that name columns of a table; none if the script may add columns."""
    uses = [use for use in module.kinds.get(ast.Name, ()) if use.id == name]
    made = [use for use in uses if not isinstance(use.ctx, ast.Load)]
    if len(made) != 1:
        return []
    columns: list[ast.expr] = []
    keeps, functions = list_last_names("keeps_columns"), list_last_names("keeps_table")
    for use in uses:
        above = module.parents.get(use)
        if isinstance(use.ctx, ast.Store):
            continue
        if isinstance(above, ast.Subscript) and above.value is use and isinstance(above.ctx, ast.Load):
            columns += _list_names(above.slice)
        elif isinstance(above, ast.Attribute) and above.attr in keeps and isinstance(above.ctx, ast.Load):
            columns += _list_of_call(module.parents.get(above), above)
        elif not (isinstance(above, ast.Call) and module.name_of(above.func).rpartition(".")[2] in functions):
            return []
    scope = find_scope(module, made[0])
    return [
        column
        for column in columns
        if find_scope(module, column) is scope and not is_conditional(module, column)
    ]


def _list_of_call(call: ast.AST | None, method: ast.Attribute) -> list[ast.expr]:
    """The columns that `drop(columns=…)` and `pop(…)` name."""
    if not isinstance(call, ast.Call) or call.func is not method:
        return []
    if method.attr == "drop" and keyword_argument(call, "errors") is None:
        columns = keyword_argument(call, "columns")
        if columns is None and call.args and constant_value(keyword_argument(call, "axis")) in (1, "columns"):
            columns = call.args[0]
        return _list_names(columns)
    return _list_names(call.args[0]) if method.attr == "pop" and call.args else []


def _list_names(node: ast.expr | None) -> list[ast.expr]:
    items = node.elts if isinstance(node, ast.List) else [node]
    return [item for item in items if isinstance(item, ast.Constant | ast.Attribute)]


def _is_read(node: ast.expr, table: _Table, option: Option) -> bool:
    """Whether an expression is an option that the script reads, such as `args.target`."""
    plain = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and _is_text(option)
    return plain and node.attr == option.name and node.value.id == table.arguments  # type: ignore[attr-defined]


def _read_value(
    module: Module, node: ast.expr, option: Option | None, arguments: dict[str, Argument]
) -> tuple[str, Span | None]:
    """The name of a column, and where it is written: in the command, or in the script."""
    value: object = constant_value(node)
    span: Span | None = module.span(node)
    attributes = module.kinds.get(ast.Attribute, ())
    if option is not None and all(
        attribute.attr != option.name or isinstance(attribute.ctx, ast.Load) for attribute in attributes
    ):
        argument = arguments.get(option.name)
        if argument is not None:
            value, span = argument.text, argument.span
        elif option.module is module and isinstance(option.node, ast.Call):
            default = keyword_argument(option.node, "default")
            value = evaluate(define_alone(module), module, default) if default is not None else None
    return (value, span) if isinstance(value, str) else ("", None)


def _find_data(context: Tree, launch: Launch, written: str, below: str) -> tuple[Path, str, Span] | None:
    """The local table that a word of the command stands for, how messages call it, and its place."""
    expressions = binding.find_expressions(written)
    rest = written.rpartition("}}")[2].strip("/")
    if len(expressions) != 1 or expressions[0].scope != "inputs" or expressions[0].start or (rest and below):
        return None
    field = follow_binding(launch.job, launch.step.inputs.get(expressions[0].port or ""))
    path = field.value.path if field is not None and isinstance(field.value, Data) else None
    if (
        path is None
        or (rest and below)
        or not isinstance(path.node, Scalar)
        or not isinstance(path.value, str)
    ):
        return None
    local = local_path(path.value, folder_of(path.node))
    file = local / (rest or below) if local is not None else None
    if file is None or not context.inside(file) or not is_file(file):
        return None
    return file, "/".join(part for part in (path.value.rstrip("/"), rest or below) if part), path.node.span


def _read_header(file: Path, called: str) -> list[str]:
    """The columns of a CSV file; none if unknown."""
    from worldsize.data.tables import read_header  # few scripts read columns of a local table

    header = read_header(file, called)
    unnamed = any(not name or name != name.strip() for name in header)
    return [] if unnamed or len(header) > _COLUMNS or len({*header}) < len(header) else header
