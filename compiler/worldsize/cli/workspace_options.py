"""The options that choose a workspace in Azure."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click

from worldsize.cli import common
from worldsize.remote.errors import explain_errors
from worldsize.remote.names import find_workspace
from worldsize.remote.rest import Rest


class WorkspaceChoice(NamedTuple):
    """What the options say; the environment or `config.json` says the rest."""

    subscription: str | None
    group: str | None
    workspace: str | None

    @contextlib.contextmanager
    def connect(self) -> Iterator[Rest]:
        """Read from the workspace; exits with a message if it cannot be found or used."""
        with common.exit_on_error():
            names = find_workspace(*self)
            with explain_errors(names.shown):
                yield Rest(names)


_NAMES = (
    click.option("--subscription", metavar="ID", help="Its subscription."),
    click.option("-g", "--resource-group", "group", metavar="NAME", help="Its resource group."),
    click.option("-w", "--workspace", metavar="NAME", help="The workspace."),
)
_AZURE = click.option(
    "--azure", "in_azure", is_flag=True, help="Look into a workspace in Azure instead of this machine."
)


def required(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that needs a workspace; the command gets them as ``azure``."""

    @functools.wraps(function)
    def call(subscription: str | None, group: str | None, workspace: str | None, **others: Any) -> Any:
        return function(azure=WorkspaceChoice(subscription, group, workspace), **others)

    return common.add_options(call, *_NAMES)


def named(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that looks into a workspace if one is named, or with ``--azure``."""

    @functools.wraps(function)
    def call(azure: WorkspaceChoice, *, in_azure: bool, **others: Any) -> Any:
        return function(azure=azure if in_azure or any(azure) else None, **others)

    return common.add_options(required(call), _AZURE)


def of_azure(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that looks into a workspace with ``--azure``; ``azure`` is None without."""

    @functools.wraps(function)
    def call(azure: WorkspaceChoice, *, in_azure: bool, **others: Any) -> Any:
        if any(azure) and not in_azure:
            raise click.UsageError("add `--azure` to look into a workspace")
        return function(azure=azure if in_azure else None, **others)

    return common.add_options(required(call), _AZURE)
