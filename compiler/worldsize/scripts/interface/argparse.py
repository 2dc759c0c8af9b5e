"""The interface that a script builds with `argparse`, also in helper functions, classes and other modules.

Each `ArgumentParser(...)` is followed through names, attributes, parameters and return values. What does
anything with it that is not known here leaves the interface open, and the rules silent.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain, islice, product

from msgspec import Struct, field

from worldsize.scripts.bindings import find_scope, is_parameter
from worldsize.scripts.definitions import Definitions
from worldsize.scripts.interface.model import Interface, Option
from worldsize.scripts.module import (
    Module,
    constant_value,
    find_passed,
    keyword_argument,
    last_name,
    name_variable,
)
from worldsize.scripts.reached import Reached
from worldsize.scripts.values import evaluate, find_single

_WORDS = ("ArgumentParser", "add_argument", "parse_args", "parse_known_args")
_GROUPS = ("add_argument_group", "add_mutually_exclusive_group")
_HARMLESS = (
    "set_defaults", "get_default", "print_help", "print_usage", "format_help", "format_usage", "error",
    "exit", "_action_groups", "usage", "description", "epilog", "prog", "formatter_class",
)  # fmt: skip
PARSES = ("parse_args", "parse_intermixed_args")
PARSES_KNOWN = ("parse_known_args", "parse_known_intermixed_args")
# What a class that inherits the parser would change of what is known of it.
_OWN_METHODS = {"add_argument", "error", "exit", "convert_arg_line_to_args", *_GROUPS, *PARSES, *PARSES_KNOWN}
_ROUNDS = 6  # calls through which a parser is passed on
_DEEPSPEED = ("--deepspeed", "--deepspeed_config", "--deepscale", "--deepscale_config", "--deepspeed_mpi")
_STRTOBOOL = ("distutils.util.strtobool", "setuptools._distutils.util.strtobool")
_LOWER = ("y", "yes", "t", "true", "on", "1", "n", "no", "f", "false", "off", "0")
_TRUTHS = (*_LOWER, *(form for word in _LOWER for form in (word.upper(), word.capitalize())))
_NO_WORDS = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")


class _Parser(Struct, eq=False):
    """One `ArgumentParser(...)`, `add_parser(...)`, or the collection that `add_subparsers()` makes."""

    module: Module
    node: ast.Call
    interface: Interface = field(default_factory=Interface)
    of: _Parser | None = None  # of `add_subparsers()`: the parser; of `add_parser()`: the collection
    inherits: list[_Parser] = field(default_factory=list)
    parses: list[bool] = field(default_factory=list)  # of each call, whether all arguments must be known
    known: bool = True  # False where something is done with it that cannot be followed


class _Reader:
    """Finds the parsers of the modules and the meaning of their uses."""

    def __init__(self, reached: Reached) -> None:
        self.reached = reached
        self.modules = [module for module in reached.modules if any(word in module.text for word in _WORDS)]
        self.parsers: dict[ast.Call, _Parser] = {}
        self.groups: dict[ast.Call, tuple[bool, list[Option]]] = {}  # mutually exclusive ones
        # by the variable, attribute or function that holds them
        self.held: defaultdict[object, set[_Parser]] = defaultdict(set)
        for module in self.modules:
            for name, call in module.calls:
                if name == "argparse.ArgumentParser" and reached.runs(module, call):
                    self.parsers[call] = _Parser(module, call)
                elif name.rpartition(".")[2] in reached.classes and reached.runs(module, call):
                    self._hold_object(call, reached.classes[name.rpartition(".")[2]])

    def _hold_object(self, call: ast.Call, classes: list[tuple[Module, ast.ClassDef]]) -> None:
        """An object of a class that inherits `ArgumentParser`: `self` in its methods is a parser."""
        module, node = classes[0]
        if len(classes) > 1 or [module.name_of(base) for base in node.bases] != ["argparse.ArgumentParser"]:
            return
        methods = [method for method in node.body if isinstance(method, ast.FunctionDef) and method.args.args]
        above = [call for _, call in module.callers.get("super", ()) if node in dict(module.ancestors(call))]
        attributes = [module.parents[call] for call in above]
        made = [module.parents.get(inner) for inner in attributes if last_name(inner) == "__init__"]
        if len(above) > len(made) or len(made) > 1 or _OWN_METHODS & {method.name for method in methods}:
            return
        maker = made[0] if made and isinstance(made[0], ast.Call) else call
        self.parsers[call] = parser = _Parser(module, maker)
        self.held |= {(method, method.args.args[0].arg): {parser} for method in methods}

    def resolve(self, module: Module, node: ast.AST | None, depth: int = 8) -> set[_Parser]:
        """The parsers that an expression may be."""
        if isinstance(node, ast.Name):
            return self._read_name(module, node)
        if isinstance(node, ast.Attribute):
            return self.held.get(("attribute", node.attr), set())
        if isinstance(node, ast.BoolOp | ast.IfExp) and depth:
            parts = node.values if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
            return set().union(*(self.resolve(module, part, depth - 1) for part in parts))
        return self._read_call(module, node, depth) if isinstance(node, ast.Call) and depth else set()

    def _read_name(self, module: Module, name: ast.Name) -> set[_Parser]:
        scope: ast.AST = name
        while scope is not module.tree:
            scope = find_scope(module, scope)
            if (scope, name.id) in self.held:
                return self.held[scope, name.id]
        imported = module.names.get(name.id)
        return self.held.get(("attribute", imported.rpartition(".")[2]), set()) if imported else set()

    def _read_call(self, module: Module, call: ast.Call, depth: int) -> set[_Parser]:
        if call in self.parsers:
            return {self.parsers[call]}
        if isinstance(call.func, ast.Attribute):
            base = self.resolve(module, call.func.value, depth - 1)
            if base and call.func.attr in _GROUPS:
                return base
            if len(base) == 1 and call.func.attr in ("add_subparsers", "add_parser"):
                made = self.parsers[call] = _Parser(module, call, of=next(iter(base)))
                return {made}
        held = (self.held.get(function, set()) for _, function in self.reached.find(module, call.func))
        return set().union(*held)

    def follow(self) -> None:
        """Pass the parsers on to everything that holds them, until nothing changes."""
        for _ in range(_ROUNDS):
            before = (len(self.parsers), sum(map(len, self.held.values())))
            for module in self.modules:
                for node in (*module.kinds.get(ast.Assign, ()), *module.kinds.get(ast.AnnAssign, ())):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    parsers = self.resolve(module, node.value)
                    for target in targets if parsers else ():
                        self._hold(module, target, parsers)
                for node in module.kinds.get(ast.Return, ()):
                    if parsers := self.resolve(module, node.value):
                        self._return(find_scope(module, node), parsers)
                for _, call in module.calls:
                    self._pass(module, call)
            if before == (len(self.parsers), sum(map(len, self.held.values()))):
                return

    def _hold(self, module: Module, target: ast.AST, parsers: set[_Parser]) -> None:
        if isinstance(target, ast.Name):
            scope = find_scope(module, target)
            self.held[(scope, target.id)] |= parsers
            if scope is module.tree:  # another module may read it, or a method where it stands in a class
                self.held[("attribute", target.id)] |= parsers
        elif isinstance(target, ast.Attribute):
            self.held[("attribute", target.attr)] |= parsers

    def _return(self, function: ast.AST, parsers: set[_Parser]) -> None:
        self.held[function] |= parsers
        decorators = getattr(function, "decorator_list", ())
        if any(getattr(decorator, "id", "") in ("property", "cached_property") for decorator in decorators):
            self.held[("attribute", getattr(function, "name", ""))] |= parsers

    def _pass(self, module: Module, call: ast.Call) -> None:
        """The parameters of a function that is called with a parser."""
        self.resolve(module, call)
        named = [(position, None, value) for position, value in enumerate(call.args)]
        for position, name, value in (*named, *((-1, one.arg, one.value) for one in call.keywords)):
            parsers = self.resolve(module, value)
            for parameter in self._parameters(module, call, position, name) if parsers else ():
                self.held[parameter] |= parsers

    def _parameters(
        self, module: Module, call: ast.Call, position: int, name: str | None
    ) -> Iterator[tuple[ast.AST, str]]:
        owner = getattr(call.func, "value", None)  # `Base` of `Base.method`, which takes the object first
        names_class = isinstance(owner, ast.Name) and owner.id in self.reached.classes
        for _, function in self.reached.find(module, call.func):
            names = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
            if names[:1] in (["self"], ["cls"]) and not names_class:
                names = names[1:]
            if name is not None and is_parameter(function, name):
                yield function, name
            elif 0 <= position < len(names):
                yield function, names[position]

    def use(self) -> None:
        """Read the uses of every parser into its interface."""
        for module in self.modules:
            for kind in (ast.Name, ast.Attribute, ast.Call):
                for node in module.kinds.get(kind, ()):
                    if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
                        continue
                    parsers = self.resolve(module, node)
                    if parsers and self.reached.runs(module, node):
                        self._use(module, node, parsers)

    def _use(self, module: Module, node: ast.expr, parsers: set[_Parser]) -> None:
        above = module.parents.get(node)
        name: str | None = ""
        if isinstance(above, ast.keyword):
            name, above = above.arg, module.parents.get(above)
        if isinstance(above, ast.Attribute):
            call = module.parents.get(above)
            method = above.attr
            if isinstance(call, ast.Call) and call.func is above:
                self._call(module, method, call, parsers)
                return
            fine = method in _HARMLESS
        elif isinstance(above, ast.List | ast.Tuple):
            keyword = module.parents.get(above)
            fine = isinstance(keyword, ast.keyword) and keyword.arg == "parents"
        elif isinstance(above, ast.Call) and name != "parents":
            fine = self._takes(module, above, node, name, parsers)
        elif isinstance(above, ast.Assign | ast.AnnAssign):
            targets = above.targets if isinstance(above, ast.Assign) else [above.target]
            fine = all(isinstance(target, ast.Name | ast.Attribute) for target in targets)
        else:
            fine = isinstance(
                above, ast.Return | ast.Expr | ast.Compare | ast.BoolOp | ast.IfExp | ast.UnaryOp | ast.If
            )
        if not fine:
            for parser in parsers:
                parser.known = False

    def _takes(
        self, module: Module, call: ast.Call, node: ast.expr, name: str | None, parsers: set[_Parser]
    ) -> bool:
        """Whether it is known what a function does with the parser that it receives."""
        full = module.name_of(call.func)
        if full == "deepspeed.add_config_arguments":
            for parser in parsers:
                options = [Option((flag,), flag[2:], module, call, 0, None) for flag in _DEEPSPEED]
                parser.interface.options += options
            return True
        position = call.args.index(node) if node in call.args else -1
        takers = list(self._parameters(module, call, position, name or None))
        return full in ("print", "type", "isinstance", "id") or bool(takers)

    def _exclude(self, module: Module, call: ast.Call, interface: Interface, options: list[Option]) -> None:
        """Record the options of one `add_mutually_exclusive_group()` that has a variable of its own."""
        group = call.func.value if isinstance(call.func, ast.Attribute) else None
        single = find_single(self.reached, module, group) if isinstance(group, ast.Name) else None
        maker = single[1] if single is not None else None
        if isinstance(maker, ast.Call) and last_name(maker) == "add_mutually_exclusive_group":
            required = constant_value(keyword_argument(maker, "required")) is True
            exclusion = self.groups.setdefault(maker, (required, []))
            exclusion[1].extend(options)
            if exclusion not in interface.exclusive:
                interface.exclusive.append(exclusion)

    def _call(self, module: Module, method: str, call: ast.Call, parsers: set[_Parser]) -> None:
        if method in (*PARSES, *PARSES_KNOWN):  # `parser = extend(parser)`: it is the one with the parents
            parsers = parsers - {base for parser in parsers for base in parser.inherits}
        sure = len(parsers) == 1 and self.reached.surely_runs(module, call)
        for parser in parsers:
            if method == "add_argument":
                before = len(parser.interface.options)
                read_option(self.reached, parser.interface, module, call, sure=sure)
                self._exclude(module, call, parser.interface, parser.interface.options[before:])
            elif method in (*PARSES, *PARSES_KNOWN):
                if (sure or is_alternative(self.reached, module, call)) and reads_command(module, call):
                    parser.parses.append(method in PARSES or refuses_rest(module, call))
                else:
                    parser.known = False
            elif method not in (*_HARMLESS, *_GROUPS, "add_subparsers", "add_parser"):
                parser.known = False


def read_argparse(reached: Reached) -> Interface | None:
    """The interface of the only parser that reads the command; None if there is not exactly one."""
    reader = _Reader(reached)
    if not reader.parsers:
        return None
    reader.follow()
    for parser in reader.parsers.values():
        _read_settings(reader, parser)
    reader.use()
    parsing = [parser for parser in reader.parsers.values() if parser.parses or not parser.known]
    if len(parsing) != 1 or not parsing[0].known or parsing[0].of is not None:
        return None
    return _finish(reader, parsing[0])


def _read_settings(reader: _Reader, parser: _Parser) -> None:
    """Read the settings in the call that makes a parser."""
    for one in parser.node.keywords:
        if one.arg in ("prefix_chars", "fromfile_prefix_chars", "conflict_handler", None):
            parser.known = False
        elif one.arg == "allow_abbrev":
            parser.interface.abbreviates = constant_value(one.value) is not False
        elif one.arg == "parents":
            values = one.value.elts if isinstance(one.value, ast.List | ast.Tuple) else [one.value]
            for value in values:
                bases = reader.resolve(parser.module, value) - {parser}
                parser.inherits += bases
                parser.interface.closed &= len(bases) == 1


def _finish(reader: _Reader, parser: _Parser, depth: int = 4) -> Interface:
    """The interface of a parser, with its inherited options and its commands."""
    interface = parser.interface
    interface.ignores_others = not any(parser.parses) and bool(parser.parses)
    if constant_value(keyword_argument(parser.node, "add_help")) is not False:
        interface.options.append(Option(("-h", "--help"), "help", parser.module, parser.node, 0, 0))
    waiting = list(parser.inherits)
    nodes = {option.node for option in (*interface.options, *interface.positionals)}
    for base in waiting[:20]:
        waiting += base.inherits
        interface.options += [option for option in base.interface.options if option.node not in nodes]
        interface.exclusive += base.interface.exclusive
        inherited = [option for option in base.interface.positionals if option.node not in nodes]
        interface.positionals = inherited + interface.positionals
        interface.closed &= base.known and base.interface.closed
    for collection in [other for other in reader.parsers.values() if other.of is parser]:
        commands: dict[str, Interface] = {}
        interface.commands = commands if collection.known else {}
        interface.needs_command = constant_value(keyword_argument(collection.node, "required")) is True
        for command in [other for other in reader.parsers.values() if other.of is collection]:
            words = _list_words(reader.reached, command)
            if not words or not command.known or depth == 0:
                interface.commands = {}
                break
            inner = _finish(reader, command, depth - 1)
            inner.ignores_others = interface.ignores_others
            commands |= dict.fromkeys(words, inner)
    return interface


def _list_words(code: Definitions, parser: _Parser) -> list[str]:
    """The words that choose an `add_parser(…)`, with its aliases; none if unknown."""
    node, words = parser.node, []
    for names in list_loop_values(code, parser.module, node):
        aliases = keyword_argument(node, "aliases")
        word = evaluate(code, parser.module, node.args[0] if node.args else None, names)
        others = () if aliases is None else evaluate(code, parser.module, aliases, names)
        words += [word, *others] if isinstance(others, tuple) else [None]
    texts = [word for word in words if isinstance(word, str)]
    return texts if len(texts) == len(words) else []


def is_alternative(reached: Reached, module: Module, call: ast.Call) -> bool:
    """Whether both branches parse, this call in one of them: `if args is None: … else: …`."""
    conditions = (pair for pair in module.ancestors(call) if isinstance(pair[0], ast.If))
    above, child = next(conditions, (None, None))
    if isinstance(above, ast.If) and child is not above.test:
        other = above.orelse if child in above.body else above.body
        branch = reached.surely_runs(module, above)
    else:  # behind an `if` that returns
        place = next((above for above, _ in module.ancestors(call) if isinstance(above, ast.stmt)), None)
        block = getattr(module.parents.get(place), "body", []) if place is not None else []
        before = block[: block.index(place)] if place in block else []
        tests = [statement for statement in before if isinstance(statement, ast.If)]
        other, branch = tests[0].body if len(tests) == 1 else [], True
    names = (*PARSES, *PARSES_KNOWN)
    inside = (inner for statement in other for inner in ast.walk(statement))
    return branch and any(isinstance(inner, ast.Attribute) and inner.attr in names for inner in inside)


def refuses_rest(module: Module, call: ast.Call) -> bool:
    """Whether the script stops where `args, rest = parser.parse_known_args()` leaves anything."""
    statement = module.parents.get(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    rest = target.elts[-1] if isinstance(target, ast.Tuple) else None
    if not isinstance(rest, ast.Name):
        return False
    parser = name_variable(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    return any(
        _is_left(assertion.test, rest.id) is False for assertion in module.kinds.get(ast.Assert, ())
    ) or any(
        _is_left(condition.test, rest.id) and _stops(module, condition.body[-1], parser)
        for condition in module.kinds.get(ast.If, ())
    )


def _is_left(test: ast.expr, rest: str) -> bool | None:
    """True of ``rest`` and ``len(rest) > 0``, False of ``not rest`` and ``len(rest) == 0``, else None."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        left = _is_left(test.operand, rest)
        return None if left is None else not left
    is_empty = False
    if isinstance(test, ast.Compare) and constant_value(test.comparators[0]) == 0:
        if not isinstance(test.ops[0], ast.Gt | ast.NotEq | ast.Eq):
            return None
        is_empty, test = isinstance(test.ops[0], ast.Eq), test.left
    counted = test.args if isinstance(test, ast.Call) and getattr(test.func, "id", "") == "len" else [test]
    return not is_empty if [getattr(part, "id", "") for part in counted] == [rest] else None


def _stops(module: Module, statement: ast.stmt, parser: str) -> bool:
    """Whether a statement stops the script with an error."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return module.name_of(statement.value.func) in (f"{parser}.error", "sys.exit", "exit")
    return isinstance(statement, ast.Raise)


def reads_command(module: Module, call: ast.Call) -> bool:
    """Whether a call parses the arguments of the script rather than its own list."""
    source = find_passed(call, 0, "args")
    if source is None or (isinstance(source, ast.Constant) and source.value is None):
        return True
    if isinstance(source, ast.Name):
        return is_parameter(find_scope(module, call), source.id)
    if not isinstance(source, ast.Subscript) or not isinstance(source.slice, ast.Slice):
        return False
    whole = source.slice.upper is None and constant_value(source.slice.lower) == 1
    return whole and module.name_of(source.value) in ("sys.argv", "argv")


def read_option(
    code: Definitions, interface: Interface, module: Module, call: ast.Call, *, sure: bool
) -> None:
    """Read one `add_argument`, or several where it stands in a loop over literals."""
    for names in list_loop_values(code, module, call):
        words = [evaluate(code, module, argument, names) for argument in call.args]
        unnamed = not words and keyword_argument(call, "dest") is None
        if unnamed or not all(isinstance(word, str) and word for word in words):
            interface.closed = False
        else:
            option = _option(code, module, call, tuple(map(str, words)), names)
            if option.most is None and not option.flags and keyword_argument(call, "nargs") is not None:
                nargs = evaluate(code, module, keyword_argument(call, "nargs"), names)
                interface.closed &= isinstance(nargs, int | str) and nargs != "..."  # not all that is left
            option.required &= sure
            option.optional_words |= not sure
            (interface.options if option.flags else interface.positionals).append(option)


def _option(
    code: Definitions, module: Module, call: ast.Call, words: tuple[str, ...], names: Mapping[str, object]
) -> Option:
    keywords = {one.arg: one.value for one in call.keywords}
    flags = tuple(word for word in words if word.startswith("-"))
    first = next((flag for flag in flags if flag.startswith("--")), words[0] if words else "")
    dest = constant_value(keywords.get("dest"))
    option = Option(flags, str(dest or first.lstrip("-").replace("-", "_")), module, call)
    action, nargs, kind, choices = (
        evaluate(code, module, keywords.get(name), names) for name in ("action", "nargs", "type", "choices")
    )
    custom = "action" in keywords and not isinstance(action, str)
    if custom and module.name_of(keywords["action"]).endswith("BooleanOptionalAction"):
        option.flags += tuple("--no-" + flag[2:] for flag in flags if flag.startswith("--"))
        option.least = option.most = 0
    elif action in _NO_WORDS:
        option.least = option.most = 0
    elif None in keywords or custom or ("nargs" in keywords and nargs is None):  # not known
        option.least, option.most = 0, None
    elif nargs is not None:
        most = {"?": 1, "*": None, "+": None}.get(str(nargs), nargs if isinstance(nargs, int) else None)
        option.least, option.most = (nargs if isinstance(nargs, int) else int(nargs == "+")), most
    option.kind = kind if kind in (int, float) else None
    if "type" in keywords and option.kind is None and module.name_of(keywords["type"]) in _STRTOBOOL:
        option.choices = _TRUTHS
    choices = tuple(choices) if isinstance(choices, str) else choices
    is_compared = None not in keywords and ("type" not in keywords or kind in (int, float, str))
    if isinstance(choices, tuple) and is_compared:
        option.choices = choices
    option.required = constant_value(keywords.get("required")) is True and None not in keywords
    option.optional_words = not flags and (option.least == 0 or None in keywords)
    return option


def list_loop_values(code: Definitions, module: Module, call: ast.Call) -> list[dict[str, object]]:
    """The values of the loop variables around a call for each time that it runs; none if unknown."""
    loops: list[list[dict[str, object]]] = []
    for above, child in module.ancestors(call):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            break
        if isinstance(above, ast.For) and child is not above.iter:
            values = evaluate(code, module, above.iter)
            rounds = [_bind(above.target, value) for value in values] if isinstance(values, tuple) else []
            loops.append(rounds or [{}])
    return [
        dict(chain.from_iterable(bound.items() for bound in rounds))
        for rounds in islice(product(*loops), 200)
    ]


def _bind(target: ast.expr, value: object) -> dict[str, object]:
    if isinstance(target, ast.Name):
        return {target.id: value}
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    if not isinstance(value, tuple) or len(parts) != len(value):
        return {}
    pairs = (_bind(part, item).items() for part, item in zip(parts, value, strict=True))
    return dict(chain.from_iterable(pairs))
