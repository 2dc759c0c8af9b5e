"""`worldsize models`: the versions of a model, and which of them was the champion when and why."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import quoted_list
from worldsize.cli import common, run_folders, workspace_options
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.remote.models import WorkspaceRegistry
from worldsize.running.record.models import DATA_TAG, HomeRegistry, list_metrics, select_tags
from wschampion.champion import EVIDENCE, REIGN, ROLLED_BACK, SINCE, UNTIL, Version, find_champion
from wsmetrics.names import choose_headline
from wsshards.errors import UserError

EPILOG = """\b
Examples:
  worldsize models digits-cnn            the versions of this folder's runs, the newest last
  worldsize models digits-cnn --json     for a program
  worldsize models digits-cnn --azure    of a workspace in Azure
  worldsize rollback digits-cnn          make the champion before this one the champion again
"""
_SHOWN = 3  # metrics of the table

Registry = HomeRegistry | WorkspaceRegistry


def complete_models(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The models of the home."""
    names = _home_of(ctx).names()
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_versions(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The versions of the model that the command line names."""
    versions = _home_of(ctx).versions(str(ctx.params.get("name")))
    return [
        CompletionItem(version.version, help=_reign(version, find_champion(versions)))
        for version in reversed(versions)
        if version.version.startswith(incomplete)
    ]


def _home_of(ctx: click.Context) -> HomeRegistry:
    return HomeRegistry(Path(ctx.params.get("home") or ".worldsize"))


@contextlib.contextmanager
def open_registry(home: Path, azure: WorkspaceChoice | None) -> Iterator[Registry]:
    """The registry of a workspace or of a home; exits with a message if it cannot be used."""
    try:
        if azure is None:
            yield HomeRegistry(home)
        else:
            with azure.connect() as rest:
                yield WorkspaceRegistry(rest)
    except UserError as error:
        common.refuse(error.message, error.help)
    except (OSError, sqlite3.Error) as error:
        common.refuse(f"cannot use the registry of `{home}`: {error}")


def read_versions(registry: Registry, name: str) -> Sequence[Version]:
    """The versions of a model, the oldest first; exits if there is none."""
    versions = registry.versions(name)
    if not versions:
        names = registry.names()
        known = f"it has {quoted_list(names)}" if names else "`worldsize run` registers models"
        common.refuse(f"{registry.place} has no model `{name}`", did_you_mean(name, names) or known)
    return sorted(versions, key=lambda version: version.age)


@click.command(epilog=EPILOG)
@click.argument("name", metavar="NAME", shell_complete=complete_models)
@run_folders.runs_dir
@common.json_option
@workspace_options.named
def command(name: str, home: Path, azure: WorkspaceChoice | None, *, as_json: bool) -> None:
    """List a model's versions: data, metrics, and which was the champion when and why."""
    with open_registry(home, azure) as registry:
        versions = read_versions(registry, name)
    champion = find_champion(versions)
    if as_json:
        click.echo(json.dumps([_document(version, champion) for version in versions], indent=2))
        return
    measured = [list_metrics(version) for version in versions]
    shared = {metric: 0.0 for metrics in measured for metric in metrics}
    columns = choose_headline(shared)[:_SHOWN]
    rows = [
        (
            version.version,
            _reign(version, champion),
            version.tags.get(f"{DATA_TAG}rows", ""),
            version.tags.get(f"{DATA_TAG}trained_before", ""),
            *(f"{metrics[column]:.6g}" if column in metrics else "" for column in columns),
        )
        for version, metrics in zip(versions, measured, strict=True)
    ]
    headings = ("version", "champion", "rows", "data until", *columns)
    common.say_table(headings, rows, right={0, 2, *range(4, 4 + len(columns))})
    for version in versions:
        reigns = [text for key, text in sorted(version.tags.items()) if key.startswith(REIGN)]
        if _since(version, champion) and version.tags.get(EVIDENCE):
            reigns.append(version.tags[EVIDENCE])
        for reign in reigns:
            common.say_sentences(f"version {version.version}: {reign}")


def _document(version: Version, champion: Version | None) -> dict[str, Any]:
    since = _since(version, champion)
    return {
        "version": version.version,
        "champion": version is champion,
        "since": since,
        "metrics": list_metrics(version),
        "data": select_tags(version.tags, DATA_TAG),
        "evidence": version.tags.get(EVIDENCE) if since else None,
    }


def _since(version: Version, champion: Version | None) -> str | None:
    """When a version became the champion; None if it never was."""
    return version.tags.get(SINCE) if version is champion or version.has_reigned else None


def _reign(version: Version, champion: Version | None) -> str:
    """When a version was the champion, on this machine's clock."""
    since = _since(version, champion)
    if since is None:
        return ""
    end = "now" if version is champion else _show(version.tags[UNTIL])
    return f"{_show(since)} to {end}{', rolled back' if version.tags.get(ROLLED_BACK) else ''}"


def _show(time: str) -> str:
    try:
        return common.format_time(datetime.fromisoformat(time.replace("Z", "+00:00")))[:16]
    except (ValueError, OverflowError):  # a tag written by hand
        return time
