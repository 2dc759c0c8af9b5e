"""`worldsize compile`: writes a spec as the pipeline that Azure ML runs."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worldsize import api
from worldsize.base.wording import plural
from worldsize.cli import common, spec_options
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.dsl import load, verbs

if TYPE_CHECKING:
    from worldsize.api import Compiled

EPILOG = """\b
Examples:
  worldsize compile pipelines/digits_ddp.yml -o build
  az ml job create -f build/pipeline.yml
  worldsize compile SPEC -o build --from JOB --azure    with predictions calibrated by a job that trained this
  worldsize compile pipeline.py:planned -o build        a pipeline in Python, with its components and code

\b
Exit status: 0 written, 1 faults in the spec or the folder, 2 usage, 3 an internal error of worldsize.
"""


@click.command(epilog=EPILOG)
@click.argument("spec", type=common.FilePath(keep_functions=True))
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder to write. Only an earlier output of worldsize is replaced.",
)
@spec_options.from_option
@common.set_option
@common.json_option
def command(
    spec: Path,
    output: Path,
    runs: tuple[str, ...],
    home: Path,
    azure: WorkspaceChoice | None,
    *,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write the Azure ML pipeline of a spec, or of `file.py:function`, as a folder with all that it needs."""
    if load.is_reference(str(spec)) and (settings or runs):
        common.refuse(
            f"`{'--set' if settings else '--from'}` is for specs, and `{spec}` is a pipeline in Python",
            "change its function",
        )
    with common.exit_on_error():
        if load.is_reference(str(spec)):
            compiled = verbs.compile(str(spec), output)
        else:
            document = spec_options.override_spec(spec, settings)
            compiled = api.compile(spec, output, document, spec_options.read_runs(runs, home, azure))
    if compiled.warnings:
        common.show_findings(compiled.warnings, compiled.sources)
    if as_json:
        places = {"folder": str(compiled.folder), "pipeline": str(compiled.pipeline)}
        click.echo(json.dumps({**places, "files": compiled.files}, indent=2))
    else:
        common.say(_summary(compiled), nl=False)


def _summary(compiled: Compiled) -> str:
    """The written files, and the commands that submit them."""
    lines = [f"wrote {compiled.folder}"]
    lines += [f"  {name}" for name in compiled.files if not name.startswith("components/")]
    counts = Counter(name.split("/")[1] for name in compiled.files if name.startswith("components/"))
    lines += [f"  components/{name}/  ({plural(count, 'file')})" for name, count in sorted(counts.items())]
    lines += ["", "submit it:"]
    lines += [f"  {line}" for line in _commands(compiled)]
    return "\n".join(lines) + "\n"


def _commands(compiled: Compiled) -> list[str]:
    def quoted(name: str) -> str:
        return shlex.quote(str(compiled.folder / name))

    clusters = [name for name in compiled.files if name.startswith("compute/")]
    lines = [f"az ml compute create -f {quoted(name)}" for name in clusters]
    lines.append(f"az ml job create -f {quoted('pipeline.yml')}")
    if "schedule.yml" in compiled.files:
        lines[-1] += "    # either once, or"
        lines.append(f"az ml schedule create -f {quoted('schedule.yml')}    # by its schedule")
    return lines
