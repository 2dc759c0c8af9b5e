"""Settings of a class that options replace: ``Settings(**vars(args))``, ``Settings(lr=args.lr)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.adopting.options.declared import Declared
from worldsize.adopting.options.parsers import Parser, find_option
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer
from worldsize.scripts.module import Module


def find_field_option(script: Script, tracer: Tracer, parser: Parser, value: ast.expr) -> Declared | None:
    """The option that replaces the default of a field; None for another value, and where none does."""
    statement = script.module.parents.get(value)
    class_ = script.module.parents.get(statement) if statement is not None else None
    if not isinstance(class_, ast.ClassDef) or not isinstance(statement, ast.Assign | ast.AnnAssign):
        return None
    target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
    name = target.id if isinstance(target, ast.Name) else ""
    calls = list(_list_made(script.module, class_))
    for call in calls:
        given = _find_given(call, class_, name)
        if given is not None:
            found = find_option(parser, given)
            return found or find_option(parser, tracer.follow(given, script.scope(call))[0])
        if any(each.arg is None for each in call.keywords):
            return parser.options.named(name)
    read = (script.written(each) for each in script.module.kinds.get(ast.Attribute, ()) if each.attr == name)
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
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = [getattr(each.target, "id", "") for each in class_.body if isinstance(each, ast.AnnAssign)]
    made = getattr(call.func, "id", "") == class_.name
    position = names.index(name) if made and name in names else len(call.args)
    return call.args[position] if position < len(call.args) else None
