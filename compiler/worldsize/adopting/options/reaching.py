"""How options are read at a place of a script: `args.lr`, `self.args.lr`, or not at all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import structs

from worldsize.adopting.options.parsers import Parser
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer
from worldsize.scripts.bindings import Scope, is_parameter

_DEPTH = 8


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
        script.scope(each) is not where for each in script.module.stores(parser.name)
    ):
        return any(each.arg == parser.name for each in getattr(getattr(scope, "args", None), "args", ()))
    return not isinstance(scope, ast.Module) or getattr(node, "lineno", 0) > parser.statement.lineno


def find_default_of(script: Script, node: ast.AST) -> ast.FunctionDef | None:
    """The function of which a node is the default of a parameter."""
    above = script.module.parents.get(node)
    function = script.module.parents.get(above) if isinstance(above, ast.arguments) else None
    return function if isinstance(function, ast.FunctionDef) else None


def find_place(script: Script, tracer: Tracer, parser: Parser, node: ast.AST) -> str | None:
    """How an option is read at a node, with `{}` for its name: `args.{}`, `self.args.{}`; None if none is."""
    if is_visible(script, parser, node):
        return parser.place
    scope = script.scope(node)
    if isinstance(scope, ast.Module) or parser.is_closed or not (parser.name or parser.function):
        return None
    line = getattr(node, "lineno", 0)
    for holder, is_mapping in _Holders(script, tracer, parser).list_held(scope, line):
        return f'{holder}["{{}}"]' if is_mapping else f"{holder}.{{}}"
    if isinstance(script.module.parents[scope], ast.ClassDef):
        return None
    outer = find_place(script, tracer, parser, scope)  # of the function around this one
    name = re.match(r"\w*", outer or "")
    hidden = not name or tracer.bindings(name[0], scope) or is_parameter(scope, name[0])
    return None if hidden else outer


def find_read(script: Script, tracer: Tracer, parser: Parser, node: ast.AST, name: str) -> str | None:
    """How an option of the script is read at a node, also from settings that are made of all options."""
    opened = structs.replace(parser, is_closed=False)
    place = find_place(script, tracer, opened, node)
    if place is None and parser.options.library == "argparse":
        holders = _Holders(script, tracer, opened, field=name)
        line = getattr(node, "lineno", 0)
        held = next(holders.list_held(script.scope(node), line), None)
        place = held and (f'{held[0]}["{{}}"]' if held[1] else f"{held[0]}.{{}}")
    return place.format(name) if place else None


class _Holders:
    """What holds the options beside the variable that is assigned what is parsed.

    With a ``field`` also what a dataclass of the script makes of them: ``Settings(**vars(args))``.
    """

    def __init__(self, script: Script, tracer: Tracer, parser: Parser, *, field: str = "") -> None:
        self._script, self._tracer, self._parser, self._field = script, tracer, parser, field

    def list_held(self, scope: Scope, line: int) -> Iterator[tuple[str, bool]]:
        """The holders that a function knows at a line, and whether each is a mapping."""
        if isinstance(scope, ast.Module):
            yield from self._list_of_file(line)
            return
        names = {each.arg: 0 for each in (*scope.args.args, *scope.args.kwonlyargs)}
        names |= self._tracer.names(scope)
        for name, bound in names.items():
            found = self._judge_name(name, scope, _DEPTH) if bound < line else None
            if found is not None:
                yield name, found
        gets_self = scope.args.args[:1] and scope.args.args[0].arg == "self" and scope.name != "__init__"
        for name in self._tracer.attributes(self._script.module.parents[scope]) if gets_self else ():
            found = self._judge_attribute(name, scope, _DEPTH)
            if found is not None:
                yield f"self.{name}", found
        hidden = names.keys()
        yield from (each for each in self._list_of_file(None) if each[0] not in hidden)

    def _list_of_file(self, line: int | None) -> Iterator[tuple[str, bool]]:
        """Those that the file has at a line, or that its functions know."""
        file = self._script.module.tree
        for name, bound in self._tracer.names(file).items() if self._field else ():
            found = self._judge_name(name, file, _DEPTH) if line is None or bound < line else None
            if found is not None:
                yield name, found

    def _judge(self, node: ast.expr, scope: Scope, depth: int) -> bool | None:
        """Whether an expression is a mapping of the options; None if it is something else than these."""
        if isinstance(node, ast.Call):
            return self._judge_call(node, scope, depth)
        if isinstance(node, ast.Name):
            if node.id == self._parser.name and is_visible(self._script, self._parser, node):
                return self._parser.is_mapping
            return self._judge_name(node.id, scope, depth)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
            return self._judge_attribute(node.attr, scope, depth)
        given = self._tracer.step_keyword(node, scope) if isinstance(node, ast.Subscript) else None
        return self._judge(*given, depth - 1) if given is not None else None

    def _judge_call(self, call: ast.Call, scope: Scope, depth: int) -> bool | None:
        if getattr(call.func, "id", "") == "vars" and len(call.args) == 1:
            return True if self._judge(call.args[0], scope, depth) is False else None
        return False if self._parses(call) or (self._field and self._fills(call, scope, depth)) else None

    def _fills(self, call: ast.Call, scope: Scope, depth: int) -> bool:
        """Whether a call makes settings of all options, of which one is asked for."""
        class_ = self._tracer.classes.get(getattr(call.func, "id", ""))
        spread = [each.value for each in call.keywords if each.arg is None]
        if class_ is None or depth == 0 or not self._tracer.bindings(self._field, class_):
            return False
        return any(self._judge(each, scope, depth - 1) is True for each in spread)

    def _judge_name(self, name: str, scope: Scope, depth: int) -> bool | None:
        bound = self._tracer.bindings(name, scope)
        if depth == 0 or (isinstance(scope, ast.Module) and not self._field) or len(bound) > 1:
            return None
        if bound:
            _, value, position = bound[0]
            return self._judge(value, scope, depth - 1) if position is None else None
        if isinstance(scope, ast.Module) or not is_parameter(scope, name):
            return None
        kinds = set()
        for call in self._tracer.calls(scope):
            passed = self._tracer.argument(call, scope, name)
            where = self._script.scope(call)
            kinds.add(None if passed is None else self._judge(passed, where, depth - 1))
        return kinds.pop() if len(kinds) == 1 else None

    def _judge_attribute(self, name: str, scope: Scope, depth: int) -> bool | None:
        bound = self._tracer.attributes(self._script.module.parents.get(scope)).get(name, [])
        if depth == 0 or len(bound) != 1:
            return None
        statement, value = bound[0]
        where = self._script.scope(statement)
        return self._judge(value, where, depth - 1) if getattr(where, "name", "") == "__init__" else None

    def _parses(self, call: ast.Call) -> bool:
        """Whether a call gives what is parsed: `parser.parse_args()`, or a function that returns it."""
        function = self._tracer.function(call)
        values: list[ast.expr] = [call] if function is None else self._tracer.returns(function)
        calls = [each for each in values if isinstance(each, ast.Call)]
        parses = [self._script.module.name_of(each.func).endswith("parse_args") for each in calls]
        known = self._parser.statement is not None or bool(self._field)
        return known and parses == [True] * max(1, len(values))
