"""Variables in commands that the shell does not replace, or that nothing sets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from worldsize.azureml.command_launchers import read_launcher_call
from worldsize.azureml.launch import Launch, find_inner_launchers
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Fix
from worldsize.facts.library_calls import find_setter

_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_OF_WINDOWS = re.compile(r"%([A-Za-z_]\w*)%")
# What differs between jobs or nodes, so that no image can set it, by the variable that has it.
_PLACES = {
    "MASTER_ADDR": ("master_addr", "rdzv_endpoint", "main_process_ip"),
    "MASTER_PORT": ("master_port", "main_process_port"),
    "NODE_RANK": ("node_rank", "machine_rank"),
}


def check_variable_not_replaced(context: Tree, launch: Launch) -> Iterator[Finding]:
    for command in launch.commands:
        program = command.program
        is_python = program is not None and program.bare.rpartition("/")[2].startswith("python")
        if not is_python and read_launcher_call(command) is None:
            continue
        for before, word in pairwise(command.arguments):
            option, equals, value = word.text.partition("=")
            text = value if equals and option.startswith("-") else word.text
            is_quoted = text[:1] == text[-1:] == "'" and before.text != "-c"
            match = (_VARIABLE.search(text) if is_quoted else None) or _OF_WINDOWS.search(text)
            span = launch.span(word)
            if match is None or span is None or not _is_set(launch, match[1]):
                continue
            if match[0].startswith("%"):
                message = f"`{match[0]}` is a variable of Windows, but Azure ML runs commands with bash"
                written = word.text.replace(match[0], f"${match[1]}")
            else:
                message = f"single quotes keep the shell from replacing `{match[0]}`"
                written = word.text.replace(text, '"' + text.strip("'") + '"')
            whole = launch.step.component.command if launch.step.component is not None else None
            style = getattr(whole.node, "style", "") if whole is not None else ""
            fix = Fix(span, written, safe=False) if style != '"' or '"' not in written else None
            yield Finding(span, message, f"write `{written}`", fix=fix)


def check_variable_unset(context: Tree, launch: Launch) -> Iterator[Finding]:
    for inner in find_inner_launchers(launch):
        for variable, names in _PLACES.items():
            for value in (inner.options[name][1] for name in names if name in inner.options):
                match = _VARIABLE.match(value.bare) if value is not None else None
                span = launch.span(value) if value is not None else None
                if value is None or match is None or span is None or _is_known(launch, match[1]):
                    continue
                message = f"neither Azure ML nor the job sets `{match[0]}`"
                yield Finding(span, message, f"write `{value.bare.replace(match[0], f'${variable}')}`")


def _is_set(launch: Launch, name: str) -> bool:
    """Whether a launcher, the job or its command sets a variable."""
    return bool(find_setter(name)) or any(variable.name == name for variable in launch.list_variables())


def _is_known(launch: Launch, name: str) -> bool:
    """The same, or the command names it elsewhere, as in `read NAME`."""
    named = sum(name in word.text for command in launch.commands for word in command.words)
    return _is_set(launch, name) or named > 1
