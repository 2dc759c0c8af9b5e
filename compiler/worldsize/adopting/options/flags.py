"""What is written into the text becomes an option: batch size, learning rate, epochs, paths."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import structs

from worldsize.adopting.model import Flag, Role
from worldsize.adopting.options.configuration import find_setting
from worldsize.adopting.options.declared import Declared
from worldsize.adopting.options.parsers import Parser, find_default_of, find_option, find_place
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.scripts.bindings import list_parameters
from worldsize.scripts.module import Module, find_passed

_HELP: dict[Role, str] = {
    "batch_size": "rows per process and step",
    "learning_rate": "for the batch of all processes",
    "epochs": "passes over the rows",
    "accumulation": "batches that an optimizer step adds up",
    "data": "where the rows are",
    "output": "folder for what the script writes",
    "checkpoints": "folder to save to after each epoch, and to resume from",
    "seed": "seed of the random numbers",
}
_OPTION: dict[Role, str] = {"learning_rate": "--lr", "accumulation": "--gradient-accumulation-steps"}
_FOLDERS = ("data", "output", "checkpoints")
_REASON = "the plan sets it for the whole cluster"


def add_flag(
    parser: Parser,
    role: Role,
    default: float | str | None,
    kind: str | None = None,
    *,
    place: str | None = None,
) -> str:
    """Declare an option, of a ``kind`` where its default does not tell; how the script reads its value.

    ``place`` is how options are read where this one is needed.
    """
    option = _OPTION.get(role, "--" + role.replace("_", "-"))
    taken = {flag.flag.option for flag in parser.options.declared}
    if parser.function is not None and role in _FOLDERS:  # a parameter, which the script may set otherwise
        taken |= {"--" + name.replace("_", "-") for name in parser.used}
    while option in taken:
        option += "-folder" if role in _FOLDERS else "-"
    type_ = kind or (type(default).__name__ if type(default) in (int, float) else "str")
    if not any(flag.option == option for flag in parser.added):
        typed = f"type={type_}, " if type_ != "str" and (kind or parser.function is None) else ""
        shown = _show_value(default)
        call = "@click.option" if parser.function is not None else f"{parser.parser}.add_argument"
        line = f'{call}("{option}", {typed}default={shown}, help="{_HELP[role]}")'
        parser.lines.append(line)
        inner = parser.options.subcommand is not None
        flag = Flag(option, role, type_, default, added=True, inner=inner)  # type: ignore[arg-type]
        parser.added.append(flag)
    name = option.lstrip("-").replace("-", "_")
    return (place or parser.place).format(name)


def _show_value(value: float | str | None) -> str:
    return f'"{value}"' if isinstance(value, str) and '"' not in value else repr(value)


def set_by_flag(script: Script, parser: Parser, role: Role, node: ast.expr) -> None:
    """Let an option set a number: the one that the script has, or a new one in place of a literal."""
    if set_in_file(script, parser, role, node):
        return
    value = script.value(node)
    seen: set[ast.expr] = set()  # `n = int(n)`
    while (inner := _find_inner(value, role)) is not None and value not in seen:
        seen.add(value)
        value = script.value(inner)
    number = _read_number(value)
    declared = _find_parameter(script, parser, value) or find_field_option(script, parser, value)
    if number is not None and declared is None:
        parser.numbers[role] = number
        taken = any(option.flag.role == role for option in parser.options.declared)
        if taken and parser.function is None:
            what = role.replace("_", " ")
            script.leave(
                value, f"this {what} is written out, beside an option for one", "take the option here"
            )
            return
        place = find_place(script, parser, value)
        if place is not None:
            name = add_flag(parser, role, number, place=place)
            script.replace(value, name, None, _REASON)
            return
    declared = declared or find_option(parser, value)
    if declared is not None:
        parser.roles[declared.flag.option] = role
        default = declared.flag.default
        parser.numbers[role] = default if isinstance(default, int | float) else None
        return
    if set_in_file(script, parser, role, value):
        return
    what = role.replace("_", " ")
    if parser.options.unread is not None and (number is None or is_field(script, value)):
        _leave_unread(script, parser.options.unread)
        return
    script.leave(value, f"no option sets the {what} here", "read it from an option of the command line")


def _leave_unread(script: Script, call: ast.Call) -> None:
    """Report once that it is not known whether an option sets a number."""
    message = "which options are declared here cannot be read, so the spec sets no number by them"
    if not any(obstacle.message == message for obstacle in script.obstacles):
        script.leave(call, message, 'declare each by its name: `add_argument("--batch-size", …)`')


def set_in_file(script: Script, parser: Parser, role: Role, node: ast.expr) -> bool:
    """Let an option replace a value of a configuration file, after the line that reads it."""
    setting = find_setting(script, node)
    if setting is None or isinstance(setting.value, str) is not (role == "output"):
        return False
    for statement, text in reversed(setting.places):
        place = find_place(script, parser, statement)
        if place is None:
            continue
        kind = "float" if role == "learning_rate" else "int"
        if not isinstance(setting.value, str):
            parser.numbers[role] = setting.value
        name = add_flag(parser, role, None, None if isinstance(setting.value, str) else kind, place=place)
        above = script.module.parents[statement]
        behind = above if isinstance(above, ast.With) and above.body == [statement] else statement
        lines = [f"if {name} is not None:", f"    {text} = {name}"]
        script.insert_after(behind, lines, None, _REASON)
        return True
    return False


def _find_inner(value: ast.expr, role: Role) -> ast.expr | None:
    """``n`` of ``int(n)``, ``n + 1``, and of a rate that is a multiple: ``n * 10``."""
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("int", "float") and value.args:
        return value.args[0]
    if not isinstance(value, ast.BinOp):
        return None
    if isinstance(value.op, ast.Add) and isinstance(value.right, ast.Constant):
        return value.left
    if role != "learning_rate" or not isinstance(value.op, ast.Mult | ast.Div):
        return None
    if _read_number(value.right) is not None:
        return value.left
    multiple = isinstance(value.op, ast.Mult) and _read_number(value.left) is not None
    return value.right if multiple else None


def _find_parameter(script: Script, parser: Parser, value: ast.expr) -> Declared | None:
    """The option that has the name of a parameter, whose default this is: ``Model(**vars(args))`` sets it."""
    function = find_default_of(script, value)
    parameters = list_parameters(function) if function is not None else []
    option = parser.options.named(next((name.arg for name, default in parameters if default is value), ""))
    if option is not None and parser.function is not None:  # of fire and typer the parameter is the option
        return option if function is parser.function and isinstance(option.node, ast.arg) else None
    return option


def _read_number(node: ast.expr) -> int | float | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if type(value) in (int, float) else None  # type: ignore[return-value]


def list_flags(parser: Parser) -> tuple[Flag, ...]:
    """The options of the adopted script."""
    declared = []
    for option in parser.options.declared:
        role = parser.roles.get(option.flag.option, option.flag.role)
        if role in parser.roles.values() and option.flag.option not in parser.roles:
            role = None  # another option is what the training uses
        declared.append(structs.replace(option.flag, role=role))
    return (*declared, *parser.added)


def write_flags(script: Script, parser: Parser, header: Header) -> None:
    """Write the options that are added."""
    if not parser.lines and not parser.then:
        return
    reason = "options set what the cluster decides: sizes, rates and folders"
    if parser.function is not None:
        _write_parameters(script, parser, parser.function, reason)
    elif parser.statement is None:
        header.imports["import argparse"] = None
        header.flags += [f"{parser.parser} = argparse.ArgumentParser()", *parser.lines]
        header.flags += [f"{parser.name} = {parser.parser}.parse_args()", *parser.then]
    elif parser.behind is not None:
        if parser.lines:
            script.insert_after(parser.behind, parser.lines, None, reason)
        if parser.then and parser.holder is not None:
            open_with(script, parser.holder, parser.then, None, reason)
        elif parser.then:
            script.insert_after(parser.statement, parser.then, None, reason)


def _write_parameters(script: Script, parser: Parser, function: ast.FunctionDef, reason: str) -> None:
    """Add parameters behind the others, for click each with its decorator."""
    typed = any(parameter.annotation is not None for parameter in function.args.args)
    for flag, line in zip(parser.added, parser.lines, strict=True):
        text = flag.option.lstrip("-").replace("-", "_")
        if parser.options.library == "click":
            script.insert_decorator(function, line, None, reason)
        else:
            kind = flag.type if flag.default is not None or flag.type == "str" else f"{flag.type} | None"
            text += f": {kind} = " if typed else "="
            text += _show_value(flag.default)
        script.add_parameter(function, text, None, reason)
    if parser.then:
        open_with(script, function, parser.then, None, reason)


def open_with(
    script: Script, function: ast.FunctionDef, lines: list[str], rule: str | None, reason: str
) -> None:
    """Write lines at the start of a function, below its description."""
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        script.insert_after(first, lines, rule, reason)
    else:
        script.insert_before(first, lines, rule, reason)


def find_field_option(script: Script, parser: Parser, value: ast.expr) -> Declared | None:
    """The option that replaces the default of a field; None for another value, and where none does."""
    statement = script.module.parents.get(value)
    class_ = script.module.parents.get(statement) if statement is not None else None
    if not isinstance(class_, ast.ClassDef) or not isinstance(statement, ast.Assign | ast.AnnAssign):
        return None
    target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
    name = target.id if isinstance(target, ast.Name) else ""
    calls = list(_list_made(script.module, class_))
    for call in calls:
        passed = _find_given(call, class_, name)
        if passed is not None:
            option = find_option(parser, passed)
            return option or find_option(parser, script.value(passed))
        if any(keyword.arg is None for keyword in call.keywords):
            return parser.options.named(name)
    read = (script.written(node) for node in script.nodes(ast.Attribute) if node.attr == name)
    only_declares = not calls and f"{class_.name}.{name}" not in read  # the script reads what it parses
    # `setattr(settings, name, value)` for each option
    return parser.options.named(name) if only_declares or script.module.called("setattr") else None


def is_field(script: Script, value: ast.expr) -> bool:
    """Whether a value is the default of a field of a class."""
    statement = script.module.parents.get(value)
    return isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(
        script.module.parents.get(statement), ast.ClassDef
    )


def _list_made(module: Module, class_: ast.ClassDef) -> Iterator[ast.Call]:
    """The calls that make an object of a class, or change one: ``replace(settings, **vars(args))``."""
    for call in module.kinds.get(ast.Call, ()):
        if getattr(call.func, "id", "") == class_.name or module.name_of(call.func) == "dataclasses.replace":
            yield call


def _find_given(call: ast.Call, class_: ast.ClassDef, name: str) -> ast.expr | None:
    """What a call gives for a field, by its name or by its place."""
    names = [getattr(field.target, "id", "") for field in class_.body if isinstance(field, ast.AnnAssign)]
    made = getattr(call.func, "id", "") == class_.name
    position = names.index(name) if made and name in names else len(call.args)
    return find_passed(call, position, name)
