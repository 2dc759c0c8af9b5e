"""A build of an extension that was killed must not keep later starts waiting."""

from __future__ import annotations

import os
import time
from pathlib import Path

from wstrain_deepspeed import dead_builds


def test_only_locks_that_nobody_can_be_building_behind_are_removed(tmp_path: Path) -> None:
    locks = [tmp_path / name / "lock" for name in ("old_op", "py311_cpu/old_op", "py311_cpu/new_op")]
    for lock in locks:
        lock.parent.mkdir(parents=True)
        lock.touch()
    for lock in locks[:2]:
        os.utime(lock, (time.time() - 2 * dead_builds.PATIENCE_SECONDS,) * 2)
    assert dead_builds.forget(tmp_path) == locks[:2]
    assert [lock.exists() for lock in locks] == [False, False, True]
    assert dead_builds.forget(tmp_path / "nowhere") == []
