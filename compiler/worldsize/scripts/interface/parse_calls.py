"""The calls of `parse_args` and `parse_known_args`: which read the command, and when."""

from __future__ import annotations

import ast

from worldsize.scripts.module import Module, keyword_argument
from worldsize.scripts.reached import Reached, find_scope

PARSES = ("parse_args", "parse_intermixed_args")
PARSES_KNOWN = ("parse_known_args", "parse_known_intermixed_args")


def is_alternative(reached: Reached, module: Module, call: ast.Call) -> bool:
    """Whether it parses in one case, and a call like it in the other: `if args is None: … else: …`."""
    above, child = next(
        (each for each in module.ancestors(call) if isinstance(each[0], ast.If)), (None, None)
    )
    if isinstance(above, ast.If) and child is not above.test:
        other = above.orelse if child in above.body else above.body
        branch = reached.surely_runs(module, above)
    else:  # behind an `if` that returns
        place = next((each for each, _ in module.ancestors(call) if isinstance(each, ast.stmt)), None)
        block = getattr(module.parents.get(place), "body", []) if place is not None else []
        before = block[: block.index(place)] if place in block else []
        tests = [each for each in before if isinstance(each, ast.If)]
        other, branch = tests[0].body if len(tests) == 1 else [], True
    names = (*PARSES, *PARSES_KNOWN)
    return branch and any(
        isinstance(each, ast.Attribute) and each.attr in names
        for statement in other
        for each in ast.walk(statement)
    )


def refuses_rest(module: Module, call: ast.Call) -> bool:
    """Whether the script stops where `args, rest = parser.parse_known_args()` leaves anything."""
    statement = module.parents.get(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    rest = target.elts[-1] if isinstance(target, ast.Tuple) else None
    name = rest.id if isinstance(rest, ast.Name) else None
    left, none = (name, f"len({name})", f"len({name}) > 0"), (f"not {name}", f"len({name}) == 0")
    asked = [*module.kinds.get(ast.If, ()), *module.kinds.get(ast.Assert, ())] if name else []
    parser = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    ends = (f"{parser}.error(", "sys.exit(", "exit(", "raise ")
    return any(
        ast.unparse(each.test) in none
        if isinstance(each, ast.Assert)
        else ast.unparse(each.test) in left and ast.unparse(each.body[-1]).startswith(ends)
        for each in asked
    )


def reads_command(module: Module, call: ast.Call) -> bool:
    """Whether it parses the arguments of the script, and not a list of its own."""
    given = call.args[0] if call.args else keyword_argument(call, "args")
    if given is None or (isinstance(given, ast.Constant) and given.value is None):
        return True
    if isinstance(given, ast.Name):
        scope = find_scope(module, call)
        names = getattr(scope, "args", None)
        return names is not None and any(given.id == each.arg for each in (*names.args, *names.kwonlyargs))
    return ast.unparse(given) in ("sys.argv[1:]", "argv[1:]")
