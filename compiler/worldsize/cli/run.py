"""`worldsize run`: a pipeline on this machine, watched while it goes on."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from worldsize.cli import common

if TYPE_CHECKING:
    from worldsize.running import RunResult
    from worldsize.running.model.view import View

EPILOG = """\b
Examples:
  worldsize run pipelines/digits_ddp.yml     a spec: checked, compiled, run
  worldsize run SPEC --processes 1           the same training in one process
  worldsize run build/pipeline.yml           a compiled or native pipeline
  worldsize run SPEC --dry-run               every process, its command and environment

\b
distribution:
  pytorch      the command once a process, with RANK, WORLD_SIZE, MASTER_ADDR ...
  tensorflow   the command once a worker and parameter server, with TF_CONFIG; when all
               workers have ended well, the parameter servers are ended
  mpi          Open MPI's own mpirun (`pip install 'worldsize[mpi]'`, or the system's)
Each process has its log: rank-0.log; with tensorflow worker-0.log and ps-0.log.

\b
A plan for more processes than there are GPUs (or cores) runs with as many as fit and more
gradient accumulation: the global batch stays the same.

\b
--nodes namespaces gives every instance of a distributed step a network namespace: address, host
name, /etc/hosts and TMPDIR of its own. Linux, as root, with `ip` and `tc` (`apt-get install
iproute2`). The nodes reach each other and nothing else.
  --link 25gbit,50us,0.1%            rate, delay, loss; by default the VM size's own network
  --kill node1@step:200              or `node1@30s`; `train:node1@30s` where several steps have nodes
  --drop-link 'node1@30s for 10s'    for ever without `for`

\b
--environment
  current      this Python and what is installed in it, whatever the step's environment says
  isolated     the step's conda or requirements file laid over this Python, kept for later runs
  docker       the step's image, where a Docker engine answers
What a step installs (pip, uv) goes into a layer of its own and is gone with the step; the Python
that runs Worldsize stays as it is. `conda install` in a step is refused.

\b
A rank of our trainers ends with 75 when it was asked to stop and has saved (its step is started
again by itself), and with 124 when another rank hung (its log has the stacks).

\b
Exit status: 0 all steps succeeded, 1 a step failed, nothing could start, or what MLflow has of
the run is incomplete, 2 usage, 3 a fault of worldsize itself, 130 Ctrl-C, 143 SIGTERM.
"""


@click.command(epilog=EPILOG)
@click.argument("target", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@click.option(
    "--processes", type=click.IntRange(min=1), metavar="N", help="Processes of every distributed step."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="An input of the pipeline; repeatable. The value of a secret is not kept.",
)
@click.option(
    "--map",
    "assets",
    multiple=True,
    metavar="REF=PATH",
    help="Where an asset or address lies here: `azureml:cifar@latest=./data/cifar`; repeatable.",
)
@click.option(
    "--environment",
    type=click.Choice(["current", "isolated", "docker"]),
    help="What interprets the steps: this Python (default for a spec), one made from each step's"
    " environment (default for other pipelines), or a container.",
)
@click.option("--force", is_flag=True, help="Run every step, also one that did the very same before.")
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    metavar="N",
    help="Start a failed step that keeps checkpoints again, so often (default: as the spec says, or 0).",
)
@click.option(
    "--nodes",
    type=click.Choice(["processes", "namespaces"]),
    default="processes",
    show_default=True,
    help="What stands for an instance; namespaces have addresses of their own (Linux, root).",
)
@click.option("--link", metavar="RATE,DELAY", help="Shape links between namespaces: `25gbit,50us`.")
@click.option(
    "--kill", multiple=True, metavar="NODE@WHEN", help="Kill an instance: `node1@step:200`; repeatable."
)
@click.option(
    "--drop-link", multiple=True, metavar="NODE@WHEN", help="Cut an instance off: `node1@30s`; repeatable."
)
@click.option("--chaos", type=int, metavar="SEED", help="Rehearse failures, at random by a seed.")
@click.option("--dry-run", is_flag=True, help="Print what each process would run, and run nothing.")
@click.option(
    "--runs-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=".worldsize",
    show_default=True,
    help="Where runs, MLflow's database and artifacts are kept.",
)
@click.option("--no-track", is_flag=True, help="Do not record the run in MLflow.")
@click.option("-q", "--quiet", is_flag=True, help="Print warnings and the summary only.")
def command(
    target: Path,
    *,
    settings: tuple[str, ...],
    assets: tuple[str, ...],
    dry_run: bool,
    runs_dir: Path,
    no_track: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Run a spec's pipeline, or any pipeline or command job, on this machine."""
    from worldsize import running  # noqa: PLC0415 - `--help` needs none of it
    from worldsize.running.show.preview import render_preview  # noqa: PLC0415

    options = running.RunOptions(settings=parse_settings(settings), assets=_parse_assets(assets), **asked)
    if dry_run:
        with exit_on_refusal():
            common.say(render_preview(running.dry_run(target, options)), nl=False)
        return
    with exit_on_refusal():
        shown = choose_view(quiet=quiet)
        result = running.run(target, options, runs_dir=runs_dir, track=not no_track, view=shown)
    exit_with_result(result, quiet=quiet)


@contextlib.contextmanager
def exit_on_refusal() -> Iterator[None]:
    """Turn what keeps a run from starting into a message and an exit status."""
    from worldsize import running  # noqa: PLC0415 - `--help` needs none of it
    from worldsize.errors import OutputError, SpecError  # noqa: PLC0415

    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        yield
    except SpecError as error:
        common.refuse_spec(error)
    except running.RunError as error:
        click.echo(str(error), err=True)
        raise SystemExit(1) from None
    except (OutputError, running.ResumeError) as error:
        common.say(f"error: {error}\n  = help: {error.help}", err=True)
        raise SystemExit(1) from None
    except OSError as error:
        if error.filename is None:  # no file of the run: standard output, for example
            raise
        common.say(f"error: `{error.filename}`: {error.strerror}", err=True)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def exit_with_result(result: RunResult, *, quiet: bool) -> NoReturn:
    """Say how a run ended, and end with its status."""
    from worldsize.diagnostics.text import is_terminal  # noqa: PLC0415
    from worldsize.running.show.summary import render_summary  # noqa: PLC0415

    # The table of a terminal stays on the screen: its rows are not said twice.
    text = render_summary(result, steps=quiet or not is_terminal(sys.stdout))
    click.echo(text, nl=False, err=result.exit_code != 0)
    raise SystemExit(result.exit_code)


def parse_settings(texts: tuple[str, ...]) -> dict[str, str]:
    """What ``--set NAME=VALUE`` says, by name."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name):
            raise click.BadParameter(f"`{text}` has no `=` between name and value", param_hint="'--set'")
        found[name] = value
    return found


def _parse_assets(texts: tuple[str, ...]) -> dict[str, str]:
    """What ``--map REF=PATH`` says, by reference."""
    from worldsize.running.prepare.assets import parse_map_option  # noqa: PLC0415 - `--help` needs none of it

    try:
        return dict(parse_map_option(text) for text in texts)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--map'") from None


def choose_view(*, quiet: bool) -> View:
    """The table on a terminal, lines elsewhere."""
    from worldsize.running.show.views import PlainView, QuietView  # noqa: PLC0415

    if quiet:
        return QuietView(lambda line: click.echo(line, err=True))
    from worldsize.diagnostics.text import is_terminal  # noqa: PLC0415

    if is_terminal(sys.stdout):
        from rich.console import Console  # noqa: PLC0415 - 60 ms that a pipe does not need

        from worldsize.running.show.live import LiveView  # noqa: PLC0415

        return LiveView(Console())
    return PlainView(click.echo)
