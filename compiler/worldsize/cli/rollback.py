"""`worldsize rollback`: makes an earlier version of a model the champion."""

from __future__ import annotations

import json
from pathlib import Path

import click

from worldsize.base.wording import join_words
from worldsize.cli import common, run_folders, workspace_options
from worldsize.cli.models import complete_models, complete_versions, open_registry, read_versions
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.running.record.models import HomeRegistry
from wschampion.champion import ROLLED_BACK, PatientRegistry, find_champion, find_target, roll_back

EPILOG = """\b
Examples:
  worldsize rollback digits-cnn            the champion before this one
  worldsize rollback digits-cnn 3          this version
  worldsize rollback digits-cnn --azure    in a workspace in Azure

\b
The champions that are newer than the version are marked as rolled back: no job promotes them
again. To undo a rollback, name the version that was the champion.

\b
Exit status: 0 the version is the champion, or already was; 1 it is not; 2 usage.
"""


@click.command(epilog=EPILOG)
@click.argument("name", metavar="NAME", shell_complete=complete_models)
@click.argument("version", metavar="[VERSION]", required=False, shell_complete=complete_versions)
@run_folders.runs_dir
@common.json_option
@workspace_options.named
def command(
    name: str, version: str | None, home: Path, azure: WorkspaceChoice | None, *, as_json: bool
) -> None:
    """Make an earlier version of a model the champion: by default the champion before this one."""
    with open_registry(home, azure) as registry:
        before = read_versions(registry, name)
        former = find_champion(before)
        target = find_target(before, name, version)
        lost = registry.find_loss(name, target.version) if isinstance(registry, HomeRegistry) else None
        if lost is not None:
            common.refuse(f"the files of version {target.version} of `{name}` are not in `{lost}` any more")
        roll_back(PatientRegistry(registry), name, target.version)
        after = registry.versions(name)
    marked = {known.version for known in before if known.tags.get(ROLLED_BACK)}
    barred = [v.version for v in after if v.tags.get(ROLLED_BACK) and v.version not in marked]
    if as_json:
        document = {"name": name, "version": target.version, "rolled_back": barred}
        click.echo(json.dumps(document, indent=2))
        return
    still = former is not None and former.version == target.version
    common.say(f"version {target.version} of {name} is {'already ' if still else ''}the champion")
    if barred:
        common.say(f"no job promotes version {join_words(barred, 'and')} again")
