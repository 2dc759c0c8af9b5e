"""What several commands share: numbers and times in tables, options, refusals."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from msgspec import to_builtins

from worldsize.base.problem import HelpfulError
from worldsize.base.shown_text import mark_controls
from worldsize.base.wording import show_digits
from worldsize.documents.diagnostics.text import render_text, wants_colour, wrap_for
from worldsize.documents.errors import SpecError
from worldsize.dsl import load, verbs

if TYPE_CHECKING:
    from worldsize.documents.diagnostics.diagnostic import Diagnostic
    from worldsize.documents.diagnostics.snippet import Sources
    from worldsize.planning.estimates.model import Interval


def format_time(time: datetime | None) -> str:
    """A time of day on this machine's clock."""
    return "" if time is None else f"{time.astimezone():%Y-%m-%d %H:%M:%S}"


def show_interval(interval: Interval, unit: str = "", divisor: float = 1.0) -> str:
    """``1,230 USD (1,100 to 1,380)``: the expected value and its bounds, divided."""
    bounds = (interval.low / divisor, interval.expected / divisor, interval.high / divisor)
    low, expected, high = map(show_digits, bounds)
    return f"{expected}{f' {unit}' if unit else ''} ({low} to {high})"


def show_seconds(seconds: Interval, units: Iterable[tuple[float, float, str]]) -> str:
    """In the first of the units, each with its limit, that suits the expected value."""
    divisor, unit = next((divisor, unit) for limit, divisor, unit in units if seconds.expected < limit)
    return show_interval(seconds, unit, divisor)


def show_share(share: float, decimals: int = 0) -> str:
    """``93 %``."""
    return f"{share:.{decimals}%}".replace("%", " %")


def format_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int]
) -> Iterator[str]:
    """Columns two blanks apart; those with an index in ``right`` are aligned to the right."""
    everything = [headings, *rows]
    widths = [max(len(row[index]) for row in everything) for index in range(len(headings))]
    for row in everything:
        cells = [
            text.rjust(width) if index in right else text.ljust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text that others may have written, without characters that control a terminal."""
    click.echo(mark_controls(text), err=err, nl=nl)


def say_table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int]) -> None:
    """Print a table, as :func:`format_table` lays it out."""
    say("\n".join(format_table(headings, rows, right)))


def describe(value: object, *names: str) -> dict[str, Any]:
    """Attributes of a value, as plain data for JSON."""
    return {name: to_builtins(getattr(value, name)) for name in names}


def say_sentences(text: str, *, err: bool = False) -> None:
    """Print sentences; on a terminal they are broken between words."""
    say(wrap_for(sys.stderr if err else sys.stdout, text), err=err)


def refuse(message: str, help_: str | None = None) -> NoReturn:
    """Print an error and exit with status 1."""
    say_sentences(f"error: {message}" + (f"\n  = help: {help_}" if help_ else ""), err=True)
    raise SystemExit(1)


def show_findings(diagnostics: Sequence[Diagnostic], sources: Sources) -> None:
    """Print the findings of a spec to standard error; its secrets are masked already.

    Notes are left to ``worldsize check``, which hides them too by default.
    """
    if any(".worldsize" in finding.span.path for finding in diagnostics):
        from worldsize.checking import python_places  # few are of a pipeline in Python

        diagnostics, sources = python_places.point_into_python(diagnostics, sources)
    shown = [finding for finding in diagnostics if finding.is_shown_by_default]
    if shown:
        text = render_text(shown, sources, colour=wants_colour(sys.stderr))
        click.echo(text, nl=False, color=True, err=True)


def refuse_spec(error: SpecError) -> NoReturn:
    """Print why a spec cannot be used, and exit with status 1, or 3 if the fault is in worldsize."""
    show_findings(error.diagnostics, error.sources)
    is_internal = any(diagnostic.code == "WS000" for diagnostic in error.diagnostics)
    raise SystemExit(3 if is_internal else 1)


def write_python_files(target: str) -> list[str]:
    """The path of a target on the command line; `file.py:function` is written as a pipeline first.

    The spec that such a pipeline was planned as follows. Exits if it cannot be loaded or written.
    """
    if ".py" not in target:  # as nearly all targets
        return [target]
    with exit_on_error():
        return list(map(str, verbs.list_files(target)))


@contextlib.contextmanager
def exit_on_error() -> Iterator[None]:
    """Turn an error that says what to do into a message and an exit status."""
    try:
        yield
    except SpecError as error:
        refuse_spec(error)
    except HelpfulError as error:
        refuse(str(error), error.help)


class FilePath(click.Path):
    """The path of a file that exists; of `file.py:function` the pipeline is written as one, or it is kept."""

    def __init__(self, *, keep_functions: bool = False) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)
        self.keep_functions = keep_functions

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path; exits if there is no such file."""
        path = os.fspath(value)
        if self.keep_functions and load.is_reference(path):
            return Path(path)
        return super().convert(suggest_reference(write_python_files(path)[0]), param, ctx)


class SpecPath(click.Path):
    """The path of a file that exists; `file.py:function` is refused with what to do instead."""

    def __init__(self, kind: str) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)
        self.kind = kind

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path; exits if there is no such file."""
        require_path(os.fspath(value), f"worldsize {ctx.info_name}", self.kind)
        return super().convert(value, param, ctx)


def require_path(path: str, command: str, kind: str, *, script: bool = False) -> None:
    """Exit if a function in a Python file is given where a file is meant, or the file where no script is."""
    if ".py" not in path or (script and path.endswith(".py")):
        return
    from worldsize import api

    with exit_on_error():
        api.require_path(path, command, kind)


def suggest_reference(path: str) -> str:
    """The path as it is; exits if it is not one, but may stand for `file.py:function`."""
    if not os.path.lexists(path) and (":" in path or "." in path):
        reference = load.name_reference(path)
        if reference is not None:
            refuse(f"there is no file `{path}`", f"for a pipeline in Python write `{reference}`")
    return path


def add_options(function: Callable[..., Any], *options: Callable[..., Any]) -> Callable[..., Any]:
    """A command with more options; its help lists them in this order."""
    return functools.reduce(lambda command, option: option(command), reversed(options), function)


_AGE = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def parse_age(text: str) -> float | None:
    """The seconds of an age such as ``30d``; None for another text."""
    matched = _AGE.fullmatch(text.strip().lower())
    return None if matched is None else float(int(matched[1]) * _UNITS[matched[2]])


set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another value for `inputs.NAME` of the pipeline or for `STEP.NAME`; repeatable.",
)


def parse_settings(texts: Sequence[str]) -> dict[str, str]:
    """Parse ``--set NAME=VALUE`` options into values by name."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name):
            raise click.BadParameter(f"`{text}` has no `=` between name and value", param_hint="'--set'")
        values[name] = value
    return values


json_option = click.option("--json", "as_json", is_flag=True, help="As JSON.")
