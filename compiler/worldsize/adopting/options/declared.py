"""The options that a script declares: with argparse, click, typer, fire, or dataclasses of Hugging Face."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Literal

from msgspec import Struct, structs

from worldsize.adopting.model import Flag, find_role
from worldsize.scripts.bindings import list_parameters
from worldsize.scripts.definitions import define_alone, find_class_named
from worldsize.scripts.interface.argparse import read_option
from worldsize.scripts.interface.click import read_parameter
from worldsize.scripts.interface.model import Interface
from worldsize.scripts.module import Module, constant_value, keyword_argument, list_packages
from worldsize.scripts.values import evaluate

Library = Literal["argparse", "click", "typer", "fire", "dataclass"]
_TRAINING_ROLES = ("batch_size", "learning_rate", "epochs")
_TYPES = {"int": "int", "float": "float"}
_NONE = ast.Constant(None)
_TRAINING_ARGUMENTS: tuple[tuple[str, Any, float], ...] = (  # of Hugging Face
    ("per_device_train_batch_size", "int", 8),
    ("learning_rate", "float", 5e-5),
    ("num_train_epochs", "float", 3.0),
    ("gradient_accumulation_steps", "int", 1),
    ("seed", "int", 42),
)


class Declared(Struct, eq=False):
    """An option with what the script reads it by, and where it is declared."""

    flag: Flag
    name: str
    node: ast.AST


class Options(Struct, eq=False):
    """The options of a script, and the library that reads them; None where it reads none."""

    library: Library | None
    declared: list[Declared]
    subcommand: str | None = None  # the one that trains
    parser: str | None = None  # what declares its options
    unread: ast.Call | None = None  # that declares options of which nothing is known

    def named(self, name: str) -> Declared | None:
        """The option that is read by a name."""
        return next((option for option in self.declared if option.name == name), None)


def read_options(module: Module) -> Options:
    """The options of a script, by whichever library it uses."""
    options: Options = module.once(_read)
    return options


def _read(module: Module) -> Options:
    if module.called("HfArgumentParser"):
        return Options("dataclass", list(_read_dataclasses(module)))
    if module.called("argparse.ArgumentParser", "ArgumentParser"):
        return _read_argparse(module)
    if "click" in list_packages(module):
        return Options("click", list(_read_click(module)))
    starts: tuple[tuple[Library, str], ...] = (("typer", "typer.run"), ("fire", "fire.Fire"))
    functions = {function.name: function for function in reversed(module.kinds.get(ast.FunctionDef, ()))}
    for library, name in starts:
        for call in module.called(name):
            function = functions.get(getattr(next(iter(call.args), None), "id", ""))
            if function is not None:
                return Options(library, list(_read_parameters(module, function, library)))
    return _read_typer(module) if "typer" in list_packages(module) else Options(None, [])


def _read_typer(module: Module) -> Options:
    """The options of the command of an app; of several commands that which has most of a training."""
    commands: list[tuple[ast.FunctionDef, list[Declared]]] = [
        (function, list(_read_parameters(module, function, "typer")))
        for function in module.kinds.get(ast.FunctionDef, ())
        if any(_makes_command(decorator) for decorator in function.decorator_list)
    ]
    if not commands:
        return Options(None, [])
    function, declared = max(
        commands, key=lambda command: sum(one.flag.role in _TRAINING_ROLES for one in command[1])
    )
    if len(commands) == 1:
        return Options("typer", declared)
    for option in declared:
        option.flag = structs.replace(option.flag, inner=True)
    return Options("typer", declared, function.name.replace("_", "-"))


def _makes_command(decorator: ast.expr) -> bool:
    """Whether this is ``@app.command()``."""
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(func, ast.Attribute) and func.attr == "command"


def _read_argparse(module: Module) -> Options:
    """The options of the parser, and of the subcommand that trains; those of other subcommands are not."""
    declared = list(_read_added(module))
    commands: dict[str, str] = {}
    for call in module.called("add_parser"):
        above, name = module.parents.get(call), constant_value(call.args[0]) if call.args else None
        if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name) and isinstance(name, str):
            commands[above.targets[0].id] = name
    owners = {id(option): _find_owner(option, commands) for option in declared}
    counts = {
        name: sum(owners[id(option)] == name and option.flag.role in _TRAINING_ROLES for option in declared)
        for name in commands
    }
    best = max(counts, key=lambda name: counts[name], default=None)
    if best is None:
        read = {option.node for option in declared}
        unread = next((call for call in module.called("add_argument") if call not in read), None)
        return Options("argparse", declared, unread=unread)
    for entry in declared:
        entry.flag = structs.replace(entry.flag, inner=owners[id(entry)] == best)
    kept = [option for option in declared if owners[id(option)] in (None, best)]
    return Options("argparse", kept, commands[best], best)


def _find_owner(declared: Declared, commands: dict[str, str]) -> str | None:
    """The variable of the subcommand that declares an option; None for the parser itself."""
    func = getattr(declared.node, "func", None)
    name = getattr(getattr(func, "value", None), "id", None)
    return name if name in commands else None


def _read_added(module: Module) -> Iterator[Declared]:
    """The options that `add_argument` declares."""
    for call in module.called("add_argument"):
        interface = Interface()
        read_option(define_alone(module), interface, module, call, sure=True)
        yield from _describe(module, interface, call)
        for option, field in () if interface.closed else list_looped(module, call):
            kind = keyword_argument(call, "type")
            is_plain = getattr(kind, "id", "") in ("int", "float", "str")
            written_default = keyword_argument(call, "default")  # that of the field, unless it is written out
            is_written = written_default is None or isinstance(written_default, ast.Constant)
            default = _evaluate_default(module, written_default if is_written else field.default)
            name = option.lstrip("-").replace("-", "_")
            flag = _make_flag(
                option, name, kind if is_plain else field.annotation, default,
                required=constant_value(keyword_argument(call, "required")) is True,
            )  # fmt: skip
            yield Declared(flag, name, call)


def _read_click(module: Module) -> Iterator[Declared]:
    """The options and arguments of decorators, in their order."""
    for call in module.called("click.option", "option", "click.argument", "argument"):
        interface = Interface()
        is_option = module.name_of(call.func).endswith("option")
        read_parameter(define_alone(module), interface, module, call, is_option=is_option)
        yield from _describe(module, interface, call)


def _describe(module: Module, interface: Interface, call: ast.Call) -> Iterator[Declared]:
    """The options of a call as adopting sees them."""
    default = _evaluate_default(module, keyword_argument(call, "default"))
    for option in (*interface.options, *interface.positionals):
        required = option.required if option.flags else not option.optional_words
        flag = _make_flag(
            option.label, option.name, keyword_argument(call, "type"), default,
            required=required, aliases=option.flags, words=option.most,
        )  # fmt: skip
        yield Declared(flag, option.name, call)


def _is_path(module: Module, node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and module.name_of(node.func) in ("pathlib.Path", "pathlib.PurePath")


def _evaluate_default(module: Module, node: ast.AST | None) -> object:
    """What a default is known to be; of ``Path("data")`` and ``Path("data") / "train"`` the text."""
    if isinstance(node, ast.Call) and _is_path(module, node):
        parts = [evaluate(define_alone(module), module, argument) for argument in node.args]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts = [_evaluate_default(module, node.left), _evaluate_default(module, node.right)]
    else:
        return evaluate(define_alone(module), module, node)
    texts = [part for part in parts if isinstance(part, str)]
    if parts and len(texts) == len(parts):
        return PurePosixPath(*texts).as_posix()
    return evaluate(define_alone(module), module, node)


def _make_flag(
    option: str,
    name: str,
    kind: ast.AST | None,
    default: object,
    *,
    required: bool,
    aliases: tuple[str, ...] = (),
    words: int | None = 1,
) -> Flag:
    type_name = getattr(kind, "id", None)
    guessed = type(default).__name__ if type(default) in (int, float) else "str"
    type_: Any = _TYPES.get(str(type_name), guessed)
    value = default if isinstance(default, int | float | str) else None
    return Flag(
        option, find_role(name), type_, value,
        added=False, required=required, aliases=aliases, words=words,
    )  # fmt: skip


def _read_parameters(
    module: Module, function: ast.FunctionDef, library: Library = "fire"
) -> Iterator[Declared]:
    for parameter, value in list_parameters(function):
        is_option = isinstance(value, ast.Call) and value.args and not _is_path(module, value)
        inner = value.args[0] if isinstance(value, ast.Call) and is_option else value
        default = _evaluate_default(module, inner)
        hyphens = parameter.arg.replace("_", "-")
        option = _find_spelling(parameter, value) or f"--{hyphens}"
        if library == "typer" and _is_positional(parameter, value):
            option = parameter.arg
        is_switch = library == "typer" and ast.unparse(parameter.annotation or _NONE).startswith("bool")
        flag = _make_flag(
            option, parameter.arg, parameter.annotation, default,
            required=value is None, aliases=(f"--{hyphens}", f"--{parameter.arg}", f"--no-{hyphens}"),
            words=0 if is_switch else 1,
        )  # fmt: skip
        flag = structs.replace(flag, by_position=library == "fire")
        yield Declared(flag, parameter.arg, parameter)


def _is_positional(parameter: ast.arg, default: ast.expr | None) -> bool:
    """Whether typer takes a parameter without a flag: it has no default, or is a `typer.Argument`."""
    parts = [part for part in (parameter.annotation, default) if part is not None]
    names = {getattr(node, "attr", getattr(node, "id", "")) for part in parts for node in ast.walk(part)}
    return "Argument" in names or (default is None and "Option" not in names)


def _find_spelling(parameter: ast.arg, default: ast.expr | None) -> str | None:
    """``--lr`` of ``typer.Option(0.1, "--lr")``, also in the annotation."""
    calls = [node for part in (parameter.annotation, default) if part is not None for node in ast.walk(part)]
    words = (constant_value(word) for call in calls if isinstance(call, ast.Call) for word in call.args)
    return next((word for word in words if isinstance(word, str) and word.startswith("--")), None)


def _read_dataclasses(module: Module) -> Iterator[Declared]:
    names = {node.id for call in module.called("HfArgumentParser") for node in ast.walk(call)
             if isinstance(node, ast.Name)}  # fmt: skip
    for name in sorted(names):
        if module.names.get(name, "").endswith("TrainingArguments"):
            for option, kind, usual in _TRAINING_ARGUMENTS:
                value: Any = int(usual) if kind == "int" else usual
                flag = Flag(f"--{option}", find_role(option) or "epochs", kind, value, added=False)
                yield Declared(flag, option, module.tree)
            yield Declared(
                Flag("--output_dir", "output", "str", None, added=False), "output_dir", module.tree
            )
    for node in module.kinds.get(ast.ClassDef, ()):
        for field in list_fields(module, node) if node.name in names else ():
            default = _evaluate_default(module, field.default)
            flag = _make_flag(
                f"--{field.name}", field.name, field.annotation, default, required=field.required
            )
            yield Declared(flag, field.name, field.node)


_OF_CLASS = ("fields", "get_type_hints", "asdict", "vars")
_MAPPINGS = ("__dataclass_fields__", "__annotations__", "__dict__")


class Field(Struct, frozen=True):
    """A field of a dataclass, with its default as it is written."""

    name: str
    annotation: ast.expr
    default: ast.expr | None
    required: bool
    node: ast.AST


def list_fields(module: Module, class_: ast.ClassDef) -> Iterator[Field]:
    """The fields of a class, those of its base classes first."""
    for base in class_.bases:
        above = find_class_named(define_alone(module), module, base)
        if above is not None and above[1] is not class_:
            yield from list_fields(*above)
    for statement in class_.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            default = statement.value
            if isinstance(default, ast.Call) and not default.args:  # `field(default=64)`
                default = keyword_argument(default, "default")
            yield Field(
                statement.target.id, statement.annotation, default, statement.value is None, statement
            )


def list_looped(module: Module, call: ast.Call) -> Iterator[tuple[str, Field]]:
    """The options that an `add_argument` declares in a loop over the fields of a dataclass."""
    for above, _ in module.ancestors(call):
        if isinstance(above, ast.FunctionDef):
            return
        class_ = _find_class(module, above.iter) if isinstance(above, ast.For) else None
        if class_ is None or not isinstance(above, ast.For):
            continue
        target = above.target.elts[0] if isinstance(above.target, ast.Tuple) else above.target
        for field in list_fields(module, class_):
            names = dict.fromkeys((ast.unparse(target), f"{ast.unparse(target)}.name"), field.name)
            words = (evaluate(define_alone(module), module, argument, names) for argument in call.args)
            option = next((word for word in words if isinstance(word, str) and word[:2] == "--"), None)
            if option is not None:
                yield option, field
        return


def _find_class(module: Module, iterable: ast.expr) -> ast.ClassDef | None:
    """The class whose fields ``fields(Settings)`` or ``Settings.__dataclass_fields__.items()`` gives."""
    node: ast.expr = iterable
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("items", "values", "keys"):
        assert isinstance(node.func, ast.Attribute)
        node = node.func.value
    if isinstance(node, ast.Attribute) and node.attr in _MAPPINGS:
        node = node.value
    elif (
        isinstance(node, ast.Call) and node.args and module.name_of(node.func).rpartition(".")[2] in _OF_CLASS
    ):
        node = node.args[0]
    else:
        return None
    node = node.func if isinstance(node, ast.Call) else node  # `Settings()`
    place = find_class_named(define_alone(module), module, node)
    return place[1] if place is not None else None
