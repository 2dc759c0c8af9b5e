"""The interfaces that typer and fire make of the parameters of functions."""

from __future__ import annotations

import ast

from worldsize.scripts.bindings import FUNCTIONS, Function, list_parameters
from worldsize.scripts.definitions import Definitions, Place, find_class_named
from worldsize.scripts.interface.annotations import Annotation, read_annotation
from worldsize.scripts.interface.model import Interface, Option
from worldsize.scripts.module import (
    Module,
    constant_value,
    find_mentions,
    find_passed,
    keyword_argument,
    last_name,
    list_bound_names,
)
from worldsize.scripts.reached import Reached
from worldsize.scripts.values import evaluate

_PLAIN_METHODS = frozenset({"staticmethod", "classmethod"})

_ELSEWHERE = ("envvar", "prompt", "callback", "default_factory")
_OTHER_TYPES = ("parser", "click_type", "case_sensitive")
_MADE = ("Option", "Argument")
_SHELL = ("--help", "-h", "--install-completion", "--show-completion")


def read_typer(reached: Reached) -> Interface | None:
    """The interface of the only application that the script runs; None if there is not exactly one."""
    runs, made = reached.called("typer.run"), reached.called("typer.Typer")
    if len(runs) == 1 and not made and reached.surely_runs(*runs[0]) and runs[0][1].args:
        functions = reached.find(runs[0][0], runs[0][1].args[0])
        return _read_typer_function(reached, functions[0]) if len(functions) == 1 else None
    if runs or len(made) != 1:
        return None
    return _read_application(reached, *made[0])


def _read_application(reached: Reached, module: Module, call: ast.Call) -> Interface | None:
    """The commands of one `typer.Typer(…)`; None if the script uses it in a way that is not followed."""
    assigned = module.parents.get(call)
    target = assigned.targets[0] if isinstance(assigned, ast.Assign) else None
    settings = {one.arg for one in call.keywords}
    if not isinstance(target, ast.Name) or settings & {None, "cls", "context_settings", "callback"}:
        return None
    commands: list[tuple[str | None, Place]] = []
    callbacks: list[Place] = []
    started = False
    for other in reached.modules:
        for node in other.kinds.get(ast.Name, ()):
            if not _means(other, node, module, target.id) or not isinstance(node.ctx, ast.Load):
                continue
            above = other.parents.get(node)
            if isinstance(above, ast.Call) and above.func is node:
                started |= reached.surely_runs(other, above) and not above.args
                continue
            decorated = _find_decorated(other, above)
            if decorated is None:
                return None
            maker, function = decorated
            if isinstance(maker.func, ast.Attribute) and maker.func.attr == "callback":
                callbacks.append((other, function))
            else:
                commands.append((_name_of_command(maker, function), (other, function)))
    if not started or not commands or len(callbacks) > 1:
        return None
    if len(commands) == 1 and not callbacks:
        return _read_typer_function(reached, commands[0][1])
    return _join(reached, commands, callbacks, required="invoke_without_command" not in settings)


def _find_decorated(module: Module, attribute: ast.AST | None) -> tuple[ast.Call, Function] | None:
    """`@app.command()` or `@app.callback()` as the only decorator of a function."""
    maker = module.parents.get(attribute) if attribute is not None else None
    function = module.parents.get(maker) if maker is not None else None
    if not isinstance(attribute, ast.Attribute) or attribute.attr not in ("command", "callback"):
        return None
    if not isinstance(maker, ast.Call) or not isinstance(function, ast.FunctionDef):
        return None
    return (maker, function) if function.decorator_list == [maker] else None


def _join(
    reached: Reached, commands: list[tuple[str | None, Place]], callbacks: list[Place], *, required: bool
) -> Interface:
    """Several commands, or one beside a callback."""
    interface = Interface(kind="click", abbreviates=False)
    if callbacks:
        interface = _read_typer_function(reached, callbacks[0])
    by_word = {name: _read_typer_function(reached, place) for name, place in commands if name is not None}
    interface.commands = by_word if len(by_word) == len(commands) else {}
    interface.needs_command = required and not callbacks
    return interface


def _means(module: Module, node: ast.Name, home: Module, name: str) -> bool:
    imported = node.id if module is home else module.names.get(node.id, "")
    return imported.rpartition(".")[2] == name


def _name_of_command(maker: ast.Call, function: Function) -> str | None:
    written = find_passed(maker, 0, "name")
    name = function.name.lower().replace("_", "-") if written is None else constant_value(written)
    return name if isinstance(name, str) else None


def _read_typer_function(reached: Reached, place: Place) -> Interface:
    module, function = place
    interface = Interface(kind="click", abbreviates=False)
    assert isinstance(function, FUNCTIONS)
    interface.closed = function.args.vararg is None and function.args.kwarg is None
    for parameter, default in list_parameters(function):
        annotation = read_annotation(reached, module, parameter.annotation)
        kind = module.name_of(parameter.annotation) if parameter.annotation is not None else ""
        if kind.rpartition(".")[2] != "Context":
            _add_parameter(reached, interface, module, parameter, default, annotation=annotation)
    interface.options.append(Option(_SHELL, "help", module, function, 0, 0))
    return interface


def _add_parameter(
    code: Definitions,
    interface: Interface,
    module: Module,
    parameter: ast.arg,
    default: ast.expr | None,
    *,
    annotation: Annotation,
) -> None:
    made = next((extra for extra in annotation.extras if _is_made(module, extra)), None)
    is_annotated = made is not None
    if default is not None and _is_made(module, default):
        made = default
    call = made if isinstance(made, ast.Call) else ast.Call(ast.Name("", ast.Load()), [], [])
    words = list(call.args)
    if made is not None and not is_annotated:  # the first word is the default
        default = words.pop(0) if words else keyword_argument(call, "default")
    required = default is None or constant_value(default) is Ellipsis
    is_option = module.name_of(call.func).endswith("Option") if made is not None else not required
    keywords = {one.arg: one.value for one in call.keywords if one.arg}
    texts = [text for text in (evaluate(code, module, word) for word in words) if isinstance(text, str)]
    interface.closed &= len(texts) == len(words) and not any(one.arg is None for one in call.keywords)
    option = Option((), parameter.arg, module, parameter)
    if not set(_OTHER_TYPES) & keywords.keys():
        annotation.describe(option)
    elsewhere = bool(set(_ELSEWHERE) & keywords.keys())
    if not is_option:
        option.most = None if annotation.many else 1
        option.optional_words = not required or elsewhere
        interface.positionals.append(option)
        return
    option.flags = _spell(parameter.arg, texts, boolean=annotation.boolean)
    option.required = required and not elsewhere
    if annotation.boolean or "count" in keywords:
        option.least = option.most = 0
    elif annotation.kind is None and not {"Tuple", "tuple"}.isdisjoint(find_mentions(parameter.annotation)):
        option.least, option.most = 0, None
    bounds = [evaluate(code, module, keywords.get(end)) for end in ("min", "max")]
    if "clamp" not in keywords and all(isinstance(bound, int | float | None) for bound in bounds):
        option.bounds = bounds[0], bounds[1]  # type: ignore[assignment]
    interface.options.append(option)


def _is_made(module: Module, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and module.name_of(node.func).rpartition(".")[2] in _MADE


def _spell(name: str, words: list[str], *, boolean: bool) -> tuple[str, ...]:
    """The flags of a parameter: those in the script, else its name with hyphens."""
    if any(word[:1] == "-" or "/" in word for word in words):
        return tuple(part.strip() for word in words for part in word.split("/") if part.strip())
    plain = name.lower().replace("_", "-").strip("-")
    return (f"--{plain}", f"--no-{plain}") if boolean else (f"--{plain}",)


def read_fire(reached: Reached) -> Interface | None:
    """The interface of the only `fire.Fire(…)`; None if there is not exactly one."""
    calls = [call for call in reached.called("fire.Fire") if reached.runs(*call)]
    if len(calls) != 1 or not reached.surely_runs(*calls[0]):
        return None
    module, call = calls[0]
    if keyword_argument(call, "command") is not None or len(call.args) > 1:
        return None
    component = find_passed(call, 0, "component")
    return _read_module(module) if component is None else _read_component(reached, module, component)


def _read_component(reached: Reached, module: Module, node: ast.expr) -> Interface | None:
    if isinstance(node, ast.Dict):
        commands: dict[str, Interface] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            name = constant_value(key)
            if not isinstance(name, str):
                return None
            commands[name] = _read_component(reached, module, value) or Interface(closed=False)
        return Interface(kind="fire", abbreviates=False, commands=commands)
    class_ = find_class_named(reached, module, node)
    if class_ is not None:
        return _read_class(*class_)
    functions = reached.find(module, node) if isinstance(node, ast.Name) else []
    return _read_fire_function(*functions[0]) if len(functions) == 1 else None


def _read_module(module: Module) -> Interface | None:
    """`fire.Fire()`: everything that the module binds is a command."""
    names = list_bound_names(module)
    if names is None:
        return None
    commands = {name: Interface(closed=False) for name in names}
    for statement in module.tree.body:
        if isinstance(statement, FUNCTIONS):
            commands[statement.name] = _read_fire_function(module, statement)
        elif isinstance(statement, ast.ClassDef):
            commands[statement.name] = _read_class(module, statement)
    return Interface(kind="fire", abbreviates=False, commands=commands)


def _read_class(module: Module, node: ast.ClassDef) -> Interface:
    """The arguments of the constructor, and the methods as commands; the methods of a base are unknown."""
    methods = {statement.name: statement for statement in node.body if isinstance(statement, FUNCTIONS)}
    if node.bases or node.keywords or node.decorator_list:
        return Interface(kind="fire", closed=False)
    made = methods.get("__init__")
    interface = Interface(kind="fire", abbreviates=False)
    if made is not None:
        interface = _read_fire_function(module, made, skip=1)
        interface.by_position = False  # a class takes no words without a flag
    names = {last_name(inner) for inner in ast.walk(node) if isinstance(inner, ast.Attribute | ast.Name)}
    commands = {name: Interface(closed=False) for name in names}
    for name, method in methods.items():
        decorators = {module.name_of(decorator) for decorator in method.decorator_list}
        if decorators <= _PLAIN_METHODS:
            commands[name] = _read_fire_function(module, method, skip="staticmethod" not in decorators)
        else:
            commands[name] = Interface(closed=False)
    interface.commands = commands
    return interface


def _read_fire_function(module: Module, function: Function, skip: int = 0) -> Interface:
    interface = Interface(kind="fire", abbreviates=False, by_position=True)
    wraps = not {module.name_of(decorator) for decorator in function.decorator_list} <= _PLAIN_METHODS
    interface.closed = function.args.kwarg is None and not wraps
    for argument, default in list_parameters(function)[skip:]:
        flags = {f"--{name}": None for name in (argument.arg, argument.arg.replace("_", "-"))}
        flags |= {f"--no{argument.arg}": None, f"-{argument.arg[0]}": None}
        option = Option(tuple(flags), argument.arg, module, argument, 0, 1)
        option.required = default is None and not wraps
        interface.options.append(option)
    return interface
