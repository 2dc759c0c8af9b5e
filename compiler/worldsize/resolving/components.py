"""Finds the component behind each step, and what planning has to know of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from worldsize.azureml import component as reader
from worldsize.azureml.command_line import parse_commands
from worldsize.azureml.fields import read_distribution, read_member
from worldsize.azureml.files import Files
from worldsize.azureml.model import Component
from worldsize.azureml.references import closest_path, is_file, local_path, names_built_in
from worldsize.base import limits, resources, untrusted
from worldsize.base.problem import Problem
from worldsize.base.resources import built_in_files
from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import shorten
from worldsize.planning.model import Interface, Launcher
from worldsize.planning.shared_memory import OPTION
from worldsize.resolving import own_command
from worldsize.scripts.module import parse_text
from worldsize.spec.model import Located, Spec, Step

Components = dict[str, Component | None]

_LAUNCHERS: Mapping[str, Launcher] = {"pytorch": "pytorch", "mpi": "mpi", "tensorflow": "tensorflow"}


def find_components(spec: Spec, files: Files | None = None) -> tuple[Components, list[Problem]]:
    """The component of every step; None where it lives in a workspace or registry or cannot be read.

    Relative paths start at the spec's folder. The problems of reading are returned too.
    """
    files = files or Files()
    before = len(files.problems)
    components = {name: _component(step, spec.path.parent, files) for name, step in spec.steps.items()}
    return components, files.problems[before:]


def read_interfaces(components: Mapping[str, Component | None], files: Files) -> dict[str, Interface]:
    """What planning needs to know of each step's component, where it can be seen."""
    interfaces = {
        component: _interface(component, files)
        for component in dict.fromkeys(components.values())
        if component is not None
    }
    return {step: interfaces[component] for step, component in components.items() if component is not None}


def _interface(component: Component, files: Files) -> Interface:
    block = read_distribution(component.distribution)
    instances = read_member(component.resources, "instance_count")
    shared = read_member(component.resources, "shm_size")
    return Interface(
        inputs={
            name: port.default.value if port.default else None for name, port in component.inputs.items()
        },
        launcher=_LAUNCHERS.get(block.kind or "", "none") if block else "none",
        instance_count=instances.value if instances and isinstance(instances.value, int) else None,
        shm_size=shared.value if shared and isinstance(shared.value, str) else None,
        choices={
            name: tuple(port.enum.value)
            for name, port in component.inputs.items()
            if port.enum is not None and isinstance(port.enum.value, list)
        },
        outputs=frozenset(component.outputs),
        loader_workers=read_loader_workers(component, files),
    )


def find_with_input(name: str, word: str | None = None) -> list[str]:
    """The built-in components that have an input, and ``word`` among its enumerated values.

    For the help of a mistake: the files are searched as text, which is quicker than reading them.
    """
    declared = re.compile(rf"^  {re.escape(name)}:\n((?:    .*\n)*)", re.MULTILINE)
    components = []
    for built_in in resources.component_names():
        text = resources.component_file(built_in).read_text(encoding="utf-8")
        block = declared.search(text.partition("\noutputs:")[0])
        words = re.search(r"enum: \[([^\[\]\n]*)\]", block[1]) if block is not None else None
        if block is not None and (word is None or (words and word in words[1].split(", "))):
            components.append(built_in)
    return components


def _component(step: Step, folder: Path, files: Files) -> Component | None:
    limits.check_time()
    if step.uses is None:
        return own_command.build_component(step, folder) if step.command else None
    uses = step.uses.value
    if names_built_in(uses):
        file = built_in_files().get(uses)
        if file is None:
            files.problems.append(_unknown(step.uses, folder))
            return None
        return reader.load_component(file, files)
    path = local_path(uses, folder)
    if path is None:
        return None
    if is_file(path) and files.readable(path):
        return reader.load_component(path, files)
    refused = reader.report_outside(uses, step.uses.span) if is_file(path) else _missing(step.uses, path)
    files.problems.append(refused)
    return None


def _unknown(uses: Located[str], folder: Path) -> Problem:
    message = f"there is no built-in component `{uses.value}`"
    for beside in (f"{uses.value}.yml", f"{uses.value}/component.yml"):
        if is_file(folder / beside):
            return Problem("unknown-component", uses.span, message, f"for the file here write `./{beside}`")
    return Problem(
        "unknown-component", uses.span, message, did_you_mean(uses.value, resources.component_names())
    )


def _missing(uses: Located[str], path: Path) -> Problem:
    message = f"component file `{shorten(uses.value)}` does not exist"
    if (fault := untrusted.find_fault(path)) is not None:
        message = f"component file `{shorten(uses.value)}` cannot be read: {fault}"
        return Problem("component-missing", uses.span, message, "write the path of its YAML file")
    near = closest_path(uses.value, path, uses.span.path)
    help_ = f"did you mean `{shorten(near)}`?" if near else "the path is relative to the spec"
    return Problem("component-missing", uses.span, message, help_)


LARGEST = 1024 * 1024  # bytes of a script that is read
MOST = 256  # workers of a process
_LOADER = "DataLoader"
_DECLARES = ("add_argument", "option", "Option")  # of argparse, click and typer


def read_loader_workers(component: Component, files: Files) -> int | None:
    """The number that the script of a command starts by default; None if it cannot be known from it alone."""
    text = _read_script(component, files)
    if text is None or _LOADER not in text:
        return None

    try:
        calls = [node for node in ast.walk(parse_text(text)) if isinstance(node, ast.Call)]
    except SyntaxError:  # reported with the script
        return None
    options = list(_find_defaults(calls))
    counts = options or list(_find_literals(calls))
    distinct = {count for count in counts if count is not None}
    return distinct.pop() if len(distinct) == 1 and None not in counts else None


def _read_script(component: Component, files: Files) -> str | None:
    command, code = component.command, component.code
    if command is None or code is None or component.folder is None:
        return None
    if not isinstance(command.value, str) or not isinstance(code.value, str):
        return None
    folder = local_path(code.value, component.folder)
    words = [word.text for parsed in parse_commands(command.value) for word in parsed.words]
    scripts = [word for word in words if re.fullmatch(r"[\w./-]{1,200}\.py", word)]
    path = folder / scripts[0] if folder is not None and len(scripts) == 1 else None
    if path is None or not is_file(path) or not files.readable(path):
        return None
    try:
        return untrusted.read_text(path, LARGEST)
    except OSError:
        return None


def _find_defaults(calls: list[ast.Call]) -> Iterator[int | None]:
    """The defaults of the options that say how many workers there are; None for one that is no number."""
    for call in calls:
        names = [str(argument.value) for argument in call.args if isinstance(argument, ast.Constant)]
        if _name(call) in _DECLARES and any(map(OPTION.fullmatch, names)):
            yield _read_number(call, "default")


def _find_literals(calls: list[ast.Call]) -> Iterator[int | None]:
    """What loaders are given; one that is given nothing has no workers."""
    for call in calls:
        if _name(call) == _LOADER:
            has_more = any(keyword.arg is None for keyword in call.keywords)  # `**options`
            is_set = any(keyword.arg == "num_workers" for keyword in call.keywords)
            yield _read_number(call, "num_workers") if is_set else None if has_more else 0


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def _read_number(call: ast.Call, name: str) -> int | None:
    value = next((getattr(word.value, "value", None) for word in call.keywords if word.arg == name), None)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None
