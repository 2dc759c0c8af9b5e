"""Numbers that a loop over epochs keeps, such as the best result, or the epochs without a better one."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import find_initializer
from worldsize.adopting.training.loops import EpochLoop, list_assigned
from worldsize.scripts.definitions import find_class_around
from worldsize.scripts.module import list_earlier

_AROUND = (ast.With, ast.Try, ast.If)


def list_kept(script: Script, loop: EpochLoop) -> dict[str, str]:
    """Numbers that are kept over the epochs, such as the best loss, with the text that saves them."""
    before = [*list_before(script, loop), *_list_globals(script, loop), *list_made(script, loop)]
    numbers = _list_numbers(before)
    changed: dict[str, bool] = {}  # whether all that is assigned is known to be no tensor
    reset = _list_numbers(loop.body)
    whole = WholeNumbers(script, loop)
    for node in _list_changing(script, loop):
        if isinstance(node, ast.AugAssign) and _is_variable(node.target):
            changed.setdefault(ast.unparse(node.target), True)
        elif isinstance(node, ast.stmt):
            for target, value in list_assigned(node):
                if _is_variable(target):
                    name = ast.unparse(target)
                    is_plain = is_number(value) or whole.has(value)
                    changed[name] = changed.get(name, True) and is_plain
    return {
        name: name if is_plain else f"float({name})"
        for name, is_plain in sorted(changed.items())
        if name in numbers - reset
    }


def _list_changing(script: Script, loop: EpochLoop) -> Iterator[ast.AST]:
    """The nodes of a loop, and those by which functions and methods that it calls change what is kept."""
    yield from ast.walk(loop)
    yield from list_kept_changes(script, loop)
    if not isinstance(script.scope(loop), ast.Module):
        return
    called = {getattr(node.func, "id", "") for node in ast.walk(loop) if isinstance(node, ast.Call)}
    for declared in script.nodes(ast.Global):
        function = script.scope(declared)
        for node in ast.walk(function) if getattr(function, "name", "") in called else ():
            targets = [node.target] if isinstance(node, ast.AugAssign) else getattr(node, "targets", ())
            if any(isinstance(target, ast.Name) and target.id in declared.names for target in targets):
                yield node


def _is_variable(target: ast.expr) -> bool:
    """Whether a target is a name, or an attribute of ``self``."""
    return isinstance(target, ast.Name) or (
        isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "self"
    )


def _list_numbers(statements: Sequence[ast.stmt]) -> set[str]:
    """The variables that statements set to a number."""
    return {
        ast.unparse(target)
        for statement in statements
        for target, value in list_assigned(statement)
        if _is_variable(target) and is_number(value)
    }


def list_made(script: Script, loop: EpochLoop) -> list[ast.stmt]:
    """What `__init__` of the class of a loop does, and those of its base classes."""
    starts = map(find_initializer, list_classes(script, loop))
    return [statement for start in starts if start is not None for statement in start.body]


def list_before(script: Script, loop: EpochLoop) -> list[ast.stmt]:
    """The statements before a loop, also outside of each `with`, `try` and `if` around it."""
    statements: list[ast.stmt] = []
    for above, child in script.module.ancestors(loop):
        statements += list_earlier(above, child)
        if not isinstance(above, _AROUND):
            break
    return statements


def _list_globals(script: Script, loop: EpochLoop) -> list[ast.stmt]:
    """The assignments of the file to what the function of the loop declares `global`."""
    scope = script.scope(loop)
    names = {name for node in script.nodes(ast.Global) for name in node.names if script.scope(node) is scope}
    return [
        statement
        for statement in script.module.tree.body
        if any(isinstance(target, ast.Name) and target.id in names for target, _ in list_assigned(statement))
    ]


def _list_compared(nodes: Iterable[ast.AST]) -> set[str]:
    compares = (node for node in nodes if isinstance(node, ast.Compare))
    return {ast.unparse(side) for node in compares for side in (node.left, *node.comparators)}


def list_lost(script: Script, loop: EpochLoop, saved: Collection[str]) -> dict[str, ast.stmt]:
    """Names and attributes that are compared and set, or count by one, and are not saved; where they are."""
    compared = _list_compared(ast.walk(loop))
    lost: dict[str, ast.stmt] = {}
    started: set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign):
            counts = isinstance(node.value, ast.Constant)
            if counts and ast.unparse(node.target) in compared:
                lost.setdefault(ast.unparse(node.target), node)
        elif isinstance(node, ast.For):
            started |= _list_stored(node.target)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {name for target in targets for name in _list_stored(target)} & compared
            started |= {name for name in names if _starts(script, loop, node, name)}
            lost |= {name: node for name in sorted(names) if name not in lost}
    lost = {name: place for name, place in lost.items() if name not in started}
    for change in list_kept_changes(script, loop):
        if isinstance(change, ast.AugAssign):
            lost.setdefault(ast.unparse(change.target), change)
    return {name: place for name, place in lost.items() if name not in saved}


def _list_stored(target: ast.expr) -> set[str]:
    return {
        ast.unparse(node)
        for node in ast.walk(target)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
    }


def _starts(script: Script, loop: EpochLoop, node: ast.Assign | ast.AnnAssign, name: str) -> bool:
    """Whether an assignment in the loop needs no value of the epoch before."""
    if node.value is None or _count([node.value], name):
        return False
    conditions = [
        above
        for above, child in script.module.ancestors(node)
        if isinstance(above, ast.If) and script.is_under(above, loop)
        if _count(above.body if child in above.body else above.orelse, name) < _count(loop.body, name)
    ]
    # `bad_epochs = 0` under a condition counts anew; `loss = …` in both branches is set each time.
    chosen = isinstance(node.value, ast.Constant) or any(_count([test.test], name) for test in conditions)
    return not conditions or not chosen


def _count(trees: Sequence[ast.AST], name: str) -> int:
    """How often a name or attribute stands in parts of the script."""
    nodes = (node for tree in trees for node in ast.walk(tree))
    return sum(isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == name for node in nodes)


def is_number(node: ast.expr) -> bool:
    """Whether an expression is a number that is written out, or infinity."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    text = ast.unparse(node).lower()
    number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return number or text in ("float('inf')", "float('-inf')", "math.inf", "np.inf", "numpy.inf", "torch.inf")


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
            names = [getattr(part, "id", "") for part in getattr(node.target, "elts", [node.target])]
            counts = isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") in _COUNTS
            counted = names[:1] if counts or node is loop else []
            # A method that gets the epoch calls it as the loop does.
            if script.scope(node) is scope or script.is_under(loop, node):
                self._counters |= set(counted)
                self._values |= {name: [None] for name in names if name not in counted}
        for statement in (*kinds.get(ast.Assign, ()), *kinds.get(ast.AnnAssign, ())):
            for target, value in list_assigned(statement):
                self._keep(script, scope, target, value)
        for added in kinds.get(ast.AugAssign, ()):
            self._keep(script, scope, added.target, added.value if isinstance(added.op, _SUMS) else None)

    def _keep(self, script: Script, scope: ast.AST, target: ast.expr, value: ast.expr | None) -> None:
        binder = target if isinstance(target, ast.Attribute) or script.scope(target) is scope else None
        parts = binder.elts if isinstance(binder, ast.Tuple | ast.List) else [binder]
        for part in parts:
            if isinstance(part, ast.Name | ast.Attribute):
                self._values.setdefault(ast.unparse(part), []).append(value if part is target else None)

    def has(self, node: ast.expr | None, seen: frozenset[str] = frozenset()) -> bool:
        """Whether an expression is a whole number; False where that is not sure."""
        if isinstance(node, ast.Name | ast.Attribute):
            return self._has_variable(node, seen)
        if isinstance(node, ast.UnaryOp):
            return self.has(node.operand, seen)
        if isinstance(node, ast.IfExp):
            return self.has(node.body, seen) and self.has(node.orelse, seen)
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, _SUMS) and self.has(node.left, seen) and self.has(node.right, seen)
        if isinstance(node, ast.Call):
            return getattr(node.func, "id", "") in _WHOLE_CALLS and len(node.args) == 1
        return isinstance(node, ast.Constant) and type(node.value) is int

    def _has_variable(self, node: ast.Name | ast.Attribute, seen: frozenset[str]) -> bool:
        name = ast.unparse(node)
        if isinstance(node, ast.Name) and self._script.scope(node) is not self._scope:
            args = getattr(self._script.scope(node), "args", None)
            return name in self._counters and any(arg.arg == name for arg in getattr(args, "args", ()))
        values = self._values.get(name, [])
        if name in seen or (name in self._counters and not values):
            return True  # `step = step + 1`
        return bool(values) and all(self.has(value, seen | {name}) for value in values)


Change: TypeAlias = ast.Assign | ast.AugAssign | ast.AnnAssign


def list_classes(script: Script, loop: EpochLoop) -> list[ast.ClassDef]:
    """The class around a loop, with its base classes of the script and the classes that inherit from it."""
    around = find_class_around(script.module, loop)
    if around is None:
        return []
    classes = script.nodes(ast.ClassDef)
    bases = {one.name: {getattr(base, "id", "") for base in one.bases} for one in classes}
    near = [one for one in classes if one.name in bases[around.name] or around.name in bases[one.name]]
    return [around, *near]


def list_methods(script: Script, loop: EpochLoop) -> dict[ast.FunctionDef, bool]:
    """The methods that a loop calls, also one by another, and whether each runs every time around."""
    methods: dict[str, list[ast.FunctionDef]] = {}
    for class_ in list_classes(script, loop):
        for member in class_.body:
            if isinstance(member, ast.FunctionDef):
                methods.setdefault(member.name, []).append(member)
    reached: dict[ast.FunctionDef, bool] = {}
    left: list[tuple[list[ast.stmt], bool]] = [(loop.body, True)]
    while left:
        body, always = left.pop(0)
        for statement in _list_unconditional(body):
            runs = always and not isinstance(statement, ast.If | ast.Try)
            for method in (one for name in _list_called(statement) for one in methods.get(name, ())):
                if method not in reached:
                    reached[method] = runs
                    left.append((method.body, runs))
    return reached


def _list_unconditional(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, with those inside of its loops and `with`, and without those of an `if`."""
    for statement in body:
        if isinstance(statement, ast.For | ast.While | ast.With):
            yield from _list_unconditional(statement.body)
        else:
            yield statement


def _list_called(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(func, ast.Attribute) and getattr(func.value, "id", "") == "self":
            yield func.attr


def list_kept_changes(script: Script, loop: EpochLoop) -> list[Change]:
    """Where methods count, or set what is compared, in attributes that do not begin anew each epoch."""
    methods = list_methods(script, loop)
    nodes = [node for top in (loop, *methods) for node in ast.walk(top)]
    compared = _list_compared(nodes)
    anew = _list_anew(loop.body).union(*(_list_anew(one.body) for one, always in methods.items() if always))
    changes: list[Change] = []
    for method in methods:
        started = anew | _list_anew(method.body)
        for node in ast.walk(method):
            names: set[str] = set()
            if isinstance(node, ast.AugAssign):
                names = {ast.unparse(node.target)}
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                pairs = [(ast.unparse(target), value) for target, value in list_assigned(node)]
                names = {name for name, value in pairs if name in compared or counts(name, value)}
            if any(word.startswith("self.") for word in names) and not names & started:
                changes.append(node)  # type: ignore[arg-type]
    return changes


def counts(name: str, value: ast.expr) -> bool:
    """Whether a value is ``self.step + 1``, for `self.step`."""
    sides = (value.left, value.right) if isinstance(value, ast.BinOp) else ()
    return any(ast.unparse(side) == name for side in sides) and any(
        isinstance(side, ast.Constant) for side in sides
    )


def _list_anew(body: list[ast.stmt]) -> set[str]:
    """What statements set to something that does not depend on what it was."""
    return {
        name
        for statement in _list_unconditional(body)
        for name, value in ((ast.unparse(target), value) for target, value in list_assigned(statement))
        if name not in map(ast.unparse, ast.walk(value))
    }


_HEAVY = re.compile(r"model|net\b|weight|state|optim|loader|data|shadow|param", re.IGNORECASE)
_PLAIN_CALLS = ("float", "int", "min", "max", "abs", "round", "len")
_CHANGES = ("append", "extend", "update", "pop", "insert", "clear", "add")
_PARTS = (ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.List, ast.Tuple, ast.Dict)


class Kept(Struct, frozen=True):
    """An object, as the loop names it."""

    name: str
    is_plain: bool  # its attributes are numbers and texts, which a checkpoint can have


def list_objects(script: Script, loop: EpochLoop) -> list[Kept]:
    """The objects that have a state of their own, and that the loop, or the class around it, calls."""
    around = find_class_around(script.module, loop)
    calls = [
        node.func
        for top in (loop, around)
        for node in (ast.walk(top) if top is not None else ())
        if isinstance(node, ast.Call)
    ]
    called = {ast.unparse(call) for call in calls}
    called |= {ast.unparse(call.value) for call in calls if isinstance(call, ast.Attribute)}
    objects: dict[str, Kept] = {}
    for statement in (*list_before(script, loop), *list_made(script, loop)):
        value = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or not isinstance(value, ast.Call):
            continue
        class_ = script.find_class(getattr(value.func, "id", ""))
        stored = _list_attributes(class_) if class_ is not None and not class_.bases else ()
        if class_ is not None and any(method != "__init__" for method, _ in stored):
            targets = called.intersection(map(ast.unparse, statement.targets))
            objects |= {target: Kept(target, _is_plain(class_, value)) for target in targets}
    return sorted(objects.values(), key=lambda kept: kept.name)


def list_collections(script: Script, loop: EpochLoop) -> list[str]:
    """The lists, and mappings of lists, to which the loop appends numbers of each epoch."""
    empty = {
        ast.unparse(target)
        for statement in (*list_before(script, loop), *list_made(script, loop))
        for target, value in list_assigned(statement)
        if _is_empty(value)
    }
    stored = {
        ast.unparse(target)
        for node in ast.walk(loop)
        if isinstance(node, ast.stmt)
        for target, _ in list_assigned(node)
    }
    appended: dict[str, list[ast.expr]] = {}
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "append":
            assert isinstance(node.func, ast.Attribute)
            base = node.func.value
            name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            appended.setdefault(name, []).extend(node.args)
    return sorted(
        name for name, values in appended.items()
        if name in empty - stored and not any(_HEAVY.search(ast.unparse(value)) for value in values)
    )  # fmt: skip


def _is_empty(node: ast.expr) -> bool:
    """Whether an expression is ``[]``, or ``{"loss": [], …}``."""
    if isinstance(node, ast.Dict):
        return bool(node.values) and all(map(_is_empty, node.values))
    return isinstance(node, ast.List) and not node.elts


def _list_attributes(class_: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    """What methods set attributes to or put into them, with the name of the method."""
    for method in class_.body:
        for node in ast.walk(method) if isinstance(method, ast.FunctionDef) else ():
            assert isinstance(method, ast.FunctionDef)
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any("self." in ast.unparse(target) for target in targets):
                    yield method.name, node.value
            elif getattr(getattr(node, "func", None), "attr", "") in _CHANGES:
                assert isinstance(node, ast.Call)
                if ast.unparse(node.func).startswith("self."):
                    yield from ((method.name, argument) for argument in node.args or (None,))


def _is_plain(class_: ast.ClassDef, made: ast.Call) -> bool:
    """Whether all that an object keeps, also what it is made with, are numbers and texts."""
    arguments = [*made.args, *(keyword.value for keyword in made.keywords)]
    if (start := find_initializer(class_)) is not None:
        defaults = (*start.args.defaults, *start.args.kw_defaults)
        arguments += [one for one in defaults if one is not None and ast.unparse(one) != "print"]
    return all(map(_is_plain_value, arguments)) and all(
        value is None or _is_plain_value(value) for _, value in _list_attributes(class_)
    )


def _is_plain_value(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant | ast.operator | ast.unaryop | ast.boolop | ast.cmpop):
        return True
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return not _HEAVY.search(ast.unparse(node))
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _PLAIN_CALLS:
        return True
    parts = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr_context)]
    return isinstance(node, _PARTS) and all(_is_plain_value(part) for part in parts)  # type: ignore[arg-type]
