"""`worldsize run`: runs a pipeline on this machine and shows its progress."""

from __future__ import annotations

import atexit
import contextlib
import json
import shlex
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from msgspec.structs import replace

from worldsize.cli import common, run_folders
from worldsize.cli.show import document
from worldsize.dsl import run as verbs
from worldsize.reporting.curves import LoggedDetails
from worldsize.reporting.page import write_report
from worldsize.running.model.assets import parse_map_option
from worldsize.running.model.errors import RunError
from worldsize.running.model.options import RunOptions
from worldsize.running.record.history import RunRecord, load_run
from worldsize.running.show.live import LiveView
from worldsize.running.show.preview import render_preview
from worldsize.running.show.views import PlainView, QuietView, render_summary, wants_table

if TYPE_CHECKING:
    from worldsize.running.model.results import RunResult, View

EPILOG = """\b
Examples:
  worldsize run pipelines/digits_ddp.yml     a spec: checked, compiled, run
  worldsize run SPEC --processes 1           the same training in one process
  worldsize run build/pipeline.yml           a compiled or native pipeline
  worldsize run digits.py:digits             the pipeline of a Python function with @dsl.pipeline
  worldsize run SPEC --dry-run               print every process, its command and environment

\b
distribution:
  pytorch      starts the command once per process, with RANK, WORLD_SIZE, MASTER_ADDR ...
  tensorflow   starts the command once per worker and parameter server, with TF_CONFIG; the
               parameter servers are stopped when all workers have succeeded
  mpi          uses Open MPI's mpirun (`pip install 'worldsize[mpi]'`, or the system's)
Each process has its own log: rank-0.log; with tensorflow worker-0.log and ps-0.log.

\b
A plan for more processes than there are GPUs (or cores) runs with as many as fit and more
gradient accumulation: the global batch stays the same. A pipeline without a plan keeps its
processes, which share the cores: `--processes 2` starts fewer.

\b
--nodes namespaces gives every instance of a distributed step a network namespace: address, host
name, /etc/hosts and TMPDIR of its own. Linux, as root, with `ip` and `tc` (`apt-get install
iproute2`). The nodes reach each other and nothing else.
  --link 25gbit,50us,0.1%            rate, delay, loss; by default the VM size's own network
  --kill node1@step:200              or `node1@30s`; `train:node1@30s` where several steps have nodes
  --drop-link 'node1@30s for 10s'    permanently without `for`

\b
--environment
  current      this Python and its packages; the step's environment is ignored
  isolated     the packages of the step's conda or requirements file on top of this Python,
               kept for later runs
  docker       the step's image, if a Docker engine is running
Packages that a step installs (pip, uv) go into a separate layer, which is removed with the step;
the Python that runs Worldsize does not change. `conda install` in a step is refused.

\b
A rank of the built-in trainers exits with 75 after it saved a checkpoint on request (its step is
restarted automatically), and with 124 when another rank hung (its log has the stacks).

\b
Exit status: 0 all steps succeeded, 1 a step failed, the run could not start, or its record in
MLflow is incomplete, 2 usage, 3 an internal error of worldsize, 130 Ctrl-C, 143 SIGTERM.
"""


report_option = click.option("--no-report", is_flag=True, help="Do not write the run's page, report.html.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print warnings and the summary only.")


@click.command(epilog=EPILOG)
@click.argument("target", type=common.FilePath(), metavar="FILE")
@click.option(
    "--processes", type=click.IntRange(min=1), metavar="N", help="Processes of every distributed step."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="An input of the pipeline or of a step: in a spec `inputs.NAME` or `STEP.NAME`; repeatable. The"
    " value of a secret is not stored.",
)
@click.option(
    "--map",
    "assets",
    multiple=True,
    metavar="REF=PATH",
    help="The local path of an asset or address: `azureml:cifar@latest=./data/cifar`; repeatable.",
)
@click.option(
    "--environment",
    type=click.Choice(["current", "isolated", "docker"]),
    help="The Python of the steps: this one (default for a spec and what it was compiled to), one that is"
    " built from each step's environment (default for other pipelines), or that of a container.",
)
@click.option(
    "--force", is_flag=True, help="Run every step, even if an identical earlier step could be reused."
)
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    metavar="N",
    help="Restarts of a failed step that writes checkpoints (default: from the spec, or 0).",
)
@click.option(
    "--nodes",
    type=click.Choice(["processes", "namespaces"]),
    default="processes",
    show_default=True,
    help="What simulates an instance; each namespace has its own addresses (Linux, root).",
)
@click.option("--link", metavar="RATE,DELAY", help="Shape links between namespaces: `25gbit,50us`.")
@click.option(
    "--kill", multiple=True, metavar="NODE@WHEN", help="Kill an instance: `node1@step:200`; repeatable."
)
@click.option(
    "--drop-link", multiple=True, metavar="NODE@WHEN", help="Cut an instance off: `node1@30s`; repeatable."
)
@click.option("--chaos", type=int, metavar="SEED", help="Inject random failures, reproducible by the seed.")
@click.option("--dry-run", is_flag=True, help="Print the command of each process, and run nothing.")
@run_folders.make_home_option("--runs-dir", "Where runs, MLflow's database and artifacts are kept.")
@click.option("--no-track", is_flag=True, help="Do not record the run in MLflow.")
@report_option
@quiet_option
@common.json_option
def command(
    target: Path,
    *,
    settings: tuple[str, ...],
    assets: tuple[str, ...],
    dry_run: bool,
    home: Path,
    no_track: bool,
    no_report: bool,
    quiet: bool,
    as_json: bool,
    **other_options: Any,
) -> None:
    """Run a spec's pipeline, or any pipeline or command job, on this machine."""
    try:
        paths = dict(parse_map_option(text) for text in assets)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--map'") from None
    options = RunOptions(settings=common.parse_settings(settings), assets=paths, **other_options)
    if dry_run and as_json:
        raise click.UsageError("`--dry-run` has no JSON: remove `--json`")
    if dry_run:
        with exit_on_refusal():
            common.say(render_preview(verbs.dry_run(target, options)), nl=False)
        return
    with exit_on_refusal():
        view = choose_view(quiet=quiet or as_json, home=home)
        result = verbs.run(target, options, runs_dir=home, track=not no_track, view=view)
        exit_with_result(result, quiet=quiet, as_json=as_json, report=not no_report)


@contextlib.contextmanager
def exit_on_refusal() -> Iterator[None]:
    """Turn errors that prevent a run from starting, and signals outside of its steps, into an exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores one
            signal.signal(number, _exit_on_signal)
            atexit.register(signal.signal, number, signal.SIG_IGN)  # the end of Python resets the handler
    try:
        with common.exit_on_error():
            yield
    except RunError as error:
        click.echo(str(error), err=True)  # with lines of the file
        raise SystemExit(1) from None
    except OSError as error:
        if error.filename is None:  # not a file of the run: standard output, for example
            raise
        common.refuse(f"`{error.filename}`: {error.strerror}")
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _exit_on_signal(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def exit_with_result(
    result: RunResult, *, quiet: bool, as_json: bool = False, report: bool = True
) -> NoReturn:
    """Write the page of a run, print how the run ended, and exit with its status."""
    page = _write_report(result) if report else None
    if as_json:
        print_document(load_run(result.folder), page)
    else:
        result = result if result.metrics else replace(result, metrics=_read_logged(result))
        # The table of a terminal stays on the screen: its rows are not printed again.
        text = render_summary(result, steps=quiet or not wants_table(sys.stdout), report=page)
        click.echo(text, nl=False, err=result.exit_code != 0)
    raise SystemExit(result.exit_code)


def _read_logged(result: RunResult) -> dict[str, float]:
    """The metrics that the steps have logged to MLflow, without those of a sweep's trials."""
    run = load_run(result.folder)
    return {
        metric: value
        for step, metrics in LoggedDetails(run).logged.items()
        if step.rpartition(".")[0] not in run.steps
        for metric, value in metrics.items()
    }


def print_document(record: RunRecord, page: Path | None) -> None:
    """Print what `--json` says of a run that has ended."""
    shown = {**document(record, LoggedDetails(record)), "report": None if page is None else str(page)}
    click.echo(json.dumps(shown, indent=2))


def _write_report(result: RunResult) -> Path | None:
    """Write the page of a run into its folder; None if that fails, which changes nothing of the run."""
    try:
        return write_report(result.folder)
    except Exception as error:  # whatever is wrong with a page, the run has its result
        common.say_sentences(f"warning: the report could not be written: {error}", err=True)
        return None


def choose_view(*, quiet: bool, home: Path | None = None) -> View:
    """Choose the view of a run in this home: a table on a terminal, lines elsewhere."""
    if quiet:
        return QuietView(partial(common.say_sentences, err=True))
    if wants_table(sys.stdout):
        from rich.console import Console  # 60 ms that a pipe does not need

        return LiveView(Console())
    return PlainView(common.say_sentences, hint=partial(_hint_at_logs, home) if home is not None else None)


def _hint_at_logs(home: Path, step: str) -> str:
    words = ["worldsize", "logs", "last", step, "--follow"]
    words += ["--runs-dir", str(home)] if home != Path(".worldsize") else []
    return f"no progress is reported so far; `{shlex.join(words)}` shows what it prints"
