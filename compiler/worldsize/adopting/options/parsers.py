"""Where a script reads its command line, or where lines that are added read it."""

from __future__ import annotations

import ast
import re

from msgspec import Struct, structs

from worldsize.adopting.model import Flag, Role
from worldsize.adopting.options.declared import Declared, Options, read_options
from worldsize.adopting.source.reading import list_modules_beside, read_beside
from worldsize.adopting.source.script import Script

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
        each for each in script.module.called("add_argument")
        if script.has_own_line(script.statement(each)) and isinstance(each.func, ast.Attribute)
    ]  # fmt: skip
    if options.parser is not None:
        declared = [each for each in declared if ast.unparse(each.func).startswith(f"{options.parser}.")]
    for call in script.module.called("parse_args", "parse_known_args"):
        mine = [each for each in declared if _declares_for(script, each, call)]
        found = _follow_parsed(script, options, call, mine) if mine else None
        if found is not None:
            return structs.replace(found, is_closed=_is_spread(script, found))
    return Parser(options, "")


def _is_spread(script: Script, parser: Parser) -> bool:
    """Whether a function or class of the script gets each option by its name, and takes no others."""
    spread = {f"vars({parser.name})", f"{parser.name}.__dict__", parser.name}
    functions = {each.name: each for each in script.module.tree.body if isinstance(each, ast.FunctionDef)}
    classes = {each.name: each for each in script.module.kinds.get(ast.ClassDef, ())}
    for call in script.module.kinds.get(ast.Call, ()):
        name = getattr(call.func, "id", "")
        if not any(each.arg is None and ast.unparse(each.value) in spread for each in call.keywords):
            continue
        made = (
            [each for each in classes[name].body if isinstance(each, ast.FunctionDef)]
            if name in classes
            else []
        )
        taker = functions.get(name) or next((each for each in made if each.name == "__init__"), None)
        if taker is not None:
            return taker.args.kwarg is None
        decorators = classes[name].decorator_list if name in classes else []
        replaces = script.module.name_of(call.func) == "dataclasses.replace"
        if replaces or any("dataclass" in ast.unparse(each) for each in decorators):
            return True
    return False


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


def _follow_parsed(
    script: Script, options: Options, parse: ast.Call, declared: list[ast.Call]
) -> Parser | None:
    """What holds the options in the end: ``args = parse()``, or a parameter, ``main(vars(parse()))``."""
    last = max(declared, key=lambda each: each.lineno)
    assert isinstance(last.func, ast.Attribute)
    loops = [each for each, _ in script.module.ancestors(last) if isinstance(each, ast.For | ast.While)]
    inside = [each for each in loops if script.scope(each) is script.scope(last)]
    behind = inside[-1] if inside else script.statement(last)
    start = Parser(options, "", behind=behind, parser=script.written(last.func.value))
    node: ast.AST | None = parse
    found = None
    for _ in range(_DEPTH):
        above = script.module.parents.get(node) if node is not None else None
        if isinstance(above, ast.Call) and getattr(above.func, "id", "") == "vars":
            node, start.is_mapping = above, True
        elif isinstance(above, ast.Subscript):  # of `parse_known_args`
            node = above
        elif isinstance(above, ast.Call) and node in above.args:
            taken = _find_taker(script, above, above.args.index(node))
            if taken is None:
                return found
            holder, name = taken
            return structs.replace(start, name=name, statement=script.statement(parse), holder=holder)
        elif isinstance(above, ast.Assign) and (target := _read_target(above)) is not None:
            found = structs.replace(start, name=target, statement=above)
            node = _find_user(script, above) if _returns(script, above, target) else None
        else:
            node = _find_user(script, above) if isinstance(above, ast.Return) else None
    return found


def _read_target(statement: ast.Assign) -> str | None:
    """``args`` of ``args = …`` and ``args, rest = …``."""
    target = statement.targets[0]
    target = target.elts[0] if isinstance(target, ast.Tuple) else target
    return target.id if isinstance(target, ast.Name) else None


def _returns(script: Script, statement: ast.stmt, name: str) -> bool:
    """Whether the function of a statement returns what that assigns."""
    scope = script.scope(statement)
    returned = (node for node in script.module.kinds.get(ast.Return, ()) if script.scope(node) is scope)
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
    name = getattr(call.func, "id", "")
    for node in script.module.kinds.get(ast.FunctionDef, ()):
        above = script.module.parents[node]
        made = isinstance(above, ast.ClassDef)
        called = above.name if isinstance(above, ast.ClassDef) and node.name == "__init__" else node.name
        if name == called:
            names = [each.arg for each in node.args.args][made:]
            return (node, names[position]) if position < len(names) else None
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
