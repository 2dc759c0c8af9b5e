"""Find what `initial_model` holds: a checkpoint, or files of weights."""

from __future__ import annotations

from pathlib import Path

from wsshards.errors import UserError
from wstrain.checkpoint import checkpoint_folder
from wstrain.checkpoint.latest_checkpoint import find_checkpoint_of_step, find_latest_checkpoint

_DEPTH = 4  # levels of folders that are searched


def find_initial_checkpoint(folder: Path, help_: str) -> checkpoint_folder.Checkpoint | None:
    """Return the checkpoint that a folder is, or the best one in it, else the newest; None without any.

    Args:
        folder: what `initial_model` is bound to.
        help_: what to do about a damaged one.

    Raises:
        UserError: the checkpoint is damaged.
    """
    if (folder / checkpoint_folder.CARD).is_file():
        try:
            return checkpoint_folder.read_card(folder)
        except (OSError, ValueError) as error:
            raise UserError(f"checkpoint `{folder.name}` is damaged: {error}", help_) from None
    newest = find_latest_checkpoint([folder])
    best = newest.validation.get("best_step") if newest is not None else None
    if isinstance(best, int):
        return find_checkpoint_of_step([folder], best) or newest
    return newest


def find_weight_files(place: Path, endings: tuple[str, ...]) -> list[Path]:
    """Return the files whose names end so and that are nearest to the top of ``place``, or ``place``."""
    if place.is_file():
        return [place] if place.name.endswith(endings) else []
    for depth in range(1, _DEPTH + 1):
        paths = place.glob("/".join(["*"] * depth))
        found = sorted(path for path in paths if path.name.endswith(endings) and path.is_file())
        if found:
            return found
    return []
