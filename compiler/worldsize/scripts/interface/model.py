"""The command-line interface of a script: the arguments that it takes, as far as its text shows."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from msgspec import Struct, field

from worldsize.base.problem import Related
from worldsize.scripts.module import Module


class Option(Struct, eq=False):
    """One argument that a script declares. What is unknown about it never counts against a command."""

    flags: tuple[str, ...]  # `--lr`, `-l`; empty for a positional argument
    name: str  # what the script reads it by
    module: Module
    node: ast.AST
    least: int = 1  # words that follow the flag
    most: int | None = 1  # None where there is no limit
    kind: type[int | float] | None = None  # where the words must be such numbers
    choices: tuple[object, ...] | None = None
    required: bool = False
    optional_words: bool = False  # a positional argument that may be left out
    bounds: tuple[float | None, float | None] = (None, None)  # the least and the greatest number

    @property
    def label(self) -> str:
        """The name that a message quotes: the first long flag."""
        return next((flag for flag in self.flags if flag.startswith("--")), (*self.flags, self.name)[0])

    @property
    def related(self) -> tuple[Related, ...]:
        """Where the script declares it."""
        return (Related(self.module.span(self.node), "declared here"),)


class Interface(Struct, eq=False):
    """All arguments of a script. ``closed``: it takes no others."""

    options: list[Option] = field(default_factory=list)
    positionals: list[Option] = field(default_factory=list)
    closed: bool = True
    ignores_others: bool = False  # arguments that are not declared are no error
    abbreviates: bool = True  # `--learn` may mean `--learning-rate`
    commands: Mapping[str, Interface] | None = None  # by the word that chooses one; follow the positionals
    needs_command: bool = False  # such a word must be there
    kind: str = "argparse"  # or `click`, also for typer, or `fire`: whose rules hold for the words
    by_position: bool = False  # words without a flag fill the options in their order, as in fire
    certain: bool = True  # no class of a library declares some, which differ from version to version
    reads_files: bool = False  # one word may be a file with all arguments
    exclusive: list[tuple[bool, list[Option]]] = field(default_factory=list)  # whether one is required
