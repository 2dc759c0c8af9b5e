"""Find the checkpoint to resume from: the newest that is complete for every rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wsshards.errors import UserError, describe_error, print_warning
from wsshards.verify import hash_file
from wstrain.checkpoint import checkpoint_folder
from wstrain.checkpoint.checkpoint_folder import CARD, Checkpoint

_MISSING = "does not exist"


@dataclass(frozen=True, slots=True)
class ReadShare:
    """How ranks share the checking of files, so that together they read every byte.

    Attributes:
        rank: this process.
        ranks: number of ranks.
        local_rank: this process among those of its instance. A file that all ranks load is checked by one
            rank of each instance, as each instance may have its own copy.
        gather: returns the values of all ranks, by rank; called by all.
    """

    rank: int = 0
    ranks: int = 1
    local_rank: int = 0
    gather: Callable[[Any], list[Any]] = lambda value: [value]

    def files(self, checkpoint: Checkpoint) -> Sequence[str]:
        """Return the files that this rank checks."""
        if not checkpoint.is_sharded:
            return [name for name in checkpoint.files if self.local_rank == 0]
        return sorted(checkpoint.files)[self.rank :: self.ranks]


def find_latest_checkpoint(folders: Sequence[Path], share: ReadShare | None = None) -> Checkpoint | None:
    """Find the newest checkpoint that is complete for every rank; stderr names those that are damaged.

    Args:
        folders: where to look.
        share: the ranks; by default this process alone.

    Raises:
        UserError: rank 0 sees a complete checkpoint that another rank does not see.
    """
    share = share or ReadShare()
    candidates = [path for folder in folders for path in checkpoint_folder.list_checkpoints(folder)]
    candidates.sort(key=lambda path: path.name.zfill(64), reverse=True)
    for path in map(Path, share.gather([str(path) for path in candidates])[0]):
        faults = share.gather(_find_fault(path, share))
        wrong = next((rank for rank, fault in enumerate(faults) if fault is not None), None)
        if wrong is None:
            return checkpoint_folder.read_card(path)
        if faults[0] is None and all(fault in (None, _MISSING) for fault in faults):
            raise UserError(
                f"checkpoint `{path.name}` is whole for rank 0, but rank {wrong} does not see it",
                "bind `checkpoints` to a folder that all instances share",
            )
        if share.rank == 0:
            print_warning(f"checkpoint `{path.name}` is damaged ({faults[wrong]}), so it is not used")
    return None


def find_checkpoint_of_step(
    folders: Sequence[Path], step: int, share: ReadShare | None = None
) -> Checkpoint | None:
    """Find the checkpoint of a step that is complete for every rank; None if there is none.

    Args:
        folders: where to look, the first one first.
        step: finished optimizer steps.
        share: the ranks; by default this process alone.
    """
    share = share or ReadShare()
    for folder in folders:
        path = folder / checkpoint_folder.checkpoint_name(step)
        if not any(share.gather(_find_fault(path, share))):
            return checkpoint_folder.read_card(path)
    return None


def find_checkpoint_to_resume(
    folder: Path, resume_from: Path | None, identity: Mapping[str, Any], share: ReadShare
) -> Checkpoint | None:
    """Find the checkpoint that a training resumes from; None if it starts from the beginning.

    Args:
        folder: checkpoints of this job, which it finds again when it is restarted.
        resume_from: checkpoints of another job.
        identity: what must be the same to resume.
        share: the ranks.

    Raises:
        UserError: ``resume_from`` has no complete checkpoint, or the checkpoint is of another training.
    """
    checkpoint = find_latest_checkpoint([folder, resume_from] if resume_from else [folder], share)
    if checkpoint is not None:
        checkpoint_folder.expect_identity(checkpoint, identity)
    elif resume_from:
        raise UserError(
            f"`resume_from` has no whole checkpoint in `{resume_from}`",
            "bind the `checkpoints` output of a training step, or leave it out",
        )
    return checkpoint


def _find_fault(path: Path, share: ReadShare) -> str | None:
    try:
        if not path.exists():
            return _MISSING
        checkpoint = checkpoint_folder.read_card(path)
        for name, written in checkpoint.files.items():
            _expect_size(path, name, written["bytes"])
        for name in share.files(checkpoint):
            _expect_content(path, name, checkpoint.files[name]["sha256"])
    except FileNotFoundError as error:
        return f"`{Path(error.filename or CARD).name}` is missing"
    except OSError as error:
        return describe_error(error)
    except ValueError as error:
        return str(error)
    return None


def _expect_content(path: Path, name: str, expected: str) -> None:
    if hash_file(path / name) != expected:
        raise ValueError(f"`{name}` has another sha256 than when it was written")


def _expect_size(path: Path, name: str, expected: int) -> None:
    size = (path / name).stat().st_size
    if size != expected:
        raise ValueError(f"`{name}` has {size} bytes instead of {expected}")
