"""The ``config.json`` that ``MLClient.from_config()`` looks for, lent to a command that has none.

azure-ai-ml looks for a file only, from the working folder 20 levels up, in ``.azureml``, ``aml_config`` and
the folder itself (``MLClient.from_config``).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path

from worldsize.base import untrusted
from worldsize.base.whole_file import write_whole
from worldsize.running.model.folder import ignore_in_git
from worldsize.serving.workspace import Scope

LEVELS = 20
FOLDERS = (".azureml", "aml_config", "")
FILES = ("config.json", "project.json")


def find_config(folder: Path) -> Path | None:
    """The file that ``MLClient.from_config()`` would read in ``folder``."""
    ancestors = [folder, *folder.parents][: LEVELS + 1]
    paths = (ancestor / name / file for ancestor in ancestors for name in FOLDERS for file in FILES)
    return next((path for path in paths if path.is_file()), None)


@contextlib.contextmanager
def lend_config(folder: Path, scope: Scope) -> Iterator[Path | None]:
    """Have ``.azureml/config.json`` in ``folder`` where no such file is found, until the block ends.

    Args:
        folder: The working folder of the command.
        scope: The workspace that the file names.

    Yields:
        The file, if it is lent. One of the same content that another server lends, or a killed one left, is
        shared: whoever needs it last removes it.
    """
    path = folder / ".azureml" / "config.json"
    text = _format(scope)
    existing = find_config(folder)
    if path.parent.is_symlink() or (existing is not None and not (existing == path and _read(path) == text)):
        yield None
        return
    made_folder = not path.parent.exists()
    try:
        path.parent.mkdir(exist_ok=True)
        if made_folder:
            ignore_in_git(path.parent)
        if existing is None:
            write_whole(path, text.encode(), new=True)
        held = untrusted.open_file(path)
        fcntl.flock(held, fcntl.LOCK_SH)
    except OSError:  # a folder that cannot be written: the command may not need it
        yield None
        return
    try:
        yield path
    finally:
        with held, contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if another server still lends it
            if _read(path) == text:  # the command may have replaced it
                path.unlink()
            if made_folder or existing is not None:
                if [file.name for file in path.parent.iterdir()] == [".gitignore"]:
                    (path.parent / ".gitignore").unlink()
                path.parent.rmdir()


def _format(scope: Scope) -> str:
    document = {
        "subscription_id": scope.subscription,
        "resource_group": scope.group,
        "workspace_name": scope.workspace,
    }
    return json.dumps(document, indent=2) + "\n"


def _read(path: Path) -> str:
    try:
        return untrusted.read_text(path)
    except OSError:
        return ""
