"""Where a script, or a line that is added, reads its command line, and how options are read elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct, structs

from worldsize.adopting.model import Flag, Role
from worldsize.adopting.options.declared import Declared, Options, read_options
from worldsize.adopting.source.reading import list_direct
from worldsize.adopting.source.script import Script
from worldsize.scripts.bindings import is_method, is_parameter, list_parameters
from worldsize.scripts.definitions import Place
from worldsize.scripts.values import find_values, follow_name

_READERS = {"hydra", "absl", "docopt", "tyro", "simple_parsing", "jsonargparse", "optparse", "getopt"}
_DEPTH = 8
_PARSES = ("TrlParser", "LightningCLI", "OmegaConf.from_cli")


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
    used: frozenset[str] = frozenset()  # names of the script, where options are parameters
    is_mapping: bool = False  # `vars(parser.parse_args())`
    is_closed: bool = False  # an option more would be one too many: `Settings(**vars(args))`

    @property
    def place(self) -> str:
        """How an option is read where the parser's own name is known, with `{}` for the option."""
        if self.function is not None:
            return "{}"
        return f'{self.name}["{{}}"]' if self.is_mapping else f"{self.name}.{{}}"


def find_option(parser: Parser, value: ast.expr) -> Declared | None:
    """The option that is read: that of ``lr``, ``args.lr`` and ``args["lr"]``."""
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        return parser.options.named(str(value.slice.value))
    return parser.options.named(getattr(value, "attr", getattr(value, "id", "")))


def find_parser(script: Script) -> Parser:
    """How the script reads its command line."""
    options = read_options(script.module)
    if options.library is None and _reads_itself(script):
        return Parser(options, "")
    if options.library is None:
        return Parser(options, script.new_name("args"), parser=script.new_name("parser"))
    if options.library != "argparse":
        return Parser(options, "", function=_find_command(script, options), used=frozenset(script.names))
    declared = [
        call for call in script.module.called("add_argument")
        if script.has_own_line(script.statement(call)) and isinstance(call.func, ast.Attribute)
    ]  # fmt: skip
    if options.parser is not None:
        declared = [call for call in declared if ast.unparse(call.func).startswith(f"{options.parser}.")]
    for call in script.module.called("parse_args", "parse_known_args"):
        mine = [declaring for declaring in declared if _declares_for(script, declaring, call)]
        parsed = _follow_parsed(script, options, call, mine) if mine else None
        if parsed is not None:
            return structs.replace(parsed, is_closed=_is_spread(script, parsed))
    return Parser(options, "")


def _is_spread(script: Script, parser: Parser) -> bool:
    """Whether a function or class of the script gets each option by its name, and takes no others."""
    spread = {f"vars({parser.name})", f"{parser.name}.__dict__", parser.name}
    for call in script.nodes(ast.Call):
        if not any(keyword.arg is None and ast.unparse(keyword.value) in spread for keyword in call.keywords):
            continue
        taker = script.function(call)
        if taker is not None:
            return taker.args.kwarg is None
        class_ = script.classes.get(getattr(call.func, "id", ""))
        decorators = class_.decorator_list if class_ is not None else []
        replaces = script.module.name_of(call.func) == "dataclasses.replace"
        if replaces or any("dataclass" in ast.unparse(decorator) for decorator in decorators):
            return True
    return False


def _reads_itself(script: Script) -> bool:
    """Whether the script reads its command line otherwise: another parser would not know what it knows."""
    tops = {name.partition(".")[0] for name, _, _ in script.module.imports}
    if tops & _READERS or script.module.called(*_PARSES) or _reads_beside(script):
        return True
    return any(script.module.name_of(node) == "sys.argv" for node in script.nodes(ast.Attribute))


def _reads_beside(script: Script) -> bool:
    """Whether a module beside the script parses: as it is imported, or in a function that is called."""
    for module in list_direct(script.module):
        for call in module.called("parse_args", "parse_known_args"):
            tops = [
                above for above, _ in module.ancestors(call) if isinstance(above, ast.FunctionDef | ast.If)
            ]
            if not tops or getattr(tops[-1], "name", None) in script.module.callers:
                return True
    return False


def _declares_for(script: Script, last: ast.Call, parse: ast.Call) -> bool:
    """Whether an option is of the parser that parses: that of the file, or of the same function."""
    scope, parsing_scope = script.scope(last), script.scope(parse)
    if scope is parsing_scope:
        return True
    func = last.func
    base = parse.func.value if isinstance(parse.func, ast.Attribute) else None
    if isinstance(base, ast.Call):  # `make_parser().parse_args()`
        return not isinstance(scope, ast.Module) and scope.name == getattr(base.func, "id", "")
    if not isinstance(func, ast.Attribute) or base is None:
        return False
    return isinstance(scope, ast.Module) and script.written(func.value) == script.written(base)


def _follow_parsed(
    script: Script, options: Options, parse: ast.Call, declared: list[ast.Call]
) -> Parser | None:
    """What holds the options in the end: ``args = parse()``, or a parameter, ``main(vars(parse()))``."""
    last = max(declared, key=lambda call: call.lineno)
    assert isinstance(last.func, ast.Attribute)
    loops = [above for above, _ in script.module.ancestors(last) if isinstance(above, ast.For | ast.While)]
    inside = [loop for loop in loops if script.scope(loop) is script.scope(last)]
    behind = inside[-1] if inside else script.statement(last)
    start = Parser(options, "", behind=behind, parser=script.written(last.func.value))
    node: ast.AST | None = parse
    chosen = None
    for _ in range(_DEPTH):
        above = script.module.parents.get(node) if node is not None else None
        if isinstance(above, ast.Call) and getattr(above.func, "id", "") == "vars":
            node, start.is_mapping = above, True
        elif isinstance(above, ast.Subscript):  # of `parse_known_args`
            node = above
        elif isinstance(above, ast.Call) and node in above.args:
            taken = _find_taker(script, above, above.args.index(node))
            if taken is None:
                return chosen
            holder, name = taken
            return structs.replace(start, name=name, statement=script.statement(parse), holder=holder)
        elif isinstance(above, ast.Assign) and (target := _read_target(above)) is not None:
            chosen = structs.replace(start, name=target, statement=above)
            node = _find_user(script, above) if _returns(script, above, target) else None
        else:
            node = _find_user(script, above) if isinstance(above, ast.Return) else None
    return chosen


def _read_target(statement: ast.Assign) -> str | None:
    """``args`` of ``args = …`` and ``args, rest = …``."""
    target = statement.targets[0]
    target = target.elts[0] if isinstance(target, ast.Tuple) else target
    return target.id if isinstance(target, ast.Name) else None


def _returns(script: Script, statement: ast.stmt, name: str) -> bool:
    """Whether the function of a statement returns what that assigns."""
    scope = script.scope(statement)
    returned = (node for node in script.nodes(ast.Return) if script.scope(node) is scope)
    return any(getattr(node.value, "id", "") == name for node in returned)


def _find_user(script: Script, node: ast.AST) -> ast.Call | None:
    """The first call of the function around a node whose result is used."""
    function = script.scope(node)
    if isinstance(function, ast.Module):
        return None
    for name, call in script.module.callers.get(function.name, ()):
        if name == function.name and not isinstance(script.module.parents.get(call), ast.Expr):
            return call
    return None


def _find_taker(script: Script, call: ast.Call, position: int) -> tuple[ast.FunctionDef, str] | None:
    """The function, or the initializer, that a call reaches, with its parameter at a position."""
    function = script.function(call) if isinstance(call.func, ast.Name) else None
    if not isinstance(function, ast.FunctionDef):
        return None
    names = [parameter.arg for parameter in function.args.args][is_method(script.module, function) :]
    return (function, names[position]) if position < len(names) else None


def _find_command(script: Script, options: Options) -> ast.FunctionDef | None:
    """The function that click decorates, or typer or fire call."""
    if options.library == "click":
        for node in script.nodes(ast.FunctionDef):
            if any(re.search("option|argument", ast.unparse(decorator)) for decorator in node.decorator_list):
                return node
        return None
    arguments = script.module.parents.get(options.declared[0].node) if options.declared else None
    function = script.module.parents.get(arguments) if arguments is not None else None
    return function if isinstance(function, ast.FunctionDef) else None


def is_visible(script: Script, parser: Parser, node: ast.AST) -> bool:
    """Whether the values of the options, also of one that is added, can be read at a node."""
    if (function := find_default_of(script, node)) is not None:  # read where the function is defined
        node = function
    holder = parser.function or parser.holder
    if holder is not None and not parser.is_closed:
        return script.scope(node) is holder
    if not parser.name or parser.is_closed:
        return False
    if parser.statement is None:
        return True
    where, scope = script.scope(parser.statement), script.scope(node)
    if where is scope:
        return getattr(node, "lineno", 0) > parser.statement.lineno
    if not isinstance(where, ast.Module) or any(
        script.scope(store) is not where for store in script.module.stores(parser.name)
    ):
        return any(word.arg == parser.name for word in getattr(getattr(scope, "args", None), "args", ()))
    return not isinstance(scope, ast.Module) or getattr(node, "lineno", 0) > parser.statement.lineno


def find_default_of(script: Script, node: ast.AST) -> ast.FunctionDef | None:
    """The function of which a node is the default of a parameter."""
    above = script.module.parents.get(node)
    function = script.module.parents.get(above) if isinstance(above, ast.arguments) else None
    return function if isinstance(function, ast.FunctionDef) else None


def find_place(script: Script, parser: Parser, node: ast.AST) -> str | None:
    """How an option is read at a node, with `{}` for its name: `args.{}`, `self.args.{}`; None if none is."""
    if is_visible(script, parser, node):
        return parser.place
    scope = script.scope(node)
    if isinstance(scope, ast.Module) or parser.is_closed or not (parser.name or parser.function):
        return None
    if (place := _find_holder(script, parser, node)) is not None:
        return place
    if isinstance(script.module.parents[scope], ast.ClassDef):
        return None
    outer = find_place(script, parser, scope)  # of the function around this one
    name = re.match(r"\w*", outer or "")
    hidden = not name or script.bindings(name[0], scope) or is_parameter(scope, name[0])
    return None if hidden else outer


def find_read(script: Script, parser: Parser, node: ast.AST, name: str) -> str | None:
    """How an option of the script is read at a node, also from settings that are made of all options."""
    opened = structs.replace(parser, is_closed=False)
    place = find_place(script, opened, node)
    if place is None and parser.options.library == "argparse":
        place = _find_holder(script, opened, node, field=name)
    return place.format(name) if place else None


def _find_holder(script: Script, parser: Parser, node: ast.AST, *, field: str = "") -> str | None:
    """How options are read at a node from another variable than the one that is assigned what is parsed.

    With a ``field`` also from what a dataclass of the script makes of them: ``Settings(**vars(args))``.
    """
    for name, values in _list_variables(script, node, of_file=bool(field)):
        kinds = {_judge(script, parser, value, field) for _, value in values}
        if len(kinds) == 1 and (is_mapping := kinds.pop()) is not None:
            return f'{name}["{{}}"]' if is_mapping else f"{name}.{{}}"
    return None


def _list_variables(script: Script, node: ast.AST, *, of_file: bool) -> Iterator[tuple[str, list[Place]]]:
    """The variables that are set before a node, and what ``__init__`` sets, with their values."""
    scope, module, line = script.scope(node), script.module, getattr(node, "lineno", 0)
    names: dict[str, int] = {}
    if not isinstance(scope, ast.Module):
        names = {parameter.arg: 0 for parameter, _ in list_parameters(scope)} | script.list_bound(scope)
        for name in (name for name, bound in names.items() if bound < line):
            yield name, follow_name(script.code, module, scope, name)
        gets_self = scope.args.args[:1] and scope.args.args[0].arg == "self" and scope.name != "__init__"
        for name, assigned in script.attributes(module.parents[scope]).items() if gets_self else ():
            if [getattr(script.scope(statement), "name", "") for statement, _ in assigned] == ["__init__"]:
                yield f"self.{name}", [(module, value) for _, value in assigned]
    for name, bound in script.list_bound(module.tree).items() if of_file else ():
        if name not in names and (bound < line or scope is not module.tree):
            yield name, follow_name(script.code, module, module.tree, name)


def _judge(script: Script, parser: Parser, node: ast.AST, field: str, depth: int = _DEPTH) -> bool | None:
    """Whether an expression is a mapping of the options; None if it is something else than these."""
    name = script.called_name(node)
    if isinstance(node, ast.Call) and name == "vars" and len(node.args) == 1:
        return True if _judge(script, parser, node.args[0], field, depth) is False else None
    if name.endswith("parse_args") and (parser.statement is not None or field):
        return False
    class_ = script.classes.get(name)
    if isinstance(node, ast.Call) and class_ is not None and field and script.bindings(field, class_):
        spread = [keyword.value for keyword in node.keywords if keyword.arg is None]
        fills = depth and any(_judge(script, parser, part, field, depth - 1) for part in spread)
        return False if fills else None
    values = find_values(script.code, script.module, node) if depth else []
    kinds = {_judge(script, parser, value, field, depth - 1) for _, value in values}
    return kinds.pop() if len(kinds) == 1 else None
