"""Finds the component behind each step, and what planning has to know of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
from worldsize.scripts.loops import count_loader_workers
from worldsize.spec.model import Located, Spec, Step

Components = dict[str, Component | None]

_LAUNCHERS: Mapping[str, Launcher] = {"pytorch": "pytorch", "mpi": "mpi", "tensorflow": "tensorflow"}


def find_components(spec: Spec, files: Files) -> tuple[Components, list[Problem]]:
    """The component of every step; None where it lives in a workspace or registry or cannot be read.

    Relative paths start at the spec's folder. The problems of reading are returned too.
    """
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
        loader_workers=count_loader_workers(_read_script(component, files), OPTION),
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


def _read_script(component: Component, files: Files) -> str:
    """The script of a command; empty if it is not one file that can be read."""
    command, code = component.command, component.code
    if command is None or code is None or component.folder is None:
        return ""
    if not isinstance(command.value, str) or not isinstance(code.value, str):
        return ""
    folder = local_path(code.value, component.folder)
    words = [word.text for parsed in parse_commands(command.value) for word in parsed.words]
    scripts = [word for word in words if re.fullmatch(r"[\w./-]{1,200}\.py", word)]
    path = folder / scripts[0] if folder is not None and len(scripts) == 1 else None
    if path is None or not is_file(path) or not files.readable(path):
        return ""
    try:
        return untrusted.read_text(path, LARGEST)
    except OSError:
        return ""
