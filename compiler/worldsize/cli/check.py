"""`worldsize check`: diagnostics for files and folders, in six formats."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from worldsize.base import limits, untrusted
from worldsize.base.wording import plural
from worldsize.checking import Report, exclusion, fixing, python_places
from worldsize.checking.baseline import read_baseline, start_record, write_baseline
from worldsize.checking.checker import check_files, write_output
from worldsize.checking.selection import Choice
from worldsize.cli import common
from worldsize.cli.explain import complete_rules
from worldsize.documents.diagnostics import text

FORMATS = ("text", "concise", "json", "sarif", "github", "junit")
STDIN = "-"
MOST_SCRIPTS, LARGEST_SCRIPT = 20, 64 * 1024  # of a folder, and bytes, that are searched for a pipeline

EPILOG = """\b
Examples:
  worldsize check                                  every spec and Azure ML file below
  worldsize check spec.yml --ignore WS4            without the learning-rate family
  worldsize check --fix --diff                     show what the safe fixes would change
  worldsize check --format sarif > report.sarif    for code scanning
  worldsize check --baseline known.json --write-baseline    record what is found today
  worldsize check --baseline known.json            report only what is new
  worldsize check - --stdin-filename jobs/a.yml    check what an editor holds
  worldsize check pipelines/digits.py:digits       a pipeline in Python: runs the file's code

\b
Exit status: 0 clean, 1 findings, 2 usage, 3 an internal error of worldsize.
Suppress a finding on one line with a comment: # worldsize: ignore[WS203] reason
"""


def _require_existing(
    _ctx: click.Context, _param: click.Parameter, paths: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse paths that do not exist; a broken link exists, and is reported as an unreadable file."""
    if STDIN in paths and len(paths) > 1:
        raise click.BadParameter("`-`, which is standard input, takes no other path beside it.")
    paths = tuple(file for path in paths for file in common.write_python_files(path))
    for path in map(common.suggest_reference, paths):
        if path != STDIN and not os.path.lexists(path):
            raise click.BadParameter(f"Path '{path}' does not exist.")
    return paths or (".",)


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, type=click.Path(), callback=_require_existing, metavar="[PATH]...")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True, help="Output."
)
@click.option("--json", "as_json", is_flag=True, help="The same as `--format json`.")
@click.option(
    "--select",
    multiple=True,
    metavar="CODE",
    shell_complete=complete_rules,
    help="Report only these codes, WS2 for a whole family.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="CODE",
    shell_complete=complete_rules,
    help="Do not report these codes.",
)
@click.option(
    "--min-severity",
    type=click.Choice(("info", "warning", "error")),
    help="Report nothing less severe. By default, no format lists notes (info).",
)
@click.option(
    "--min-confidence",
    type=click.Choice(("possible", "likely", "certain")),
    default="possible",
    show_default=True,
    help="Report nothing less certain.",
)
@click.option(
    "--exclude", multiple=True, metavar="GLOB", help="Leave out what matches, as a line of .gitignore does."
)
@click.option("--baseline", metavar="FILE", help="Report only what this file does not list.")
@click.option("--write-baseline", is_flag=True, help="Write all findings into that file, and report none.")
@click.option("--fix", is_flag=True, help="Apply the safe fixes, in place.")
@click.option("--unsafe-fixes", is_flag=True, help="Apply those too that may change what you mean.")
@click.option("--diff", is_flag=True, help="Show what would be fixed, and change nothing.")
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead of listing them.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something is found.")
@click.option(
    "--stdin-filename",
    type=click.Path(dir_okay=False),
    metavar="PATH",
    help="The file that standard input (-) stands for; its paths are relative to it. Without it they are"
    " relative to this folder, and no file is reported as missing.",
)
def command(paths: tuple[str, ...], **options: Any) -> None:
    """Check specs and Azure ML YAML: files, folders, or `-` for standard input. The default is `.`."""
    if options.pop("as_json"):
        if options["format_"] not in ("text", "json"):
            raise click.UsageError(f"give `--json` or `--format {options['format_']}`, not both")
        options["format_"] = "json"
    _refuse_combinations(paths, options)
    try:
        status = _check(paths, options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    raise SystemExit(0 if options["exit_zero"] and status == 1 else status)


def _refuse_combinations(paths: tuple[str, ...], options: dict[str, Any]) -> None:
    """Refuse options that contradict each other or would have no effect."""
    fixes = [name for name in ("fix", "unsafe_fixes", "diff") if options[name]]
    if options["write_baseline"] and options["baseline"] is None:
        raise click.UsageError("`--write-baseline` needs the file: add `--baseline FILE`")
    if options["write_baseline"] and fixes:
        option = f"--{fixes[0].replace('_', '-')}"
        raise click.UsageError(f"`--write-baseline` records faults and fixes none: remove `{option}`")
    if options["statistics"] and not _is_for_people(options):
        raise click.UsageError(
            f"`--statistics` is a table, which `--format {options['format_']}` cannot hold"
        )
    if options["stdin_filename"] is not None and paths != (STDIN,):
        raise click.UsageError("`--stdin-filename` is for standard input: give `-` as the path")


def _is_for_people(options: dict[str, Any]) -> bool:
    """Whether the format is text, and not a document for a program."""
    return options["format_"] in ("text", "concise")


def _check(paths: tuple[str, ...], options: dict[str, Any]) -> int:
    """Check, fix or record; the exit status."""
    choice = _read_choice(options)
    texts = None
    if paths == (STDIN,):
        paths = (options["stdin_filename"] or STDIN,)
        texts = {paths[0]: sys.stdin.buffer.read(limits.SIZE + 1)}
    if options["fix"] or options["unsafe_fixes"] or options["diff"]:
        return _fix(paths, choice, options, texts)
    if options["write_baseline"]:
        return _write_baseline(paths, choice, options["baseline"], texts)
    report = check_files(paths, choice, texts=texts)[0]
    if any(".worldsize" in path for path in paths):
        report = python_places.point_report_into_python(report)
    write_output(_render(report, options))
    if report.unchecked and (options["statistics"] or not _is_for_people(options)):
        common.say_sentences(f"note: no file was checked: {report.unchecked}", err=True)
    if _is_for_people(options):
        _note_python(paths)
    return report.exit_code


def _note_python(paths: tuple[str, ...]) -> None:
    """Say that a pipeline in Python in a checked folder was not read, as that would run its code."""
    if any(".worldsize" in path for path in paths):  # one of them was named, and written there
        return
    for folder in filter(os.path.isdir, paths):
        scripts = sorted(Path(folder).glob("*.py"))[:MOST_SCRIPTS]
        script = next(filter(_defines_pipeline, scripts), None)
        if script is not None:
            message = f"`{script}` defines pipelines in Python, which are not read from a folder"
            common.say_sentences(f"note: {message}: `worldsize check {script}:FUNCTION`", err=True)
            return


def _defines_pipeline(path: Path) -> bool:
    try:
        with untrusted.open_file(path) as file:
            head = file.read(LARGEST_SCRIPT)
    except OSError:
        return False
    return b"azure.ai.ml" in head and (b"\n@dsl.pipeline" in head or b"\n@pipeline" in head)


def _read_choice(options: dict[str, Any]) -> Choice:
    baseline = None
    if options["baseline"] is not None:
        baseline = (start_record if options["write_baseline"] else read_baseline)(options["baseline"])
    wrong = [glob for glob in options["exclude"] if not exclusion.is_glob(glob)]
    if wrong:
        raise ValueError(f"`{wrong[0]}` is not a pattern that `--exclude` can match with a path")
    return Choice(
        _split_codes(options["select"]),
        _split_codes(options["ignore"]),
        options["min_severity"],
        options["min_confidence"],
        options["exclude"],
        baseline,
    )


def _write_baseline(
    paths: tuple[str, ...], choice: Choice, baseline: str, texts: dict[str, bytes] | None
) -> int:
    """Record what is found; only a fault of worldsize itself is reported."""
    report = check_files(paths, choice, texts=texts)[0]
    assert choice.baseline is not None
    count = write_baseline(baseline, choice.baseline)
    click.echo(f"recorded {plural(count, 'finding')} in {baseline}", err=True)
    return 3 if report.exit_code == 3 else 0


def _fix(
    paths: tuple[str, ...], choice: Choice, options: dict[str, Any], texts: dict[str, bytes] | None
) -> int:
    """Fix the files and report the remaining findings, or only show the changes."""
    write = not options["diff"]
    result = fixing.fix(
        paths, choice, unsafe=options["unsafe_fixes"], write=write and texts is None, texts=texts
    )
    if write and texts is not None:  # the fixed text takes the place of the report
        fixed = {change.path: change.after for change in result.changes}
        sys.stdout.buffer.write(fixed.get(paths[0], texts[paths[0]]))
        sys.stdout.flush()
        click.echo(_render(result.report, options, sys.stderr), err=True, nl=False)
        return result.report.exit_code
    if write:
        is_listed = _is_for_people(options) and not options["statistics"]
        listed = "".join(f"{line}\n" for line in result.applied) if is_listed else ""
        write_output(listed + _render(result.report, options))
        return result.report.exit_code
    write_output("".join(fixing.unified_diff(change) for change in result.changes))
    click.echo(f"would fix {result.report.fixed} in {plural(len(result.changes), 'file')}", err=True)
    return int(bool(result.changes))


def _render(report: Report, options: dict[str, Any], stream: Any = None) -> str:
    """The report in the format that was asked for."""
    if options["statistics"]:
        return text.render_statistics(
            report.diagnostics, files=len(report.files), fixed=report.fixed, known=report.known
        )
    return report.render(options["format_"], colour=text.wants_colour(stream or sys.stdout))


def _split_codes(options: tuple[str, ...]) -> list[str]:
    """``--select WS2 --select WS301,WS302`` as one list."""
    return [word for option in options for word in option.replace(",", " ").split()]
