"""What is written into the text becomes an option: batch size, learning rate, epochs, paths."""

from __future__ import annotations

import ast
import re

from msgspec import Struct, structs

from worldsize.adopting.model import Flag, Role
from worldsize.adopting.options.configuration import find_setting
from worldsize.adopting.options.declared import Declared, Options, read_options
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.reading import list_modules_beside, read_beside
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer

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
_READERS = {"hydra", "absl", "docopt", "tyro", "simple_parsing", "jsonargparse", "optparse", "getopt"}
_PARSES = ("TrlParser", "LightningCLI", "OmegaConf.from_cli")
_REASON = "the plan sets it for the whole cluster"


class Parser(Struct, eq=False):
    """Where options are read: by the script, or by lines that are added."""

    options: Options
    name: str  # of what holds the values
    statement: ast.stmt | None = None  # that parses; None where it is added
    behind: ast.stmt | None = None  # the last `add_argument`
    function: ast.FunctionDef | None = None  # whose parameters are the options, of click, typer and fire
    holder: ast.FunctionDef | None = None  # that gets what is parsed as a parameter: `main(parse_args())`
    parser: str = "parser"
    added: list[Flag] = []
    roles: dict[str, Role] = {}  # what options of the script turned out to be for
    numbers: dict[str, float | None] = {}
    lines: list[str] = []
    then: list[str] = []  # what follows the parsing


def find_parser(script: Script) -> Parser:
    """How the script reads its command line."""
    options = read_options(script.module)
    if options.library is None and _reads_itself(script):
        return Parser(options, "")
    if options.library is None:
        return Parser(options, script.new_name("args"), parser=script.new_name("parser"))
    if options.library != "argparse":
        return Parser(options, "", function=_find_command(script, options))
    declared = [
        each for each in script.module.called("add_argument") if script.has_own_line(script.statement(each))
    ]
    if options.parser is not None:
        declared = [each for each in declared if ast.unparse(each.func).startswith(f"{options.parser}.")]
    for call in script.module.called("parse_args"):
        statement = script.module.parents.get(call)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name) and declared:
            last = max(declared, key=lambda each: each.lineno)
            if _declares_for(script, last, call) and isinstance(last.func, ast.Attribute):
                name = script.written(last.func.value)
                return Parser(
                    options, statement.targets[0].id, statement, script.statement(last), parser=name
                )
        if isinstance(statement, ast.Call) and isinstance(statement.func, ast.Name) and declared:
            found = _find_holder(script, options, declared, call, statement)
            if found is not None:
                return found
    return _find_returned(script, options, declared)


def _reads_itself(script: Script) -> bool:
    """Whether the script reads its command line otherwise: another parser would not know what it knows."""
    tops = {name.partition(".")[0] for name, _, _ in script.module.imports}
    if tops & _READERS or script.module.called(*_PARSES) or _reads_beside(script):
        return True
    return any(
        script.module.name_of(node) == "sys.argv" for node in script.module.kinds.get(ast.Attribute, ())
    )


def _reads_beside(script: Script) -> bool:
    """Whether a module beside the script parses: as it is imported, or in a function that is called."""
    for _, _, path in list_modules_beside(script.module):
        module = read_beside(path)
        if module is None:
            continue
        for call in module.called("parse_args", "parse_known_args"):
            tops = [
                above for above, _ in module.ancestors(call) if isinstance(above, ast.FunctionDef | ast.If)
            ]
            if not tops or getattr(tops[-1], "name", None) in script.module.callers:
                return True
    return False


def _declares_for(script: Script, last: ast.Call, parse: ast.Call) -> bool:
    """Whether an option is of the parser that parses: that of the file, or of the same function."""
    scope, own = script.scope(last), script.scope(parse)
    if scope is own:
        return True
    func = last.func
    base = parse.func.value if isinstance(parse.func, ast.Attribute) else None
    if isinstance(base, ast.Call):  # `make_parser().parse_args()`
        return not isinstance(scope, ast.Module) and scope.name == getattr(base.func, "id", "")
    if not isinstance(func, ast.Attribute) or base is None:
        return False
    return isinstance(scope, ast.Module) and script.written(func.value) == script.written(base)


def _find_holder(
    script: Script, options: Options, declared: list[ast.Call], parse: ast.Call, call: ast.Call
) -> Parser | None:
    """``main(parser.parse_args())``: the options are what the parameter of a function is called."""
    last = max(declared, key=lambda each: each.lineno)
    if call.args[:1] != [parse] or script.scope(last) is not script.scope(parse):
        return None
    for node in script.module.kinds.get(ast.FunctionDef, ()):
        if (
            node.name == getattr(call.func, "id", "")
            and node.args.args
            and isinstance(last.func, ast.Attribute)
        ):
            return Parser(
                options, node.args.args[0].arg, script.statement(parse), script.statement(last),
                holder=node, parser=script.written(last.func.value),
            )  # fmt: skip
    return None


def _find_command(script: Script, options: Options) -> ast.FunctionDef | None:
    """The function that click decorates, or typer or fire call."""
    if options.library == "click":
        return next(
            (
                node
                for node in script.module.kinds.get(ast.FunctionDef, ())
                if any(re.search("option|argument", ast.unparse(each)) for each in node.decorator_list)
            ),
            None,
        )
    functions = [script.module.parents.get(each.node) for each in options.declared]
    arguments = functions[0] if functions else None
    function = script.module.parents.get(arguments) if arguments is not None else None
    return function if isinstance(function, ast.FunctionDef) else None


def _find_returned(script: Script, options: Options, declared: list[ast.Call]) -> Parser:
    """``args = parse()``, where a function declares all options and returns what it parses."""
    for call in script.module.called("parse_args"):
        function = script.scope(call)
        mine = [each for each in declared if script.scope(each) is function]
        if isinstance(function, ast.Module) or not mine:
            continue
        for name, user in script.module.callers.get(function.name, ()):
            statement = script.module.parents.get(user)
            if (
                name == function.name
                and isinstance(statement, ast.Assign)
                and isinstance(statement.targets[0], ast.Name)
            ):
                last = max(mine, key=lambda each: each.lineno)
                assert isinstance(last.func, ast.Attribute)
                parser = script.written(last.func.value)
                return Parser(
                    options, statement.targets[0].id, statement, script.statement(last), parser=parser
                )
    return Parser(options, "")


def is_visible(script: Script, parser: Parser, node: ast.AST) -> bool:
    """Whether the values of the options can be read at a node."""
    if (function := find_default_of(script, node)) is not None:  # read where the function is defined
        node = function
    holder = parser.function or parser.holder
    if holder is not None:
        return script.scope(node) is holder
    if not parser.name:
        return False
    if parser.statement is None:
        return True
    where, scope = script.scope(parser.statement), script.scope(node)
    if where is scope:
        return getattr(node, "lineno", 0) > parser.statement.lineno
    if not isinstance(where, ast.Module) or any(
        script.scope(each) is not where for each in script.module.stores(parser.name)
    ):
        return any(each.arg == parser.name for each in getattr(getattr(scope, "args", None), "args", ()))
    return not isinstance(scope, ast.Module) or getattr(node, "lineno", 0) > parser.statement.lineno


def find_default_of(script: Script, node: ast.AST) -> ast.FunctionDef | None:
    """The function of which a node is the default of a parameter."""
    above = script.module.parents.get(node)
    function = script.module.parents.get(above) if isinstance(above, ast.arguments) else None
    return function if isinstance(function, ast.FunctionDef) else None


def add_flag(parser: Parser, role: Role, default: float | str | None, kind: str | None = None) -> str:
    """Declare an option, of a ``kind`` where its default does not tell; how the script reads its value."""
    option = _OPTION.get(role, "--" + role.replace("_", "-"))
    taken = {flag.flag.option for flag in parser.options.declared}
    while option in taken:
        option += "-"
    type_ = kind or (type(default).__name__ if type(default) in (int, float) else "str")
    if not any(each.option == option for each in parser.added):
        typed = f"type={type_}, " if type_ != "str" and (kind or parser.function is None) else ""
        shown = _show_value(default)
        call = "@click.option" if parser.function is not None else f"{parser.parser}.add_argument"
        line = f'{call}("{option}", {typed}default={shown}, help="{_HELP[role]}")'
        parser.lines.append(line)
        inner = parser.options.subcommand is not None
        flag = Flag(option, role, type_, default, added=True, inner=inner)  # type: ignore[arg-type]
        parser.added.append(flag)
    name = option.lstrip("-").replace("-", "_")
    return name if parser.function is not None else f"{parser.name}.{name}"


def _show_value(value: float | str | None) -> str:
    return f'"{value}"' if isinstance(value, str) and '"' not in value else repr(value)


def set_by_flag(script: Script, tracer: Tracer, parser: Parser, role: Role, node: ast.expr) -> None:
    """Let an option set a number: the one that the script has, or a new one in place of a literal."""
    if set_in_file(script, tracer, parser, role, node):
        return
    value, scope = tracer.follow(node, script.scope(node))
    seen: set[ast.expr] = set()  # `n = int(n)`
    while (inner := _find_inner(value, role)) is not None and value not in seen:
        seen.add(value)
        value, scope = tracer.follow(inner, scope)
    number = _read_number(value)
    declared = _find_default(tracer, parser, value) or _find_parameter(script, tracer, parser, value)
    if number is not None and declared is None:
        parser.numbers[role] = number
        taken = any(each.flag.role == role for each in parser.options.declared)
        if taken and parser.function is None:
            what = role.replace("_", " ")
            script.leave(
                value, f"this {what} is written out, beside an option for one", "take the option here"
            )
            return
        if (parser.statement is None and parser.name) or is_visible(script, parser, value):
            name = add_flag(parser, role, number)
            script.replace(value, name, None, _REASON)
            return
    name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
    declared = declared or parser.options.named(name)
    if declared is not None:
        parser.roles[declared.flag.option] = role
        default = declared.flag.default
        parser.numbers[role] = default if isinstance(default, int | float) else None
        return
    if set_in_file(script, tracer, parser, role, value):
        return
    what = role.replace("_", " ")
    script.leave(value, f"no option sets the {what} here", "read it from an option of the command line")


def set_in_file(script: Script, tracer: Tracer, parser: Parser, role: Role, node: ast.expr) -> bool:
    """Let an option replace what a configuration file says, behind the line that reads it."""
    setting = find_setting(script, tracer, node)
    if setting is None or isinstance(setting.value, str) is not (role == "output"):
        return False
    for statement, text in reversed(setting.places):
        if not is_visible(script, parser, statement):
            continue
        kind = "float" if role == "learning_rate" else "int"
        if not isinstance(setting.value, str):
            parser.numbers[role] = setting.value
        name = add_flag(parser, role, None, None if isinstance(setting.value, str) else kind)
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


def _find_default(tracer: Tracer, parser: Parser, value: ast.expr) -> Declared | None:
    """The parameter of the command whose default this is: it is an option already."""
    function = parser.function
    for each in parser.options.declared if function is not None else ():
        if isinstance(each.node, ast.arg) and tracer.default(function, each.name) is value:  # type: ignore[arg-type]
            return each
    return None


def _find_parameter(script: Script, tracer: Tracer, parser: Parser, value: ast.expr) -> Declared | None:
    """The option that has the name of a parameter, whose default this is: ``Model(**vars(args))`` sets it."""
    function = find_default_of(script, value)
    names = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)] if function else []
    name = next((each for each in names if function and tracer.default(function, each) is value), "")
    return parser.options.named(name) if parser.function is None else None


def _read_number(node: ast.expr) -> int | float | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if type(value) in (int, float) else None  # type: ignore[return-value]


def list_flags(parser: Parser) -> tuple[Flag, ...]:
    """The options of the adopted script."""
    declared = []
    for each in parser.options.declared:
        role = parser.roles.get(each.flag.option, each.flag.role)
        if role in parser.roles.values() and each.flag.option not in parser.roles:
            role = None  # another option is what the training uses
        declared.append(structs.replace(each.flag, role=role))
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
    parameters = [*function.args.args, *function.args.kwonlyargs]
    defaults = [each for each in (*function.args.defaults, *function.args.kw_defaults) if each is not None]
    last = max((*parameters, *defaults), key=script.end)
    gap = script.gap(max(parameters, key=script.end), function)
    for flag, line in zip(parser.added, parser.lines, strict=True):
        name = flag.option.lstrip("-").replace("-", "_")
        if parser.options.library == "click":
            script.insert_decorator(function, line, None, reason)
            script.insert_behind(last, f",{gap}{name}", None, reason)
        else:
            typed = any(each.annotation is not None for each in function.args.args)
            value = _show_value(flag.default)
            kind = flag.type if flag.default is not None or flag.type == "str" else f"{flag.type} | None"
            text = f"{name}: {kind} = {value}" if typed else f"{name}={value}"
            script.insert_behind(last, f",{gap}{text}", None, reason)
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
