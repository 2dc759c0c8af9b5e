"""One `add_argument(…)` of argparse, or several where it stands in a loop."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from itertools import product

from worldsize.scripts.definitions import Definitions
from worldsize.scripts.interface.model import Interface, Option
from worldsize.scripts.module import Module, constant_value, keyword_argument
from worldsize.scripts.values import evaluate

_STRTOBOOL = ("distutils.util.strtobool", "setuptools._distutils.util.strtobool")
_LOWER = ("y", "yes", "t", "true", "on", "1", "n", "no", "f", "false", "off", "0")
_TRUTHS = (*_LOWER, *(form for word in _LOWER for form in (word.upper(), word.capitalize())))
_NO_WORDS = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")


def read_option(
    code: Definitions, interface: Interface, module: Module, call: ast.Call, *, sure: bool
) -> None:
    """Read one `add_argument`, or several where it stands in a loop over literals."""
    for names in list_loop_values(code, module, call):
        words = [evaluate(code, module, each, names) for each in call.args]
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
            flags = option.flags
            (interface.options if flags else interface.positionals).append(option)


def _option(
    code: Definitions, module: Module, call: ast.Call, words: tuple[str, ...], names: Mapping[str, object]
) -> Option:
    given = {one.arg: one.value for one in call.keywords}
    flags = tuple(word for word in words if word.startswith("-"))
    first = next((flag for flag in flags if flag.startswith("--")), words[0] if words else "")
    dest = constant_value(given.get("dest"))
    option = Option(flags, str(dest or first.lstrip("-").replace("-", "_")), module, call)
    action, nargs = (
        evaluate(code, module, given.get("action"), names),
        evaluate(code, module, given.get("nargs"), names),
    )
    custom = "action" in given and not isinstance(action, str)
    if custom and module.name_of(given["action"]).endswith("BooleanOptionalAction"):
        option.flags += tuple("--no-" + flag[2:] for flag in flags if flag.startswith("--"))
        option.least = option.most = 0
    elif action in _NO_WORDS:
        option.least = option.most = 0
    elif None in given or custom or ("nargs" in given and nargs is None):  # not known
        option.least, option.most = 0, None
    elif nargs is not None:
        most = {"?": 1, "*": None, "+": None}.get(str(nargs), nargs if isinstance(nargs, int) else None)
        option.least, option.most = (nargs if isinstance(nargs, int) else int(nargs == "+")), most
    kind = evaluate(code, module, given.get("type"), names)
    option.kind = kind if kind in (int, float) else None
    if "type" in given and option.kind is None and module.name_of(given["type"]) in _STRTOBOOL:
        option.choices = _TRUTHS
    choices = evaluate(code, module, given.get("choices"), names)
    if isinstance(choices, str):
        choices = tuple(choices)
    if (
        isinstance(choices, tuple)
        and None not in given
        and ("type" not in given or kind in (int, float, str))
    ):
        option.choices = choices
    option.required = constant_value(given.get("required")) is True and None not in given
    option.optional_words = not flags and (option.least == 0 or None in given)
    return option


def list_loop_values(code: Definitions, module: Module, call: ast.Call) -> list[dict[str, object]]:
    """What the variables of the loops around a call are, each time that it is made; none if unknown."""
    loops: list[list[dict[str, object]]] = []
    for above, child in module.ancestors(call):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            break
        if isinstance(above, ast.For) and child is not above.iter:
            values = evaluate(code, module, above.iter)
            rounds = [_bind(above.target, value) for value in values] if isinstance(values, tuple) else []
            loops.append(rounds or [{}])
    return [
        {name: value for each in rounds for name, value in each.items()}
        for rounds in list(product(*loops))[:200]
    ]


def _bind(target: ast.expr, value: object) -> dict[str, object]:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, tuple)
        and len(target.elts) == len(value)
    ):
        return {
            name: each
            for part, item in zip(target.elts, value, strict=True)
            for name, each in _bind(part, item).items()
        }
    return {}
