"""Outputs and inputs that a command does not pass to its script, or that the script never uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml import binding
from worldsize.azureml.command_line import HARMLESS, Command
from worldsize.azureml.fields import read_command
from worldsize.azureml.launch import Launch
from worldsize.azureml.model import Binding, Component, Port
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Problem
from worldsize.base.source import Source
from worldsize.documents.yaml.nodes import find_node
from worldsize.scripts.interface.model import Option
from worldsize.scripts.interface.read import read_interface
from worldsize.scripts.module import Module
from worldsize.scripts.program import Program
from worldsize.scripts.words import Argument, read_arguments

_BY_VARIABLE = (
    "AZURE_ML_OUTPUT", "AZURE_ML_INPUT", "AZUREML_DATAREFERENCE", "os.environ.items", "dict(os.environ",
)  # fmt: skip
_IMPLICIT = "default"  # the output of every job


def check_program(context: Tree, program: Program) -> Iterator[Problem]:
    launch, component = program.launch, program.launch.step.component
    if component is None or context.once(_list_working, launch) != [program.command] or not program.complete:
        return
    if program.says(*_BY_VARIABLE) or program.imports("azureml", "azure"):
        return
    script = program.path.name
    if _names_others(component):
        return  # a misspelt name is reported where it stands
    for name, port in component.outputs.items():
        if port.span is None or name == _IMPLICIT or _has_path(launch, name):
            continue
        if _is_named(context, launch, "outputs", name):
            continue
        message = f"the output `{name}` stays empty: the command does not tell `{script}` where it is"
        help_ = f"pass `${{{{outputs.{name}}}}}` to the script, and write the output there"
        yield Problem("output-not-passed", port.span, message, help_, program.related)
    for name, port in component.inputs.items():
        if port.span is None or not _is_set(launch, name, port) or _is_named(context, launch, "inputs", name):
            continue
        message = f"the input `{name}` has no effect: the command does not pass it to `{script}`"
        help_ = f"pass `${{{{inputs.{name}}}}}` to the script, or remove the input"
        yield Problem("input-not-passed", port.span, message, help_, program.related)


def _list_working(_context: Tree, launch: Launch) -> list[Command]:
    """The commands of a step that start a program."""
    return [
        command
        for command in launch.commands
        if command.arguments and command.arguments[0].bare not in HARMLESS
    ]


def _names_others(component: Component) -> bool:
    """Whether the command names a port that is not declared."""
    ports = {"inputs": component.inputs, "outputs": component.outputs}
    return any(
        expression.scope in ports and expression.port not in ports[expression.scope]
        for expression in binding.find_expressions(read_command(component))
    )


def _is_named(context: Tree, launch: Launch, scope: str, name: str) -> bool:
    """Whether `${{outputs.name}}` occurs in the file of the step or of its component."""
    component, step = launch.step.component, launch.step
    command = component.command.node if component is not None and component.command is not None else None
    nodes = [component.raw if component is not None else None, command, step.raw, launch.job.raw]
    sources = {id(node.source): node.source for node in nodes if node is not None}
    return not sources or any(
        (scope, name) in context.once(_list_named, source) for source in sources.values()
    )


def _list_named(_context: Tree, source: Source) -> set[tuple[str, str | None]]:
    return {(expression.scope, expression.port) for expression in binding.find_expressions(source.text)}


def _has_path(launch: Launch, name: str) -> bool:
    """Whether the output has a path of its own, which the script may know."""
    setting = launch.step.outputs.get(name)
    if setting is not None and setting.value.path is not None:
        return True
    component = launch.step.component
    raw = component.raw if component is not None else None
    return find_node(raw, "outputs", name, "path") is not None


def _is_set(launch: Launch, name: str, port: Port) -> bool:
    """Whether the input has a value; one from another step may serve only the order of the steps."""
    argument = launch.step.inputs.get(name)
    if argument is None:
        return port.default is not None and not port.is_data
    bound = isinstance(argument.value, Binding) and "jobs" in argument.value.expression.scope
    return not bound


_WHOLE = ("vars", "__dict__", "asdict", "_get_kwargs", "AZURE_ML_OUTPUT", "getattr")  # all arguments at once
_SHOWS = ("print", "makedirs", "mkdir", "info", "debug", "warning", "exists", "isdir")

_WRAPS = ("Path", "str", "format", "join", "abspath")
_PASSES = (ast.JoinedStr, ast.FormattedValue, ast.keyword, ast.Attribute, ast.BinOp, ast.Tuple)


def check_output_never_written(context: Tree, program: Program) -> Iterator[Finding]:
    interface = read_interface(program)
    if interface is None or interface.commands is not None or not program.complete or program.says(*_WHOLE):
        return
    for option, argument in _find_outputs(interface.options, read_arguments(program, program.launch)):
        expression = binding.find_expressions(argument.written)[0]
        if argument.place is None or any(
            _uses(module, option, by_parameter=interface.kind != "argparse") for module in program.modules
        ):
            continue
        script = program.path.name
        message = f"the output `{expression.port}` stays empty: `{script}` never writes to `{option.label}`"
        help_ = f"write the files below `args.{option.name}`"
        yield Finding(argument.place, message, help_, related=option.related)


def _find_outputs(options: list[Option], arguments: list[Argument]) -> Iterator[tuple[Option, Argument]]:
    """The options that are given a path of an output."""
    flag = ""
    for argument in arguments:
        name, equals, _ = argument.written.partition("=")
        if argument.is_flag:
            flag = name
        scopes = {expression.scope for expression in binding.find_expressions(argument.written)}
        if scopes == {"outputs"} and (equals or not argument.is_flag):
            for option in options:
                if flag in option.flags and option.most == 1:
                    yield option, argument
        flag = flag if argument.is_flag else ""


def _uses(module: Module, option: Option, *, by_parameter: bool) -> bool:
    """Whether a file does more with an argument than print it or create its folder.

    With click, typer and fire it is a parameter of a function.
    """
    declared = set(ast.walk(option.node))
    if any(
        constant.value == option.name and constant not in declared
        for constant in module.kinds.get(ast.Constant, ())
    ):
        return True  # by its name in a text
    if by_parameter and not module.once(_only_shows_name, option.name, 3):
        return True
    reads = [attribute for attribute in module.kinds.get(ast.Attribute, ()) if attribute.attr == option.name]
    return any(not _only_shows(module, node, 3) for node in reads)


def _only_shows(module: Module, node: ast.AST, depth: int) -> bool:
    """Whether a value is only printed, or its folder created, also under another name."""
    for above, child in module.ancestors(node):
        if isinstance(above, ast.Call) and child is not above.func:
            name = module.name_of(above.func).rpartition(".")[2]
            if name not in _WRAPS:
                return name in _SHOWS
        elif isinstance(above, ast.Call):  # of a method of it
            name = child.attr if isinstance(child, ast.Attribute) else ""
            if name not in _WRAPS:
                return name in _SHOWS
        elif isinstance(above, ast.Assign):
            names = tuple(target.id for target in above.targets if isinstance(target, ast.Name))
            plain = len(names) == len(above.targets) and depth > 0
            return plain and all(module.once(_only_shows_name, name, depth - 1) for name in names)
        elif not isinstance(above, _PASSES):
            return isinstance(above, ast.Expr)
    return False


def _only_shows_name(module: Module, name: str, depth: int) -> bool:
    loads = [use for use in module.kinds.get(ast.Name, ()) if use.id == name]
    return all(_only_shows(module, use, depth) for use in loads if isinstance(use.ctx, ast.Load))
