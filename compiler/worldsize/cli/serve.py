"""`worldsize serve`: a workspace of Azure ML on this machine, alone or around a command."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.util
import os
import sqlite3
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from worldsize.base.whole_file import NotAsWrittenError
from worldsize.base.wording import plural
from worldsize.cli import common

if TYPE_CHECKING:
    from worldsize.serving.front.server import Opened, Settings
    from worldsize.serving.front.tunnel import Upstream
    from worldsize.serving.workspace import Workspace

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
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    default=".worldsize",
    show_default=True,
    help="Where the workspace and its runs are kept.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="The port on 127.0.0.1; by default the one of the last time, or one that is free.",
)
@click.option("--print-env", is_flag=True, help="Print the variables of a client for a shell, and exit.")
@click.option(
    "--no-proxy",
    is_flag=True,
    help="Set no proxy: clients are told this server's address in place of Azure's hosts.",
)
@click.option("--keep-jobs", is_flag=True, help="Let jobs that still run go on at the end.")
@click.option(
    "--environment",
    type=click.Choice(["current", "isolated", "docker"]),
    default="current",
    show_default=True,
    help="The Python of the jobs' steps: this one, one that is built from each step's environment, or that of"
    " a container.",
)
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    home: Path,
    port: int | None,
    environment: str,
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
    from worldsize.serving.front.server import Settings

    umask = os.umask(0o077)  # whatever the server writes is the user's only
    settings = Settings(home, Path.cwd(), port, not no_proxy, dict(os.environ), environment)
    if print_env:
        _print_environment(settings)
        return
    raise SystemExit(_serve(settings, command_line, umask, keep_jobs=keep_jobs))


def _serve(settings: Settings, words: tuple[str, ...], umask: int, *, keep_jobs: bool) -> int:
    from worldsize.serving.front.server import open_workspace
    from worldsize.serving.front.tunnel import UpstreamError, find_upstream
    from worldsize.serving.home import HomeInUseError

    try:
        upstream = find_upstream(settings.environment) if settings.proxy else None
        with open_workspace(settings) as opened:
            return _run(opened, upstream, words, umask, keep_jobs=keep_jobs)
    except UpstreamError as error:
        common.refuse(str(error), "unset it, or give --no-proxy")
    except HomeInUseError as error:
        _refuse_second(settings, str(error))
    except (OSError, sqlite3.DatabaseError, NotAsWrittenError) as error:
        _refuse_opening(settings, error)


def _run(
    opened: Opened, upstream: Upstream | None, words: tuple[str, ...], umask: int, *, keep_jobs: bool
) -> int:
    from worldsize.serving.front.command import Command, ServerError, run_server
    from worldsize.serving.front.environment import apply_variables, lend_config
    from worldsize.serving.front.server import make_server

    inside = None
    with contextlib.ExitStack() as stack:
        if words:
            environment = apply_variables(opened.settings.environment, opened.workspace.client_variables)
            inside = Command(words, environment, umask)
        lent = stack.enter_context(lend_config(Path.cwd(), opened.workspace.scope))
        if lent is not None:
            end = "the command ends" if words else "the server ends"
            common.say(f"worldsize: `{_show(lent)}` is here until {end}", err=bool(words))
        server = make_server(opened, upstream)
        try:
            announce = partial(_announce, opened, quiet=bool(words))
            finish = partial(_finish, opened.workspace, keep_jobs=keep_jobs)
            return asyncio.run(run_server(server, inside, announce, finish))
        except ServerError as error:
            common.refuse(str(error), f"`{_show(opened.workspace.home.state / 'server.log')}` says why")


def _announce(opened: Opened, *, quiet: bool) -> None:
    """Print how the server is reached, to standard error where standard output is a command's."""
    common.say(f"worldsize: the workspace's page is {opened.page}", err=quiet)
    if not quiet:
        options = f" --home {opened.settings.home}" if str(opened.settings.home) != ".worldsize" else ""
        common.say(f'worldsize: in another shell: eval "$(worldsize serve{options} --print-env)"')
        common.say("worldsize: Ctrl-C stops it")
    sys.stdout.flush()


async def _finish(workspace: Workspace, *, keep_jobs: bool) -> None:
    """Cancel the jobs that still run, unless they are to go on."""
    from worldsize.serving.front.command import cancel_jobs

    if not keep_jobs and (count := await cancel_jobs(workspace)):
        common.say(f"worldsize: canceled {plural(count, 'job')}; --keep-jobs lets them go on", err=True)


def _print_environment(settings: Settings) -> None:
    from worldsize.serving.front.environment import format_exports
    from worldsize.serving.front.server import describe_client
    from worldsize.serving.home import HomeInUseError

    try:
        variables, running = describe_client(settings)
    except HomeInUseError as error:
        _refuse_second(settings, str(error))
    except (OSError, sqlite3.DatabaseError, NotAsWrittenError) as error:
        _refuse_opening(settings, error)
    for line in format_exports(variables):
        click.echo(line)
    if not running:
        common.say("worldsize: no server runs for this home yet: start it with `worldsize serve`", err=True)


def _refuse_second(settings: Settings, reason: str) -> NoReturn:
    from worldsize.serving.front.server import read_record
    from worldsize.serving.home import Home

    record = read_record(Home(settings.home.absolute()))
    where = f" (process {record['pid']}, http://127.0.0.1:{record['port']})" if record else ""
    common.refuse(
        f"{reason}{where}", "`worldsize serve --print-env` prints how to use it; --home names another"
    )


def _refuse_opening(settings: Settings, error: Exception) -> NoReturn:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        common.refuse(f"port {settings.port} is taken", "give another with --port, or none")
    if isinstance(error, NotAsWrittenError):
        common.refuse(str(error), error.help)
    if isinstance(error, OSError) and error.filename is not None:
        common.refuse(f"`{error.filename}`: {(error.strerror or str(error)).lower()}")
    common.refuse(f"the workspace in `{settings.home}` cannot be opened: {error}")


def _show(path: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)
