"""Programs in a command that start processes themselves, such as `torchrun`, and how many they start."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from worldsize.azureml import binding
from worldsize.azureml.command_line import Command, Word, parse_commands

MPI = frozenset({"mpirun", "mpiexec", "horovodrun", "orterun"})
TORCH = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
_PROGRAMS = frozenset({*MPI, "torchrun", "deepspeed"})
_MODULES = {
    "torch.distributed.run": "torch.distributed.run",
    "torch.distributed.launch": "torch.distributed.launch",
    "accelerate.commands.launch": "accelerate launch",
    "deepspeed.launcher.runner": "deepspeed",
}
_INCLUDE = re.compile(r"[\w.-]+:(\d+(?:,\d+)*)")
PER_INSTANCE = ("nproc_per_node", "num_gpus")
IN_ALL = ("num_processes", "np", "n", "num_workers")  # of accelerate, of mpirun and of Ray
RAY = "Ray"
NODES = ("nnodes", "num_machines", "num_nodes")


class LauncherCall(NamedTuple):
    """One such program as a command calls it."""

    name: str
    word: Word
    options: Mapping[str, tuple[Word, Word | None]]  # its own, by name without dashes: flag and value
    clear: bool  # no other options come from a variable

    def find_value(self, names: tuple[str, ...]) -> tuple[str, Word] | None:
        """The first of these options that has a value."""
        for name in names:
            value = self.options.get(name, (None, None))[1]
            if value is not None:
                return name, value
        return None


def find_launcher_call(text: str) -> LauncherCall | None:
    """The launcher that a command line calls; None if it calls none or several.

    MPI's launchers are not among them: Azure ML calls ``mpirun`` itself.
    """
    calls = [call for call in list_launcher_calls(text) if call.name not in MPI]
    return calls[0] if len(calls) == 1 else None


class InnerLauncher(NamedTuple):
    """A launcher with its counts, None where unknown, and the words that state them, else its own."""

    name: str
    word: Word
    options: Mapping[str, tuple[Word, Word | None]]
    clear: bool
    starts: int | None  # processes on an instance
    starts_word: Word
    nodes: int | None
    nodes_word: Word
    highest: int | None = None  # the greatest number of a GPU that `--include` of DeepSpeed names

    @property
    def starts_by_default(self) -> bool:
        """Whether the command does not state how many processes start."""
        return self.starts_word is self.word


def list_launcher_calls(text: str) -> Iterator[LauncherCall]:
    """The launchers that a command line starts, in order; a script that starts Ray's workers is one."""
    for command in parse_commands(text):
        call = read_launcher_call(command) or _read_worker_call(command)
        if call is not None:
            yield call


def read_launcher_call(command: Command) -> LauncherCall | None:
    """The launcher that a command starts; None for another program."""
    named = _find_launcher(command)
    if named is None:
        return None
    options, clear = _read_options(command, named[1])
    return LauncherCall(*named, options, clear)


def _read_worker_call(command: Command) -> LauncherCall | None:
    """A script that gets the world size as its number of workers, as with Ray Train.

    The workers of a data loader have the same name, but nobody gives them the world size.
    """
    words = command.arguments
    named = next((word for word in words if word.bare.endswith(".py")), None)
    if named is None or not words[0].bare.rpartition("/")[2].startswith("python"):
        return None
    for flag in command.flags():
        expression = binding.parse_expression(flag.value.bare) if flag.value is not None else None
        if flag.name == "num_workers" and expression is not None and expression.port == "world_size":
            return LauncherCall(RAY, named, {flag.name: (flag.word, flag.value)}, clear=False)
    return None


def count_processes(
    call: LauncherCall,
    read_number: Callable[[str], float | None],
    *,
    devices: int | None,
    instances: int | None,
) -> InnerLauncher:
    """A launcher with the processes that it starts on an instance, and its nodes.

    Args:
        call: The launcher.
        read_number: Reads the number of a word, which may be a binding expression.
        devices: The GPUs of an instance; None where the VM size is unknown.
        instances: The instances of the step, over which MPI spreads its processes.
    """

    def count(names: tuple[str, ...]) -> tuple[int | None, Word | None]:
        option = call.find_value(names)
        if option is None:
            return None, None
        text = option[1].bare
        if text in ("gpu", "auto"):
            return devices or None, option[1]
        number = read_number(text)
        return int(number) if number is not None and number >= 1 else None, option[1]

    nodes, nodes_word = count(NODES)
    starts, starts_word = count(PER_INSTANCE)
    if starts_word is None and call.name not in TORCH:
        starts, starts_word = count(IN_ALL)
        share = instances if call.name in (*MPI, RAY) else nodes or (None if nodes_word else 1)
        starts = starts // share if starts is not None and share and starts % share == 0 else None
    if call.name in TORCH and call.clear:  # their default is one
        nodes, starts = nodes if nodes_word else 1, starts if starts_word else 1
    included = _read_include(call)
    if included is not None:
        numbers, word = included
        return InnerLauncher(*call, len(numbers), word, nodes, nodes_word or call.word, max(numbers))
    return InnerLauncher(*call, starts, starts_word or call.word, nodes, nodes_word or call.word)


def _read_include(call: LauncherCall) -> tuple[list[int], Word] | None:
    """`--include localhost:0,1` of DeepSpeed: so many processes, on these GPUs."""
    value = call.options.get("include", (None, None))[1]
    match = _INCLUDE.fullmatch(value.bare) if value is not None else None
    if call.name != "deepspeed" or match is None or value is None:
        return None
    return [int(number) for number in match[1].split(",")], value


def _find_launcher(command: Command) -> tuple[str, Word] | None:
    words = command.arguments
    if not words:
        return None
    program = words[0].bare.rpartition("/")[2]
    if program in _PROGRAMS:
        return program, words[0]
    second = words[1].text if len(words) > 1 else ""
    if program == "accelerate" and second == "launch":
        return "accelerate launch", words[0]
    if program.startswith("python") and second == "-m" and len(words) > 2 and words[2].text in _MODULES:
        return _MODULES[words[2].text], words[2]
    return None


def _read_options(command: Command, word: Word) -> tuple[dict[str, tuple[Word, Word | None]], bool]:
    """The options before what the launcher starts, and whether those are all."""
    words = list(command.arguments[command.arguments.index(word) + 1 :])
    options: dict[str, tuple[Word, Word | None]] = {}
    value: Word | None = None
    clear = True
    for argument, after in zip_longest(words, words[1:]):
        if (
            argument.bare.endswith(".py")
            or argument.bare.startswith("python")
            or argument.text in ("-m", "--module")
        ):
            break
        if argument.text.startswith("-"):
            name, equals, text = argument.text.partition("=")
            value = (
                Word(text, argument.start + len(name) + 1, argument.end, argument.source) if equals else after
            )
            options.setdefault(name.lstrip("-").replace("-", "_"), (argument, value))
        elif argument is not value and "$" in argument.text:
            clear = False
    return options, clear
