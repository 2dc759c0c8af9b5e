"""The entry point. Sub-commands load lazily, so that `worldsize --help` costs an interpreter start."""

from __future__ import annotations

import importlib
import io
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from worldsize.base.untrusted import UnreadWarning

COMMANDS: Mapping[str, str] = {
    "check": "Check specs and Azure ML YAML, files or folders.",
    "init": "Start a project from a table, pictures, a script or a pipeline.",
    "adopt": "Make a script for one GPU a distributed one, and prove it.",
    "plan": "Print the plan of a spec, with the formula behind each number.",
    "compile": "Write the Azure ML pipeline of a spec.",
    "run": "Run a spec's pipeline on this machine.",
    "submit": "Submit to a workspace in Azure, and follow the job.",
    "retrain": "Train again if anything is new, and promote what is better.",
    "resume": "Continue an interrupted or failed run.",
    "runs": "List the runs of a folder.",
    "show": "Show a run: states, times, parameters, metrics.",
    "report": "Write a run as one page: graph, timeline, curves, metrics.",
    "diff": "Compare two runs: parameters, code, data, environment, metrics.",
    "logs": "Print the logs of a step's processes.",
    "models": "List a model's versions: data, metrics, and which was the champion when and why.",
    "rollback": "Make an earlier version of a model the champion.",
    "serve": "Serve a workspace on this machine to Azure ML's own clients.",
    "cache": "List the steps that can be reused, or forget them.",
    "estimate": "Estimate how fast a workload trains on a cluster.",
    "advise": "Find the clusters on which a training is fastest and cheapest.",
    "catalogue": "List VM sizes, or read a workspace's clusters.",
    "explain": "Print the page of a rule.",
    "schema": "Print a JSON Schema of specs and other files.",
    "lsp": "Serve the checker to an editor.",
}

EXAMPLES = """\b
Examples:
  worldsize check .                          every spec and Azure ML file below
  worldsize plan pipelines/digits_ddp.yml    numbers and their formulas
  worldsize compile SPEC -o build            pipeline.yml and what it needs
  worldsize run SPEC                         the same pipeline on this machine
  worldsize explain WS203                    what a diagnostic means
"""


class LazyGroup(click.Group):
    """A group that knows its commands' one-line help without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The commands in the order a user meets them, not alphabetically."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the requested command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"worldsize.cli.{cmd_name}").command
        command.name = cmd_name  # not that of the function, for who documents or completes the commands
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but suggest the closest name for an unknown command."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from worldsize.base.suggest import did_you_mean  # only for a typo

            hint = did_you_mean(args[0], COMMANDS) or "`worldsize --help` lists them"
            ctx.fail(f"there is no command `{args[0]}`: {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """As click does, but Ctrl-C exits with 130, as a shell reports it."""
        warnings.formatwarning = _format_warning
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # what a terminal cannot show
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise SystemExit(130) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _format_warning(message: Warning | str, *place: Any, **_: Any) -> str:
    """One line in the form of a diagnostic, for what a user's pipeline in Python causes."""
    if isinstance(message, UnreadWarning):
        text = "".join(character if character.isprintable() else "�" for character in str(message))
        return f"warning: {text}\n"
    _category, filename, line = place[:3]
    path = os.path.relpath(filename) if Path(filename).is_relative_to(Path.cwd()) else filename
    return f"{path}:{line}: warning: {message}\n"


def _version(ctx: click.Context, _param: click.Parameter, show: bool) -> None:
    if show and not ctx.resilient_parsing:
        from importlib.metadata import version  # 20 ms that only this option needs

        click.echo(f"worldsize {version('worldsize')}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def main() -> None:
    """Distributed-training pipelines for Azure Machine Learning, right before they cost a GPU-hour."""
