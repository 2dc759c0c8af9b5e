"""When to write checkpoints, and where to go on from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wstrain import checkpoint, named, parts
from wstrain.errors import UserError
from wstrain.process_group import Group
from wstrain.strategies import Strategy


@dataclass
class CheckpointSaver:
    """Writes checkpoints as they fall due and finds the one to resume from.

    Args:
        folder: the ``checkpoints`` output.
        group: the ranks.
        strategy: whose state is kept.
        identity: what must be the same to go on from a checkpoint.
        intervals: a checkpoint is due when the steps done are a multiple of one of these.
        keep: checkpoints to keep.
        order: names of the model's trained parameters as optimizers number them, see
            :func:`wstrain.optimizers.order`.
        about: what the card of a checkpoint says besides.
    """

    folder: Path
    group: Group
    strategy: Strategy
    identity: Mapping[str, Any]
    intervals: Sequence[int]
    keep: int
    order: Sequence[str] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    _saved: int = field(default=-1, init=False)

    def step(self, done: int) -> None:
        """Save if due."""
        if any(done % interval == 0 for interval in self.intervals):
            self.save(done)

    def save(self, done: int) -> None:
        """Save now, unless this very step is saved already; if a rank cannot, every rank stops.

        Raises:
            UserError: the checkpoint cannot be written.
        """
        if done == self._saved:
            return
        state = self.strategy.state()
        if self.strategy.sharded:
            self._save_parts(done, state)
        else:
            with self.group.together():
                if self.group.launch.is_main:
                    whole = {"step": done, **state}
                    checkpoint.save(self.folder, done, whole, self.identity, keep=self.keep, about=self.about)
        self._saved = done

    def resume(self, resume_from: Path | None) -> int:
        """Load the newest whole checkpoint and return the steps it has done; 0 if there is none.

        A restarted job finds its own checkpoints in ``folder``; ``resume_from`` are those of another job.

        Raises:
            UserError: ``resume_from`` has no whole checkpoint, or the checkpoint is of another training.
        """
        found: checkpoint.Found | None = None
        with self.group.together():
            if self.group.launch.is_main:
                found = self._find(resume_from)
        found = self.group.from_main(found)
        if found is None:
            return 0
        with self.group.together():
            state = self._state(found)
        with self.group.together():
            self.strategy.load(state)
        self._saved = found.step if found.path.parent == self.folder else -1
        if self.group.launch.is_main:
            print(f"resuming from checkpoint {found.path.name}: {found.step} steps done", flush=True)
        return found.step

    def _find(self, resume_from: Path | None) -> checkpoint.Found | None:
        found = checkpoint.newest([self.folder, resume_from] if resume_from else [self.folder])
        if found is not None:
            checkpoint.expect_identity(found, self.identity)
        elif resume_from:
            raise UserError(
                f"`resume_from` has no whole checkpoint in `{resume_from}`",
                "bind the `checkpoints` output of a training step, or leave it out",
            )
        return found

    def _save_parts(self, done: int, state: Mapping[str, Any]) -> None:
        temporary: Path | None = None
        with self.group.together():
            if self.group.launch.is_main:
                temporary = checkpoint.begin(self.folder, done)
        temporary = self.group.from_main(temporary)
        assert temporary is not None
        with self.group.together(), checkpoint.writing(temporary):
            written = parts.write(temporary, state)
        files = {name: card for own in self.group.everyone(written) for name, card in own.items()}
        with self.group.together():
            if self.group.launch.is_main:
                card = {**self.about, "identity": dict(self.identity)}
                checkpoint.finish(temporary, files, card, keep=self.keep)

    def _state(self, found: checkpoint.Found) -> Any:
        """Read a checkpoint in the form that the strategy loads, whichever strategy wrote it."""
        if found.in_parts:
            stored = parts.Parts(found.path)
            return (
                stored
                if self.strategy.sharded
                else named.into_state(stored, self.strategy.state(), self.order)
            )
        state = checkpoint.load(found)
        return named.from_state(state, self.order) if self.strategy.sharded else state
