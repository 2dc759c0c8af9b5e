"""`worldsize adopt`: makes a script for one GPU a distributed one, and proves it."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from worldsize import api, checking
from worldsize.adopting.adopt import adopt_script
from worldsize.adopting.model import AdoptError
from worldsize.adopting.options.arguments import add_data, read_arguments
from worldsize.adopting.project.existing import place_project
from worldsize.adopting.project.files import Project, ProjectRequest, find_existing, make_project, write_files
from worldsize.adopting.project.missing_packages import add_packages, list_missing, list_unknown
from worldsize.adopting.project.spec import CONDA_FILE, Target, choose_size
from worldsize.adopting.proving import prove
from worldsize.adopting.proving.prove import Measured
from worldsize.base import untrusted
from worldsize.base.source import Source
from worldsize.base.wording import describe_os_error, quoted_list
from worldsize.cli import adopt_report, common, estimate_table
from worldsize.cli.adopt_data import choose_data_option, explain_missing, find_data
from worldsize.cli.adopt_report import name_own_files
from worldsize.documents.diagnostics.text import wants_colour
from worldsize.documents.errors import SpecError
from worldsize.facts import vm_sizes
from worldsize.facts.prices import PriceFileError
from worldsize.fixing.apply import replace_content
from worldsize.resolving.workloads import explain_unknown_size

if TYPE_CHECKING:
    from worldsize.adopting.model import Adoption
    from worldsize.adopting.proving.prove import Proof
    from worldsize.checking import CheckedSpec, Report

EPILOG = """\b
Examples:
  worldsize adopt train.py                       the diff, the proof and the plan; nothing is written
  worldsize adopt train.py --data data -o job    with its data; the adopted copy and its spec go to `job`
  worldsize adopt train.py --write               edit the script, and write its spec beside it
  worldsize adopt train.py --arguments '--epochs 3 --model small'

\b
The proof runs copies of the script here, with this Python: the original in one process, the adopted one
in two, with half of the batch each. Both read the same samples in the same order, so the loss of each step
must agree.

\b
Exit status: 0 adopted, and the curves agree or differ for a known cause; 1 the script is refused, the
curves differ, or the spec has errors: nothing is written; 2 usage; 3 an internal error of worldsize.
"""


class Options(Struct, frozen=True):
    """What the command line asks for."""

    data: Path | None
    output: Path | None
    writes: bool
    proves: bool
    steps: int
    seconds: float
    as_json: bool
    arguments: tuple[str, ...]


@click.command(epilog=EPILOG)
@click.argument("script", type=click.Path(path_type=Path))
@click.option(
    "--data", type=click.Path(exists=True, path_type=Path), help="The file or folder that the script reads."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the adopted copy, its environment and its spec into this folder, which is new or empty.",
)
@click.option("--write", "writes", is_flag=True, help="Edit the script in place, if the proof succeeds.")
@click.option("--instance-type", metavar="SIZE", help="The VM size of the job.")
@click.option("--instance-count", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--arguments", default="", metavar="TEXT", help="Other options of the script, as in a shell.")
@click.option("--no-run", "proves", flag_value=False, default=True, help="Skip the proof: run nothing.")
@click.option("--steps", type=click.IntRange(min=1), default=50, show_default=True, help="Of the proof.")
@click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(min=1),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="For each of the two runs of the proof.",
)
@common.json_option
def command(
    script: Path, *, instance_type: str | None, instance_count: int, arguments: str, **chosen: Any
) -> None:
    """Adopt a training script for one GPU: show the diff, prove the loss curve, write and plan the spec."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    common.require_path(str(script), "worldsize adopt", "a training script", script=True)

    options = Options(arguments=_split(arguments), **chosen)
    size = find_size(instance_type) if instance_type else choose_size(instance_count)
    target = Target(size, instance_count)
    try:
        _adopt(script, target, options, default_size=instance_type is None)
    except OSError as error:
        if error.filename is None:
            raise
        common.refuse(f"`{error.filename}`: {describe_os_error(error)}")


def _split(arguments: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(arguments))
    except ValueError as error:
        raise click.BadParameter(
            f"{str(error).lower()} in `{arguments}`", param_hint="'--arguments'"
        ) from None


def find_size(name: str) -> str:
    """The VM size as the catalogue writes it."""
    size = vm_sizes.lookup(name)
    if size is None:
        message, help_ = explain_unknown_size(name)
        raise click.BadParameter(f"{message}: {help_}", param_hint="'--instance-type'")
    return size.name


def adopt_or_refuse(script: Path, arguments: Sequence[str] = ()) -> Adoption:
    """Adopt a script; exits with the reason why it cannot be adopted."""
    try:
        return adopt_script(script, arguments)
    except AdoptError as error:
        common.say(adopt_report.render_refusal(error, colour=wants_colour(sys.stderr)), err=True, nl=False)
        raise SystemExit(1) from None


def _adopt(script: Path, target: Any, options: Options, *, default_size: bool) -> None:
    adoption = adopt_or_refuse(script, options.arguments)
    if options.data is not None:
        profile = choose_data_option(adoption.profile, options.arguments)
        adoption = replace(adoption, profile=profile)
        options = replace(options, arguments=add_data(profile, options.arguments, options.data))
    data = options.data or find_data(adoption.profile, script, options.arguments)
    request = ProjectRequest(adoption, script, target, data and data.absolute(), options.arguments)
    _check_places(request, options, None if default_size else target.instance_type)
    if not options.as_json:
        _show_diff(adoption)
        if options.data is not None and adoption.profile.flag("data") is None:
            common.say(f"`--data {options.data}` is not used: no option of `{script}` takes its data")
            common.say('  read its path from an option, such as `parser.add_argument("--data")`\n')
    proof = _prove(request, options)
    if proof is not None:
        request = replace(request, measured=proof.measured or Measured())
    with tempfile.TemporaryDirectory(prefix="worldsize-adopt-") as staging:
        report, checked, text = _stage(request, Path(staging), options)
        failed = bool(report.errors) or (proof is not None and not _holds(proof))
        written = [] if failed else _write(request, options)
        if options.as_json:
            document = _document(request, proof, report, checked, text)
            common.say(json.dumps(document | {"written": written}, indent=2, ensure_ascii=False))
        else:
            _show_outcome(request, report, checked, text, written, default_size=default_size)
    raise SystemExit(int(failed))


def _holds(proof: Proof) -> bool:
    return proof.comparison is not None and proof.comparison.verdict != "different"


def _check_places(request: ProjectRequest, options: Options, size: str | None) -> None:
    """Refuse to replace files before anything runs."""
    output = options.output
    if output is not None and output.is_dir() and any(output.iterdir()):
        common.refuse(f"`{output}` is not empty", "name a new folder")
    if output is not None:
        return
    project = place_project(request)
    if not options.writes:
        lacking = find_lacking(request, project)
        if lacking is not None and not options.as_json:
            common.say(lacking)
        return
    existing = find_existing(project.folder, project.files)
    done = request.adoption.text == request.adoption.source and len(existing) == len(project.files)
    if existing and done and not options.as_json:
        say_adopted(request, project, options, size)
        raise SystemExit(0)
    if existing:
        listed = ", ".join(f"`{project.folder / each}`" for each in existing)
        common.refuse(
            f"{listed} exist{'s' * (len(existing) == 1)} already, and adopt replaces nothing but the script",
            "move it away, or write the spec elsewhere with `-o DIR`",
        )


def _show_diff(adoption: Adoption) -> None:
    colour = wants_colour(sys.stdout)
    if adoption.text == adoption.source:
        common.say(f"`{adoption.profile.path}` is ready for several processes: nothing to change\n")
    else:
        click.echo(adopt_report.render_diff(adoption, colour=colour), color=True)
    if adoption.obstacles:
        source = Source(adoption.profile.path, adoption.source)
        click.echo(adopt_report.render_obstacles(adoption.obstacles, source, colour=colour), color=True)


def _prove(request: ProjectRequest, options: Options) -> Proof | None:
    """The proof, shown; None where it is skipped, which is said."""
    profile = request.adoption.profile
    reason = _why_skipped(request, options)
    if reason is not None:
        if not options.as_json:
            common.say(f"not proven: {reason}\n")
        return None
    framework = "tf_keras" if profile.framework == "keras" else "torch"
    extra = "tensorflow" if framework == "tf_keras" else "run"
    if importlib.util.find_spec(framework) is None:
        common.refuse(
            f"the proof needs {framework}", f"pip install 'worldsize[{extra}]', or skip it with `--no-run`"
        )
    proof = prove.prove(
        prove.Request(
            request.adoption,
            request.script,
            untrusted.read_bytes(request.script),
            options.arguments,
            request.data,
            options.steps,
            options.seconds,
        )
    )
    if not options.as_json:
        common.say(adopt_report.render_proof(proof))
    return proof


def _why_skipped(request: ProjectRequest, options: Options) -> str | None:
    missing = explain_missing(request.adoption.profile, request.data, options.arguments)
    if options.proves:
        return missing
    return "`--no-run`" if missing is None else f"`--no-run`; {missing}"


def _stage(request: ProjectRequest, folder: Path, options: Options) -> tuple[Report, CheckedSpec | None, str]:
    """Check and plan the project in a temporary folder; also the spec as `--write` writes it."""
    project = make_project(request, folder, beside=False)
    write_files(folder, project.files)
    report = name_own_files(checking.check([folder]), folder, request, options.output, writes=options.writes)
    try:
        checked = api.plan_spec(folder / project.spec)
    except SpecError:  # the report says why
        checked = None
    own = place_project(request)
    return report, checked, own.files[own.spec].decode()


def _write(request: ProjectRequest, options: Options) -> list[str]:
    """Write what was asked for; the names of the files."""
    if options.output is None and not options.writes:
        return []
    if options.output is None:
        project = place_project(request)
    else:
        project = make_project(request, options.output, beside=False)
    replaced = {}
    if options.writes:
        before = untrusted.read_bytes(request.script)
        after = request.adoption.text.encode(request.adoption.encoding)
        replaced = {request.script: (before, after)} if before != after else {}
    try:
        write_files(project.folder, project.files, replaced)
    except OSError as error:
        common.refuse(f"`{error.filename}` cannot be written: {describe_os_error(error)}")
    return [*map(str, replaced), *(str(project.folder / name) for name in project.files)]


def _show_outcome(
    request: ProjectRequest,
    report: Report,
    checked: CheckedSpec | None,
    text: str,
    written: Sequence[str],
    *,
    default_size: bool,
) -> None:
    if not written:
        common.say(text)
    if report.exit_code:
        click.echo(report.render(), nl=False)
    if checked is not None:
        common.say(str(checked.plan), nl=False)
        try:
            common.say("\n" + estimate_table.render_forecasts(api.forecast_steps(checked)), nl=False)
        except (SpecError, PriceFileError) as error:
            common.say(f"time and cost are not known: {error}")
    if default_size:
        common.say(
            f"\nVM size {request.target.instance_type} is the default: `--instance-type` chooses another"
        )
    for name in written:
        common.say(f"wrote {name}")
    for name in place_project(request).unknown:
        common.say(f"no package here has `{name}`, which the script needs: add it to `conda.yml`")
    if written:
        spec = next(name for name in written if name.endswith(".yml") and not name.endswith("conda.yml"))
        common.say(f"\ntry it here: worldsize run {shlex.quote(spec)}")
    elif report.errors:
        common.say("\nnothing is written: the spec has the errors above")
    else:
        common.say("\nnothing is written: `--write` edits the script, `-o DIR` writes a copy")


def _document(
    request: ProjectRequest, proof: Proof | None, report: Report, checked: CheckedSpec | None, text: str
) -> dict[str, Any]:
    """Everything for programs."""
    return {
        **adopt_report.describe_adoption(request.adoption),
        "proof": adopt_report.describe_proof(proof) if proof is not None else None,
        "spec": text,
        "findings": [
            {
                "code": each.code,
                "severity": each.severity,
                "path": each.span.path,
                "line": each.span.line,
                "column": each.span.column,
                "message": each.message,
                "help": each.help,
            }
            for each in report.diagnostics
        ],
        "plan": api.plan_document(checked.plan) if checked is not None else None,
    }


def say_adopted(request: ProjectRequest, project: Project, options: Any, size: str | None) -> None:
    """Add the packages that the environment lacks, and say what is left."""
    missing = list_missing(project)
    unknown = list_unknown(project)
    is_done = f"`{request.script}` is adopted already, and its spec is there"
    common.say(f"{is_done}: nothing to write" if not missing else is_done)
    if missing:
        path = project.folder / CONDA_FILE
        before = untrusted.read_bytes(path)
        after = add_packages(before, list(missing.values()))
        reason = replace_content(path, before, after) if after is not None else "it has no list of pip"
        if reason is None:
            common.say(f"wrote {path}: {quoted_list(missing.values())}, which the script needs")
        else:
            common.say(f"  add {quoted_list(missing.values())} to `{path}` yourself: {reason}")
    for line in (*_list_unknown(unknown), *_list_unwritten(request, project, options, size)):
        common.say(f"  {line}")


def _list_unknown(modules: list[str]) -> Iterator[str]:
    for each in modules:
        yield f"the script needs `{each}`, and no package here has it: see that `{CONDA_FILE}` installs it"


def _list_unwritten(
    request: ProjectRequest, project: Project, options: Any, size: str | None
) -> Iterator[str]:
    """What the command line asks of a spec that is there already."""
    asked = [f"`instance_type: {size}`"] if size is not None else []
    if request.target.instance_count > 1:
        asked.append(f"`instance_count: {request.target.instance_count}`")
    if options.data is not None:
        asked.append(f"the path `{options.data}` of the input `data`")
    profile = request.adoption.profile
    given = read_arguments(profile.flags, options.arguments, profile.subcommand)
    others = [
        word
        for each in given
        if each.flag != profile.flag("data") or each.flag is None
        for word in each.words
    ]
    if others:
        asked.append(f"`{shlex.join(others)}` in `command`")
    yield from (f"write {each} in `{project.folder / project.spec}` yourself" for each in asked)


def find_lacking(request: ProjectRequest, project: Project) -> str | None:
    """A sentence about the packages that the environment beside an adopted script lacks."""
    done = request.adoption.text == request.adoption.source and (project.folder / CONDA_FILE).is_file()
    missing = list_missing(project) if done else {}
    if not missing:
        return None
    return f"`{CONDA_FILE}` lacks {quoted_list(missing)}, which the script needs: `--write` adds it\n"
