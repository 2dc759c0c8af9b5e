"""What a script reads of its parsed arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean, fix_unambiguous
from worldsize.scripts.definitions import Definitions
from worldsize.scripts.interface.argparse import PARSES
from worldsize.scripts.interface.model import Interface
from worldsize.scripts.interface.read import read_interface, read_reached
from worldsize.scripts.module import Module, constant_value, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.settings import list_set_attributes
from worldsize.scripts.values import list_chain

_STEPS = 5  # from a variable to the call that parses
# What may put more into the arguments than the parser does.
_MAY_ADD = re.compile(
    r"\bvars\([^()]*\)\s*(?:\[|\.\s*(?:update|setdefault))|__dict__|\bNamespace\b|\bsetattr\b|\bnamespace\s*="
)


def check_argument_not_declared(context: Tree, program: Program) -> Iterator[Finding]:
    interface, code = read_interface(program), read_reached(program)
    if interface is None or interface.kind != "argparse" or not (interface.closed and interface.certain):
        return
    if any(_MAY_ADD.search(module.text) for module in program.modules):
        return
    names = {name for module in program.modules for name in _list_names(module)} | {*_list_options(interface)}
    reported: set[str] = set()
    for module in program.modules:
        for node in module.kinds.get(ast.Attribute, ()):
            name = node.attr
            if name in names or name in reported or name.startswith("_") or not _is_read(module, node):
                continue
            if not _holds_arguments(code, module, node.value) or not code.runs(module, node):
                continue
            reported.add(name)
            span = _find_name(module, node)
            message = f"`{ast.unparse(node)}` is read, but the script declares no argument `{name}`"
            help_ = did_you_mean(name, names) or f'declare it: `parser.add_argument("--{name}")`'
            fix = fix_unambiguous(span, name, names)
            yield Finding(span, message, help_, related=program.related, fix=fix)


def _list_options(interface: Interface) -> Iterator[str]:
    """The names of all arguments, also of those of commands."""
    yield from (option.name for option in (*interface.options, *interface.positionals))
    for command in (interface.commands or {}).values():
        yield from _list_options(command)


def _list_names(module: Module) -> Iterator[str]:
    """The names that a file gives to attributes, defaults and the chosen command, or asks for as text."""
    yield from list_set_attributes(module)
    for call in module.called("set_defaults"):
        yield from (keyword.arg for keyword in call.keywords if keyword.arg is not None)
    for call in module.called("add_subparsers"):
        yield str(constant_value(keyword_argument(call, "dest")))
    for call in module.called("hasattr", "getattr"):
        yield from (str(constant_value(argument)) for argument in call.args[1:2])


def _is_read(module: Module, node: ast.Attribute) -> bool:
    """Whether an attribute is read as a value, not called."""
    above = module.parents.get(node)
    is_called = isinstance(above, ast.Call) and above.func is node
    # `is_initialized() or args.rank == 0` may never come to the second part.
    may_skip = any(
        isinstance(outer, ast.BoolOp) and inner is not outer.values[0]
        for outer, inner in module.ancestors(node)
    )
    return isinstance(node.ctx, ast.Load) and not is_called and not may_skip


def _find_name(module: Module, node: ast.Attribute) -> Span:
    """The place of the name behind the dot."""
    whole = module.full_span(node)
    return Span(
        whole.path, whole.end_line, whole.end_column - len(node.attr), whole.end_line, whole.end_column
    )


def _holds_arguments(code: Definitions, module: Module, node: ast.AST) -> bool:
    """Whether an expression can only be what a parser returns."""
    chain = (part for _, part in list_chain(code, module, node, _STEPS) if isinstance(part, ast.Call))
    return any(isinstance(call.func, ast.Attribute) and call.func.attr in PARSES for call in chain)
