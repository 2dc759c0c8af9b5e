"""The value that an expression of a script stands for, for everything that reads values.

A name leads to its assignments, a parameter to what the calls pass, an attribute to what sets it or to the
field of a class, a call to what its function returns, ``settings["lr"]`` to the entry. One step at a time:
who asks decides whether all values must agree or one is enough.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from worldsize.scripts.bindings import (
    FUNCTIONS,
    Binding,
    Function,
    find_argument,
    find_default,
    find_entry,
    find_scope,
    is_parameter,
    read_bindings,
)
from worldsize.scripts.definitions import (
    Call,
    Definitions,
    Place,
    define_alone,
    find_class,
    find_class_around,
    find_methods,
    find_stem,
)
from worldsize.scripts.module import (
    Module,
    constant_value,
    find_passed,
    keyword_argument,
    last_name,
    name_variable,
)

_STEPS = 4  # from one variable to the next
_CALLS = 20  # of one function that are looked at
_UNKNOWN = object()
_TYPES: dict[str, object] = {"int": int, "float": float, "str": str}


def find_values(code: Definitions, module: Module, node: ast.AST) -> list[Place]:
    """All values that an expression may stand for, one step back; none if unknown.

    The tree of a module stands for a value that is not known.
    """
    if isinstance(node, ast.Name):
        return code.once(follow_name, module, find_scope(module, node), node.id)
    if isinstance(node, ast.Attribute):
        return code.once(_follow_attribute, module, node)
    if isinstance(node, ast.Call):
        return code.once(_list_returned, module, node, None)
    if isinstance(node, ast.IfExp):
        return [(module, node.body), (module, node.orelse)]
    return _follow_entry(code, module, node) if isinstance(node, ast.Subscript) else []


def find_single(code: Definitions, module: Module, node: ast.AST) -> Place | None:
    """The only expression that another one stands for, one step back."""
    values = find_values(code, module, node)
    return values[0] if len(values) == 1 and values[0][1] is not values[0][0].tree else None


def list_chain(code: Definitions, module: Module, node: ast.AST, steps: int) -> Iterator[Place]:
    """An expression, and those that it stands for, as long as there is one."""
    place: Place | None = (module, node)
    for _ in range(steps):
        if place is None:
            return
        yield place
        place = find_single(code, *place)


def open_variable(module: Module, node: ast.AST | None) -> ast.AST | None:
    """The only value of a variable, as far as its file shows it; any other expression unchanged."""
    for _ in range(_STEPS):
        single = find_single(define_alone(module), module, node) if isinstance(node, ast.Name) else None
        if single is None:
            break
        node = single[1]
    return node


def follow_name(code: Definitions, module: Module, scope: ast.AST, name: str) -> list[Place]:
    """All values that a name may stand for in a function or file, one step back."""
    names = read_bindings(module).names
    while True:
        bound = names.get((scope, name), [])
        if isinstance(scope, FUNCTIONS) and is_parameter(scope, name):
            return [] if bound else code.once(_list_passed, module, scope, name)
        if bound:
            return _open(code, module, bound)
        if scope is module.tree:
            home, _, last = module.names.get(name, name).rpartition(".")
            return _read_beside(code, module, home, last)
        scope = find_scope(module, scope)


def _follow_entry(code: Definitions, module: Module, node: ast.Subscript) -> list[Place]:
    """The entry of a mapping, or of ``**options`` what the calls pass by its name."""
    scope, key = find_scope(module, node), constant_value(node.slice)
    options = scope.args.kwarg if isinstance(scope, FUNCTIONS) else None
    if options is not None and isinstance(scope, FUNCTIONS) and last_name(node.value) == options.arg:
        calls = code.once(_list_calls, module, scope) or ()
        return [(home, keyword_argument(call, str(key)) or home.tree) for home, call in calls]
    mapping: Place | None = (module, node.value)
    for _ in range(_STEPS):
        mapping = find_single(code, *mapping) if mapping is not None else None
        entry = find_entry(mapping[1], key) if mapping is not None else None
        if mapping is not None and entry is not None:
            return [(mapping[0], entry)]
    return []


def _read_beside(code: Definitions, module: Module, home: str, name: str) -> list[Place]:
    """What a module beside sets a name to."""
    stem = home.rpartition(".")[2]
    beside = [other for other in code.modules if stem and other is not module and find_stem(other) == stem]
    bound = read_bindings(beside[0]).names.get((beside[0].tree, name), []) if len(beside) == 1 else []
    return _open(code, beside[0], bound) if bound else []


def _follow_attribute(code: Definitions, module: Module, node: ast.Attribute) -> list[Place]:
    imported = module.names.get(node.value.id) if isinstance(node.value, ast.Name) else None
    if imported is not None and (beside := _read_beside(code, module, imported, node.attr)):
        return beside
    if isinstance(node.value, ast.Attribute) and node.value.attr == "hparams":  # of Lightning
        starts = find_methods(code, find_class_around(module, node), "__init__")
        return code.once(follow_name, *starts[0], node.attr) if starts else []
    bindings = read_bindings(module).attributes.get(node.attr, ())
    bound = [
        binding
        for binding in bindings
        if isinstance(binding.target, ast.Attribute) and _is_same_object(module, binding.target, node)
    ]
    if bound:
        return _open(code, module, bound)
    return code.once(_follow_field, node.attr)


def _follow_field(code: Definitions, name: str) -> list[Place]:
    """The values that a class gives an attribute that no statement sets: in a call, its body, a property."""
    return _list_made(code, name) or _list_class_values(code, name) or _follow_property(code, name)


def _is_same_object(module: Module, target: ast.Attribute, node: ast.Attribute) -> bool:
    """Whether an attribute that is set may be the one that is read, by the last names of their objects."""
    owner, other = last_name(target.value), last_name(node.value)
    if owner != other or owner != "self":
        return owner in (other, "self")
    first, second = find_class_around(module, target), find_class_around(module, node)
    if first is None or second is None:
        return first is second
    names = [{class_.name, *map(last_name, class_.bases)} for class_ in (first, second)]
    return first.name in names[1] or second.name in names[0]


def _list_made(code: Definitions, field: str) -> list[Place]:
    """The values passed for a field of a dataclass or named tuple, or its default."""
    declared = [
        (home, class_, fields)
        for same_named in code.classes.values()
        for home, class_ in same_named
        if field
        in (fields := {_name_field(line): line for line in class_.body if isinstance(line, ast.AnnAssign)})
    ]
    if len(declared) != 1:
        return []
    ((home, class_, fields),) = declared
    position, default = [*fields].index(field), fields[field].value
    made: list[Place] = []
    for module in code.modules:
        for call in module.called(class_.name):
            unknown = _opens_arguments(call)
            passed = find_passed(call, position, field)
            place = (module, passed) if passed is not None else (home, default)
            made.append((module, module.tree) if unknown or place[1] is None else place)  # type: ignore[arg-type]
    return made


def _name_field(line: ast.AnnAssign) -> str:
    return line.target.id if isinstance(line.target, ast.Name) else ""


def _list_class_values(code: Definitions, name: str) -> list[Place]:
    """The values of a name in the body of the only class that sets it."""
    places = [
        (home, bound)
        for classes in code.classes.values()
        for home, class_ in classes
        if (bound := read_bindings(home).names.get((class_, name)))
    ]
    return _open(code, *places[0]) if len(places) == 1 else []


def _follow_property(code: Definitions, name: str) -> list[Place]:
    """What the only property of a name returns."""
    functions = code.functions.get(name, [])
    decorators = functions[0][1].decorator_list if len(functions) == 1 else []
    names = [getattr(decorator, "id", getattr(decorator, "attr", "")) for decorator in decorators]
    return _read_returns(*functions[0], None) if names in (["property"], ["cached_property"]) else []


def _list_passed(code: Definitions, home: Module, function: Function, name: str) -> list[Place]:
    """What the calls of a function pass for its parameter, or else its default."""
    passed: list[Place] = []
    for module, call in code.once(_list_calls, home, function) or ():
        argument = find_argument(home, call, function, name)
        default = find_default(function, name) if not _opens_arguments(call) else None
        if argument is not None:
            passed.append((module, argument))
        else:
            passed.append((home, default) if default is not None else (home, home.tree))
    return passed


def _opens_arguments(call: ast.Call) -> bool:
    """Whether a call passes ``*values`` or ``**options``."""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return starred or any(keyword.arg is None for keyword in call.keywords)


def _list_calls(code: Definitions, home: Module, function: Function) -> list[Call] | None:
    """The calls of a function; None if something else may call it, such as ``mp.spawn``."""
    if function in code.chosen:
        return [code.chosen[function]]
    calls, uses = list_calls(code, home, function)
    return calls if len(calls) == uses <= _CALLS else None


def list_calls(code: Definitions, home: Module, function: Function) -> tuple[list[Call], int]:
    """The calls of a function, and how many times it is named, also by what may call it later."""
    class_, name = find_class(home, function), function.name
    made = class_ is not None and name in ("__init__", "__post_init__")
    names = [class_.name, name] if class_ is not None and made else [name]
    calls: list[Call] = []
    uses = 0
    for module in code.modules:
        for node in (node for name in names for node in module.mentions(name)):
            if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            if not any(candidate is function for _, candidate in code.find(module, node)):
                continue
            above = module.parents.get(node)
            if isinstance(above, ast.ClassDef) and find_methods(code, above, name)[:1] != [(home, function)]:
                continue  # a class that inherits from it, and has an initializer
            uses += 1
            if isinstance(above, ast.Call) and above.func is node:
                calls.append((module, above))
    return calls, uses


def _list_returned(code: Definitions, module: Module, call: ast.Call, position: int | None) -> list[Place]:
    """What the function of a call returns, or one part of it."""
    functions = code.find(module, call.func)
    if len(functions) != 1 or functions[0][1].name in ("__init__", "__post_init__", "__new__"):
        return []
    return _read_returns(*functions[0], position)


def _read_returns(module: Module, function: Function, position: int | None) -> list[Place]:
    return [
        (module, _choose_part(module, statement.value, position))
        for statement in module.kinds.get(ast.Return, ())
        if find_scope(module, statement) is function
    ]


def _choose_part(module: Module, value: ast.expr | None, position: int | None) -> ast.AST:
    if position is None or value is None:
        return value or module.tree
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
    return parts[position] if position < len(parts) else module.tree


def _open(code: Definitions, module: Module, bound: list[Binding]) -> list[Place]:
    """Every value; for ``rank, size = setup()`` the part of the returned value."""
    opened: list[Place] = []
    for _, value, position in bound:
        if value is None:
            opened.append((module, module.tree))
        elif position is None:
            opened.append((module, value))
        else:
            is_call = isinstance(value, ast.Call)
            returned = code.once(_list_returned, module, value, position) if is_call else []
            opened += returned or [(module, module.tree)]
    return opened


def evaluate(
    code: Definitions, module: Module, node: ast.AST | None, names: Mapping[str, object] | None = None
) -> object:
    """The value of an expression of literals, ``names`` and variables with one value; None if unknown."""
    try:
        return _evaluate(code, module, node, names or {})
    except (ValueError, TypeError, RecursionError):
        return None


def _evaluate(code: Definitions, module: Module, node: ast.AST | None, names: Mapping[str, object]) -> object:
    """The same.

    Raises:
        ValueError: It is something else.
    """

    def read(part: ast.AST | None) -> object:
        return _evaluate(code, module, part, names)

    value: object = _UNKNOWN
    if isinstance(node, ast.Constant):
        value = node.value
    elif names and (name := name_variable(node)) in names:
        value = names[name]
    elif isinstance(node, ast.Name | ast.Attribute):
        places = find_values(code, module, node)
        values = [_evaluate(code, *place, {}) for place in places]
        value = values[0] if values else _TYPES.get(getattr(node, "id", ""), _UNKNOWN)
        value = value if all(other == value for other in values) else _UNKNOWN
    elif isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
        value = tuple(map(read, node.keys if isinstance(node, ast.Dict) else node.elts))
    elif isinstance(node, ast.expr):
        value = _compute(node, read)
    if value is _UNKNOWN:
        raise ValueError("not a literal")
    return value


def _compute(node: ast.expr, read: Callable[[ast.AST | None], object]) -> object:
    if isinstance(node, ast.FormattedValue):
        return read(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(read(part)) for part in node.values)
    if isinstance(node, ast.UnaryOp):
        number = read(node.operand)
        return -number if isinstance(node.op, ast.USub) and isinstance(number, int | float) else _UNKNOWN
    if isinstance(node, ast.BinOp):
        left, right = read(node.left), read(node.right)
        joins = {type(left), type(right)} in ({str}, {tuple}) and isinstance(node.op, ast.Add)
        return left + right if joins else _UNKNOWN  # type: ignore[operator]
    return _call(node, read) if isinstance(node, ast.Call) else _UNKNOWN


def _call(call: ast.Call, read: Callable[[ast.AST | None], object]) -> object:
    """The value of ``range(…)``, ``list(…)``, ``table.keys()``, ``name.replace("_", "-")`` and their like."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "keys" and not call.args:
        return read(call.func.value)
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    values = [read(argument) for argument in call.args]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "replace" and len(values) == 2:
        old, new, text = map(str, (*values, read(call.func.value)))
        return text.replace(old, new)
    if name in ("list", "tuple", "sorted", "set") and len(values) == 1 and isinstance(values[0], tuple):
        return values[0]
    whole = [value for value in values if type(value) is int and abs(value) < 10_000]
    return tuple(range(*whole)) if name == "range" and 1 <= len(whole) == len(values) <= 2 else _UNKNOWN
