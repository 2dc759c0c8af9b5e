"""Whether a script goes on from its own checkpoints, and not only where an option asks for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.adopting.distributing.passing import VARIABLE
from worldsize.adopting.options.flags import list_flags
from worldsize.adopting.options.parsers import Parser
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer
from worldsize.scripts.bindings import Function, is_parameter

_DEPTH = 4
_BLOCKS = ("body", "orelse", "finalbody")


def resumes_itself(script: Script, tracer: Tracer, parser: Parser) -> bool:
    """Whether the script loads the state of an optimizer; reports a folder that a job does not keep."""
    asked = _Asked(script, tracer, parser)
    for call in script.module.called("load_state_dict"):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if owner is None or "optim" not in ast.unparse(owner).lower() or asked.waits(call):
            continue
        if not has_folder(parser) and VARIABLE not in script.module.text:
            message = "no checkpoints: the script loads its own here, which a job that resumes does not find"
            script.leave(call, message, "save and load them in the folder of an option `--checkpoint-dir`")
        return True
    return False


def has_folder(parser: Parser) -> bool:
    """Whether an option of the script names the folder of its checkpoints."""
    return any(flag.role == "checkpoints" for flag in list_flags(parser))


class _Asked:
    """What runs only with an option, as in ``if args.resume:``, that a job does not get."""

    def __init__(self, script: Script, tracer: Tracer, parser: Parser) -> None:
        self._script, self._tracer, self._parser = script, tracer, parser
        self._given = {flag.option for flag in list_flags(parser) if flag.role == "checkpoints"}
        self._libraries = {full.partition(".")[0] for full in script.module.names.values()}  # `torch.load`

    def waits(self, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether a node runs only with such an option, also by the calls of its function."""
        if any(map(self._is_off, self._list_tests(node))):
            return True
        function = self._script.scope(node)
        if depth == 0 or isinstance(function, ast.Module):
            return False
        calls = self._list_calls(function)
        if not calls:  # a function that nothing speaks of does not run
            return not (function.decorator_list or self._has_base(function) or self._is_spoken_of(function))
        return all(self.waits(each, depth - 1) for each in calls)

    def _list_calls(self, function: Function) -> list[ast.Call]:
        """The calls of a function by others; what has its name in a library is none of them."""
        named = self._script.module.callers.get(function.name, ())
        calls = [call for name, call in named if name.partition(".")[0] not in self._libraries]
        calls = self._tracer.calls(function) if function.name == "__init__" else calls
        return [call for call in calls if self._script.scope(call) is not function]

    def _has_base(self, function: ast.AST) -> bool:
        return bool(getattr(self._script.module.parents.get(function), "bases", ()))

    def _is_spoken_of(self, function: Function) -> bool:
        """Whether the script may pass a function on, or Python calls it, as `__call__`."""
        nodes = [
            *self._script.module.kinds.get(ast.Attribute, ()),
            *self._script.module.kinds.get(ast.Name, ()),
        ]
        names = [self._script.module.name_of(each).split(".") for each in nodes]
        passed = any(parts[-1] == function.name and parts[0] not in self._libraries for parts in names)
        return passed or function.name.startswith("__")

    def _list_tests(self, node: ast.AST) -> Iterator[ast.expr]:
        """What has to be true for a node of a function to run, as far as it is said without `not`."""
        for above, child in self._script.module.ancestors(node):
            if isinstance(above, ast.If | ast.IfExp) and child is not above.test:
                runs = child is above.body or (isinstance(above.body, list) and child in above.body)
                yield from [above.test] if runs else _negate(above.test)
            for name in _BLOCKS:
                block = getattr(above, name, None)
                for before in (
                    block[: block.index(child)] if isinstance(block, list) and child in block else ()
                ):
                    if isinstance(before, ast.If) and isinstance(before.body[-1], ast.Return | ast.Continue):
                        yield from _negate(before.test)
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
                return

    def _is_off(self, test: ast.expr) -> bool:
        if isinstance(test, ast.BoolOp):
            return (any if isinstance(test.op, ast.And) else all)(map(self._is_off, test.values))
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return False
        if isinstance(test, ast.Compare) and isinstance(test.comparators[0], ast.Constant):
            absent = not test.comparators[0].value
            if absent and isinstance(test.ops[0], ast.Is | ast.Eq):
                return False
        return any(map(self._is_left_out, ast.walk(test)))

    def _is_left_out(self, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether a node reads an option, or a setting of a class, that is nothing unless it is given."""
        if not isinstance(node, ast.Name | ast.Attribute):
            return False
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        if (option := self._parser.options.named(name)) is not None:
            flag = option.flag
            return not flag.default and not flag.required and flag.option not in self._given
        if isinstance(node, ast.Name):
            values = self._list_values(node)
            return depth > 0 and bool(values) and all(self._is_left_out(each, depth - 1) for each in values)
        settings = [
            value
            for class_ in self._tracer.classes.values()
            for _, value, _ in self._tracer.bindings(name, class_)
        ]
        return bool(settings) and all(isinstance(each, ast.Constant) and not each.value for each in settings)

    def _list_values(self, node: ast.Name) -> list[ast.expr]:
        """What a variable is assigned, or what the calls pass for a parameter."""
        scope = self._script.scope(node)
        bound = [value for _, value, _ in self._tracer.bindings(node.id, scope)]
        if bound or isinstance(scope, ast.Module) or not is_parameter(scope, node.id):
            return bound
        passed = (self._tracer.argument(call, scope, node.id) for call in self._list_calls(scope))
        return [each for each in passed if each is not None]


def _negate(test: ast.expr) -> list[ast.expr]:
    """``args.resume`` of ``not args.resume`` and of ``args.resume is None``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return [test.operand]
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.Eq):
        other = test.comparators[0]
        return [test.left] if isinstance(other, ast.Constant) and not other.value else []
    return []
