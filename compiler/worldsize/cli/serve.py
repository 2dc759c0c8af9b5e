"""`worldsize serve`: a workspace of Azure ML on this machine, alone or around a command."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click

from worldsize.cli import common, run_folders

EPILOG = """\b
Examples:
  worldsize serve                          a workspace; prints how to reach it and its page
  worldsize serve -- jupyter lab           a command inside it: MLClient and mlflow work as they are
  worldsize serve -- python submit.py      exits with the command's status; everything is stopped after
  eval "$(worldsize serve --print-env)"    the variables of a shell that uses a running server

\b
Clients find it by environment variables only. Requests to Azure's own hosts end here; other hosts are reached
as before. The workspace runs the code of its jobs: it listens on 127.0.0.1 and asks for a secret.
"""
PACKAGES = ("certifi", "cryptography", "starlette", "uvicorn")


@click.command(epilog=EPILOG)
@run_folders.make_home_option("--home", "Where the workspace and its runs are kept.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="The port on 127.0.0.1; by default the one of the last time, or one that is free.",
)
@click.option("--print-env", is_flag=True, help="Print the variables of a client for a shell, and exit.")
@click.option(
    "--no-proxy",
    is_flag=True,
    help="Set no proxy: clients get this server's address in place of Azure's hosts.",
)
@click.option("--keep-jobs", is_flag=True, help="Let jobs that still run go on at the end.")
@click.option(
    "--environment",
    type=click.Choice(["current", "isolated", "docker"]),
    help="The Python of the jobs' steps, as `worldsize run` has it: this one (default for what a spec was"
    " compiled to), one that is built from each step's environment (default for other jobs), or that of a"
    " container.",
)
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    home: Path,
    port: int | None,
    environment: str | None,
    command_line: tuple[str, ...],
    *,
    print_env: bool,
    no_proxy: bool,
    keep_jobs: bool,
) -> None:
    """Serve a workspace on this machine to Azure ML's own clients."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        common.refuse(
            f"`worldsize serve` needs `{missing[0]}`, which is not installed",
            "run `pip install 'worldsize[serve]'`",
        )
    if print_env and command_line:
        raise click.UsageError("--print-env takes no command")
    from worldsize.cli import local_workspace

    settings = local_workspace.make_settings(home, port, environment, proxy=not no_proxy)
    with local_workspace.exit_on_error(settings):
        if print_env:
            local_workspace.print_environment(settings)
        else:
            raise SystemExit(local_workspace.serve(settings, command_line, keep_jobs=keep_jobs))
