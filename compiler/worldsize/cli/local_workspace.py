"""Serves a workspace on this machine, and prints how clients reach it; imports what only `serve` installs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from worldsize.base.whole_file import NotAsWrittenError
from worldsize.base.wording import plural
from worldsize.cli import common
from worldsize.running.model.folder import show_path
from worldsize.serving.front.command import Command, ServerError, cancel_jobs, run_server
from worldsize.serving.front.environment import apply_variables, format_exports, lend_config
from worldsize.serving.front.listener import UpstreamError, find_upstream
from worldsize.serving.front.server import (
    Opened,
    Settings,
    describe_client,
    make_server,
    open_workspace,
    read_record,
)
from worldsize.serving.home import Home, HomeInUseError
from worldsize.serving.workspace import Workspace


def make_settings(home: Path, port: int | None, environment: str | None, *, proxy: bool) -> Settings:
    """The settings of a server of this folder."""
    return Settings(home, Path.cwd(), port, proxy, dict(os.environ), environment)


def serve(settings: Settings, words: tuple[str, ...], *, keep_jobs: bool) -> int:
    """Serve until Ctrl-C, or around a command, whose exit status is returned."""
    umask = os.umask(0o077)  # whatever the server writes is the user's only
    upstream = find_upstream(settings.environment) if settings.proxy else None
    inside = None
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_workspace(settings))
        if words:
            environment = apply_variables(opened.settings.environment, opened.workspace.client_variables)
            inside = Command(words, environment, umask)
        lent = stack.enter_context(lend_config(Path.cwd(), opened.workspace.scope))
        if lent is not None:
            end = "the command ends" if words else "the server ends"
            common.say(f"worldsize: `{show_path(lent)}` is here until {end}", err=bool(words))
        server = make_server(opened, upstream)
        try:
            announce = partial(_announce, opened, quiet=bool(words))
            finish = partial(_finish, opened.workspace, keep_jobs=keep_jobs)
            return asyncio.run(run_server(server, inside, announce, finish))
        except ServerError as error:
            common.refuse(str(error), f"`{show_path(opened.workspace.home.state / 'server.log')}` says why")


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
    if not keep_jobs and (count := await cancel_jobs(workspace)):
        common.say(f"worldsize: canceled {plural(count, 'job')}; --keep-jobs lets them go on", err=True)


def print_environment(settings: Settings) -> None:
    """Print the variables of a client for a shell."""
    os.umask(0o077)
    variables, running = describe_client(settings)
    for line in format_exports(variables):
        click.echo(line)
    if not running:
        common.say("worldsize: no server runs for this home yet: start it with `worldsize serve`", err=True)


@contextlib.contextmanager
def exit_on_error(settings: Settings) -> Iterator[None]:
    """Turn what keeps a workspace from being opened into a message and exit status 1."""
    try:
        with common.exit_on_error():
            yield
    except UpstreamError as error:
        common.refuse(str(error), "unset it, or give --no-proxy")
    except HomeInUseError as error:
        record = read_record(Home(settings.home.absolute()))
        where = f" (process {record['pid']}, http://127.0.0.1:{record['port']})" if record else ""
        help_ = "`worldsize serve --print-env` prints how to use it; --home names another"
        common.refuse(f"{error}{where}", help_)
    except (OSError, sqlite3.DatabaseError, NotAsWrittenError) as error:
        _refuse_opening(settings, error)


def _refuse_opening(settings: Settings, error: Exception) -> NoReturn:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        common.refuse(f"port {settings.port} is taken", "give another with --port, or none")
    if isinstance(error, NotAsWrittenError):
        common.refuse(str(error), error.help)
    if isinstance(error, OSError) and error.filename is not None:
        common.refuse(f"`{error.filename}`: {(error.strerror or str(error)).lower()}")
    common.refuse(f"the workspace in `{settings.home}` cannot be opened: {error}")
