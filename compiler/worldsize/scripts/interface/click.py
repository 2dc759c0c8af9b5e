"""The interface that the decorators of click give to functions: commands, and groups of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.scripts.bindings import Function
from worldsize.scripts.definitions import Definitions, Place
from worldsize.scripts.interface.model import Interface, Option
from worldsize.scripts.module import Module, constant_value, find_passed, keyword_argument
from worldsize.scripts.reached import Reached
from worldsize.scripts.values import evaluate

_LIBRARIES = ("click", "rich_click")
_HARMLESS = ("pass_context", "pass_obj", "version_option", "help_option", "make_pass_decorator")
_SETTINGS = frozenset({"show_default", "help_option_names", "max_content_width", "terminal_width"})
_LENIENT = frozenset({"ignore_unknown_options", "allow_extra_args"})
_KINDS: dict[str, type[int | float]] = {"int": int, "float": float}
_DEPTH = 4  # groups inside of groups


def read_click(reached: Reached) -> Interface | None:
    """The interface of the only command that the script starts; None if there is not exactly one."""
    started: list[tuple[Place, ast.Call]] = []
    for module in reached.modules:
        for _, call in module.calls:
            for other, function in reached.find(module, call.func) if isinstance(call.func, ast.Name) else ():
                if _find_maker(other, function) is not None and reached.runs(module, call):
                    if not reached.surely_runs(module, call):
                        return None
                    started.append(((other, function), call))
    if len(started) != 1 or started[0][1].args or keyword_argument(started[0][1], "args") is not None:
        return None
    (module, command), call = started[0]
    if not isinstance(command, ast.FunctionDef):
        return None
    interface = _read_command(reached, module, command, _DEPTH)
    names = {one.arg for one in call.keywords}
    if interface is not None and not names <= {"obj", "prog_name", "standalone_mode"}:
        _require_nothing(interface)  # the values of `auto_envvar_prefix` or of a `default_map`
    return interface


def _require_nothing(interface: Interface) -> None:
    for option in interface.options:
        option.required = False
    for inner in (interface.commands or {}).values():
        _require_nothing(inner)


def _find_maker(module: Module, function: Function) -> ast.expr | None:
    """The decorator that makes a command or a group of a function: `click.command()` or `group.command()`."""
    for decorator in function.decorator_list:
        if module.name_of(_callee(decorator)).rpartition(".")[2] in ("command", "group"):
            return decorator
    return None


def _callee(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _read_command(reached: Reached, module: Module, function: Function, depth: int) -> Interface | None:
    """The interface of a command; None if something may change its arguments."""
    interface = Interface(kind="click", abbreviates=False)
    for decorator in function.decorator_list:
        top, _, name = module.name_of(_callee(decorator)).rpartition(".")
        call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
        if top in _LIBRARIES and name in ("option", "argument"):
            if any(one.arg in (None, "cls") for one in call.keywords):
                return None
            read_parameter(reached, interface, module, call, is_option=name == "option")
        elif name in ("command", "group"):
            if not _read_settings(interface, call):
                return None
            if name == "group":
                _add_commands(reached, interface, function, depth)
                interface.needs_command = keyword_argument(call, "invoke_without_command") is None
        elif top not in _LIBRARIES or name not in _HARMLESS:
            return None
    interface.options.append(Option(("--help", "-h", "--version"), "help", module, function, 0, 0))
    return interface


def _read_settings(interface: Interface, call: ast.Call) -> bool:
    """Whether all settings of a command are known."""
    if any(one.arg in (None, "cls", "chain") for one in call.keywords) or len(call.args) > 1:
        return False
    settings = keyword_argument(call, "context_settings")
    if settings is None:
        return True
    if not isinstance(settings, ast.Dict):
        return False
    names = {constant_value(key) for key in settings.keys}
    interface.ignores_others = bool(names & _LENIENT)
    return names <= _SETTINGS | _LENIENT


def _add_commands(reached: Reached, group: Interface, function: Function, depth: int) -> None:
    """The commands of a group: those that it makes, and those that are added to it."""
    members = [*_list_made(reached, function), *_list_added(reached, function)]
    commands: dict[str, Interface] = {}
    for name, place in members if depth else ():
        module, decorated = place or (None, None)
        if name is None or module is None or not isinstance(decorated, ast.FunctionDef):
            break
        commands[name] = _read_command(reached, module, decorated, depth - 1) or Interface(closed=False)
    group.commands = commands if len(commands) == len(members) else {}


def _list_made(reached: Reached, group: Function) -> Iterator[tuple[str | None, Place]]:
    """The functions under `@group.command()`, each with the word that chooses it."""
    for module in reached.modules:
        for function in module.kinds.get(ast.FunctionDef, ()):
            maker = _find_maker(module, function)
            owner = _callee(maker) if maker is not None else None
            if isinstance(owner, ast.Attribute) and _means(reached, module, owner.value, group):
                yield _name_of_command(reached, module, function), (module, function)


def _list_added(reached: Reached, group: Function) -> Iterator[tuple[str | None, Place | None]]:
    """The commands of `group.add_command(…)`; one without a name for any other use of the group."""
    for module in reached.modules:
        for node in module.kinds.get(ast.Name, ()):
            above = module.parents.get(node)
            plain = isinstance(above, ast.Attribute) or (isinstance(above, ast.Call) and above.func is node)
            if not plain and _means(reached, module, node, group):
                yield None, None
        for node in module.kinds.get(ast.Attribute, ()):
            if node.attr in ("command", "group") or not _means(reached, module, node.value, group):
                continue
            call = module.parents.get(node)
            if node.attr != "add_command" or not isinstance(call, ast.Call) or not call.args:
                yield None, None
                continue
            places, written = reached.find(module, call.args[0]), find_passed(call, 1, "name")
            if len(places) != 1 or not reached.surely_runs(module, call):
                yield None, None
                continue
            name = _name_of_command(reached, *places[0]) if written is None else constant_value(written)
            yield name if isinstance(name, str) else None, places[0]


def _means(reached: Reached, module: Module, node: ast.expr, function: Function) -> bool:
    candidates = reached.find(module, node) if isinstance(node, ast.Name) else ()
    return any(candidate is function for _, candidate in candidates)


def _name_of_command(code: Definitions, module: Module, function: Function) -> str | None:
    """The word that chooses a command; None if unknown."""
    call = _find_maker(module, function)
    written = find_passed(call, 0, "name") if isinstance(call, ast.Call) else None
    if written is not None:
        name = evaluate(code, module, written)
        return name if isinstance(name, str) else None
    if function.name.endswith(("_command", "_cmd", "_group", "_grp")):
        return None  # click 8.2 leaves the ending out
    return function.name.lower().replace("_", "-")


def read_parameter(
    code: Definitions, interface: Interface, module: Module, call: ast.Call, *, is_option: bool
) -> None:
    """Read what one decorator, `option` or `argument`, adds to the interface."""
    words = [evaluate(code, module, argument) for argument in call.args]
    texts = [word for word in words if isinstance(word, str)]
    if len(texts) != len(words) or not texts:
        interface.closed = False
        return
    keywords = {one.arg: one.value for one in call.keywords if one.arg}
    flags = tuple(
        part.strip() for word in texts if word[:1] == "-" for part in word.split("/") if part.strip()
    )
    option = Option(flags if is_option else (), _name_parameter(texts), module, call)
    paired = any("/" in word for word in texts)
    if paired or any(_is_set(keywords, name) for name in ("is_flag", "count", "flag_value")):
        option.least = option.most = 0
    else:
        _read_values(code, option, module, keywords)
    required = constant_value(keywords.get("required"))
    elsewhere = {"envvar", "prompt", "default", "callback", "default_map"} & keywords.keys()
    if is_option:
        option.required = required is True and not elsewhere
        interface.options.append(option)
        return
    may_lack = option.most is None and required is not True
    option.optional_words = required is False or bool(elsewhere) or may_lack
    interface.positionals.append(option)


def _name_parameter(texts: list[str]) -> str:
    """The name of a parameter: the word without hyphens, else its first long flag, else its first flag."""
    plain = next((text for text in texts if text[:1] != "-"), None)
    long = next((text for text in texts if text[:2] == "--"), texts[0])
    return plain or long.partition("/")[0].strip().lstrip("-").replace("-", "_").lower()


def _is_set(keywords: dict[str, ast.expr], name: str) -> bool:
    return name in keywords and constant_value(keywords[name]) is not False


def _read_values(code: Definitions, option: Option, module: Module, keywords: dict[str, ast.expr]) -> None:
    """Read the number, the type and the choices of the words that a parameter takes."""
    kind, count = keywords.get("type"), constant_value(keywords.get("nargs"))
    if isinstance(kind, ast.Tuple):
        option.least = option.most = len(kind.elts)
        return
    if "nargs" in keywords:
        many = not isinstance(count, int) or count < 0
        option.least, option.most = (1, None) if many else (count, count)  # type: ignore[assignment]
    if kind is None:
        default = constant_value(keywords.get("default"))
        option.kind = type(default) if type(default) in (int, float) else None  # type: ignore[assignment]
        return
    call = kind if isinstance(kind, ast.Call) else ast.Call(kind, [], [])
    name = module.name_of(call.func).rpartition(".")[2]
    option.kind = _KINDS.get(name.lower().removesuffix("range"))
    if name in ("IntRange", "FloatRange") and keyword_argument(call, "clamp") is None:
        least, most = (find_passed(call, position, end) for position, end in enumerate(("min", "max")))
        option.bounds = _as_bound(evaluate(code, module, least)), _as_bound(evaluate(code, module, most))
    elif name == "Choice" and keyword_argument(call, "case_sensitive") is None:
        choices = evaluate(code, module, find_passed(call, 0, "choices"))
        if isinstance(choices, tuple) and all(isinstance(choice, str) for choice in choices):
            option.choices = choices


def _as_bound(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
