"""Which variables of a loop over epochs are whole numbers: counters, constants and their sums."""

from __future__ import annotations

import ast

from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import is_under
from worldsize.adopting.training.epoch_counter import EpochLoop, list_assigned

_COUNTS = ("range", "trange", "enumerate")
_WHOLE_CALLS = ("int", "len")
_SUMS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


class WholeNumbers:
    """Tells whole numbers by all that the function, or for attributes the class, of a loop assigns."""

    def __init__(self, script: Script, loop: EpochLoop) -> None:
        self._counters: set[str] = set()
        self._values: dict[str, list[ast.expr | None]] = {}
        self._script, self._scope = script, script.scope(loop)
        scope = self._scope
        kinds = script.module.kinds
        for node in kinds.get(ast.For, ()):
            names = [getattr(each, "id", "") for each in getattr(node.target, "elts", [node.target])]
            counts = isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") in _COUNTS
            counted = names[:1] if counts or node is loop else []
            # A method that gets the epoch calls it as the loop does.
            if script.scope(node) is scope or is_under(script, loop, node):
                self._counters |= set(counted)
                self._values |= {name: [None] for name in names if name not in counted}
        for statement in (*kinds.get(ast.Assign, ()), *kinds.get(ast.AnnAssign, ())):
            for target, value in list_assigned(statement):
                self._keep(script, scope, target, value)
        for added in kinds.get(ast.AugAssign, ()):
            self._keep(script, scope, added.target, added.value if isinstance(added.op, _SUMS) else None)

    def _keep(self, script: Script, scope: ast.AST, target: ast.expr, value: ast.expr | None) -> None:
        known = target if isinstance(target, ast.Attribute) or script.scope(target) is scope else None
        parts = known.elts if isinstance(known, ast.Tuple | ast.List) else [known]
        for part in parts:
            if isinstance(part, ast.Name | ast.Attribute):
                self._values.setdefault(ast.unparse(part), []).append(value if part is target else None)

    def has(self, node: ast.expr | None, seen: frozenset[str] = frozenset()) -> bool:
        """Whether an expression is a whole number; False where that is not sure."""
        if isinstance(node, ast.Name | ast.Attribute):
            return self._has_variable(node, seen)
        if isinstance(node, ast.UnaryOp):
            return self.has(node.operand, seen)
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, _SUMS) and self.has(node.left, seen) and self.has(node.right, seen)
        if isinstance(node, ast.Call):
            return getattr(node.func, "id", "") in _WHOLE_CALLS and len(node.args) == 1
        return isinstance(node, ast.Constant) and type(node.value) is int

    def _has_variable(self, node: ast.Name | ast.Attribute, seen: frozenset[str]) -> bool:
        name = ast.unparse(node)
        if isinstance(node, ast.Name) and self._script.scope(node) is not self._scope:
            args = getattr(self._script.scope(node), "args", None)
            return name in self._counters and any(each.arg == name for each in getattr(args, "args", ()))
        values = self._values.get(name, [])
        if name in seen or (name in self._counters and not values):
            return True  # `step = step + 1`
        return bool(values) and all(self.has(each, seen | {name}) for each in values)
