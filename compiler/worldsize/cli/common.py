"""What several commands share: numbers and times in tables, options, refusals."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from worldsize.documents.diagnostics.diagnostic import Diagnostic
    from worldsize.documents.diagnostics.snippet import Sources
    from worldsize.documents.errors import SpecError
    from worldsize.documents.yaml import Document


def format_time(time: datetime | None) -> str:
    """A time of day on this machine's clock."""
    return "" if time is None else f"{time.astimezone():%Y-%m-%d %H:%M:%S}"


def format_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int]
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
    from worldsize.base.shown_text import mark_controls

    click.echo(mark_controls(text), err=err, nl=nl)


def say_sentences(text: str, *, err: bool = False) -> None:
    """Print sentences; on a terminal they are broken between words."""
    from worldsize.documents.diagnostics.text import wrap_for

    say(wrap_for(sys.stderr if err else sys.stdout, text), err=err)


def refuse(message: str, help_: str | None = None) -> NoReturn:
    """Print an error and exit with status 1."""
    say_sentences(f"error: {message}" + (f"\n  = help: {help_}" if help_ else ""), err=True)
    raise SystemExit(1)


def show_findings(diagnostics: Sequence[Diagnostic], sources: Sources) -> None:
    """Print the findings of a spec to standard error; its secrets are masked already.

    Notes are left to ``worldsize check``, which hides them too unless it is asked for them.
    """
    from worldsize.documents.diagnostics.text import render_text, wants_colour

    if any(".worldsize" in each.span.path for each in diagnostics):
        from worldsize.dsl.places import point_into_python  # few are of a pipeline in Python

        diagnostics, sources = point_into_python(diagnostics, sources)
    shown = [each for each in diagnostics if each.is_shown_by_default]
    files = {each.span.path for each in shown}
    if shown:
        text = render_text(shown, sources, files=len(files), colour=wants_colour(sys.stderr))
        click.echo(text, nl=False, color=True, err=True)


def refuse_spec(error: SpecError) -> NoReturn:
    """Print why a spec cannot be used, and exit with status 1, or 3 if the fault is in worldsize."""
    show_findings(error.diagnostics, error.sources)
    is_internal = any(diagnostic.code == "WS000" for diagnostic in error.diagnostics)
    raise SystemExit(3 if is_internal else 1)


def write_python_pipeline(target: str) -> str:
    """The path of a target on the command line; the pipeline of `file.py:function` is written first.

    Exits if it cannot be loaded or written.
    """
    return write_python_files(target)[0]


def write_python_files(target: str) -> list[str]:
    """The same, and the spec that such a pipeline was planned as."""
    if ".py" not in target:  # as nearly all targets
        return [target]
    from worldsize.dsl.verbs import list_files

    with exit_on_python_error():
        return list(map(str, list_files(target)))


@contextlib.contextmanager
def exit_on_python_error() -> Iterator[None]:
    """Turn what is wrong with a pipeline in Python into a message and an exit status."""
    from worldsize.documents.errors import OutputError, PipelineError, SpecError

    try:
        yield
    except SpecError as error:
        refuse_spec(error)
    except (OutputError, PipelineError) as error:
        refuse(str(error), error.help)


class _FilePath(click.Path):
    """The path of a file that exists."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)


class PipelinePath(_FilePath):
    """The path of a file that exists, or `file.py:function`, whose pipeline is written as a file."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path; click exits if there is no such file."""
        target = write_python_pipeline(os.fspath(value))
        return super().convert(suggest_reference(target), param, ctx)


class FunctionOrFile(_FilePath):
    """The path of a file that exists, or `file.py:function` as it is."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path; exits if there is no such file."""
        if ".py" in os.fspath(value):
            from worldsize.dsl.load import is_reference

            if is_reference(os.fspath(value)):
                return Path(value)
            write_python_pipeline(os.fspath(value))
        return super().convert(suggest_reference(os.fspath(value)), param, ctx)


def is_function(path: Path) -> bool:
    """Whether what :class:`FunctionOrFile` gave names a function."""
    if ".py" not in path.name:  # as nearly all
        return False
    from worldsize.dsl.load import is_reference

    return is_reference(str(path))


class SpecPath(_FilePath):
    """The path of a file that exists; `file.py:function` is refused with what to do instead."""

    def __init__(self, kind: str = "a spec") -> None:
        super().__init__()
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

    with exit_on_python_error():
        api.require_path(path, command, kind)


def suggest_reference(path: str) -> str:
    """The path as it is; exits if it is none, but may stand for `file.py:function`."""
    if not os.path.lexists(path) and (":" in path or "." in path):
        from worldsize.dsl.load import name_reference

        reference = name_reference(path)
        if reference is not None:
            refuse(f"there is no file `{path}`", f"for a pipeline in Python write `{reference}`")
    return path


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


def override_spec(spec: Path, settings: Sequence[str]) -> Document | None:
    """The spec with other values, None without settings; exits if a setting names no input."""
    if not settings:
        return None
    from worldsize.documents import yaml
    from worldsize.rules import engine
    from worldsize.running.prepare import overrides

    document, problems = overrides.override_spec(yaml.load(spec), parse_settings(settings))
    if problems:
        show_findings(list(engine.diagnose(problems)), {})
        raise SystemExit(1)
    return document


json_option = click.option("--json", "as_json", is_flag=True, help="As JSON.")

report_option = click.option("--no-report", is_flag=True, help="Do not write the run's page, report.html.")

runs_dir = click.option(
    "--runs-dir",
    "home",
    type=click.Path(file_okay=False, path_type=Path),
    default=".worldsize",
    show_default=True,
    help="Where runs are kept.",
)


def find_run(home: Path, text: str) -> Path:
    """The folder of the run that the user names, by its id or its path; exits if there is no such run."""
    from worldsize.running.record import history

    try:
        folder = Path(text).resolve() if "/" in text and Path(text).is_dir() else history.find_run(home, text)
    except LookupError as error:
        known = any(history.list_runs(home))
        here = "`worldsize run` makes one, and `--runs-dir` names the folder of others"
        refuse(str(error.args[0]), "`worldsize runs` lists them" if known else here)
    if not any((folder / name).exists() for name in (history.RECORD, "events.jsonl", "steps")):
        refuse(f"`{folder}` is not the folder of a run", "`worldsize runs` lists them")
    return folder
