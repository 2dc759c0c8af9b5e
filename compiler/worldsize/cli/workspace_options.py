"""The options that choose a workspace in Azure."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from worldsize.cli import common

if TYPE_CHECKING:
    from worldsize.remote.names import WorkspaceNames
    from worldsize.remote.rest import Rest


@dataclass(frozen=True, slots=True)
class WorkspaceChoice:
    """What the options say; the environment or `config.json` says the rest."""

    subscription: str | None
    group: str | None
    workspace: str | None

    def find(self) -> WorkspaceNames:
        """The names of the workspace.

        Raises:
            RemoteError: A name is missing.
        """
        from worldsize.remote.names import find_workspace  # only commands that use a workspace need it

        return find_workspace(self.subscription, self.group, self.workspace)

    @contextlib.contextmanager
    def connect(self) -> Iterator[Rest]:
        """Read from the workspace; exits with a message if it cannot be found or used."""
        with exit_on_remote_error():
            from worldsize.remote.errors import explain_errors

            names = self.find()
            with explain_errors(names.shown):
                from worldsize.remote.rest import Rest

                yield Rest(names)


@contextlib.contextmanager
def exit_on_remote_error() -> Iterator[None]:
    """Turn an error of a workspace into a message and exit status 1."""
    from worldsize.remote.errors import RemoteError

    try:
        yield
    except RemoteError as error:
        common.refuse(str(error), error.help)


def _add_names(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("-w", "--workspace", metavar="NAME", help="The workspace."),
        click.option("-g", "--resource-group", "group", metavar="NAME", help="Its resource group."),
        click.option("--subscription", metavar="ID", help="Its subscription."),
    ):
        function = option(function)
    return function


def required(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that needs a workspace; the command gets them as ``azure``."""

    @functools.wraps(function)
    def call(subscription: str | None, group: str | None, workspace: str | None, **others: Any) -> Any:
        return function(azure=WorkspaceChoice(subscription, group, workspace), **others)

    return _add_names(call)


def of_azure(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that looks into a workspace with ``--azure``; ``azure`` is None without."""

    @functools.wraps(function)
    def call(
        subscription: str | None, group: str | None, workspace: str | None, *, in_azure: bool, **others: Any
    ) -> Any:
        names = (subscription, group, workspace)
        if any(names) and not in_azure:
            raise click.UsageError("add `--azure` to look into a workspace")
        return function(azure=WorkspaceChoice(*names) if in_azure else None, **others)

    option = click.option(
        "--azure", "in_azure", is_flag=True, help="Look into a workspace in Azure instead of this machine."
    )
    return option(_add_names(call))
