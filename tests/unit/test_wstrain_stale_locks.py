"""A build of an extension that was killed must not keep later starts waiting."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wstrain_deepspeed import stale_locks


@pytest.fixture
def locks(tmp_path: Path) -> list[Path]:
    """Locks of builds that began a minute ago."""
    found = [tmp_path / name / "lock" for name in ("op", "py311_cpu/another_op", "py311_cpu/op")]
    for lock in found:
        lock.parent.mkdir(parents=True)
        lock.touch()
        os.utime(lock, (time.time() - 60,) * 2)
    return found


@pytest.fixture
def builds_behind(locks: list[Path]) -> Iterator[Path]:
    with locks[2].open():
        yield locks[2]


linux = pytest.mark.skipif(sys.platform != "linux", reason="who has a file open is read from /proc")


@linux
def test_a_lock_that_nobody_has_open_is_removed_at_once(
    tmp_path: Path, locks: list[Path], builds_behind: Path
) -> None:
    assert stale_locks.remove_stale_locks(tmp_path) == locks[:2]
    assert [lock.exists() for lock in locks] == [False, False, True]
    assert stale_locks.remove_stale_locks(tmp_path / "nowhere") == []


@linux
def test_a_lock_is_given_the_time_to_be_opened(tmp_path: Path, locks: list[Path]) -> None:
    os.utime(locks[0])
    began = time.monotonic()
    assert stale_locks.remove_stale_locks(tmp_path) == sorted(locks)
    assert 0.5 < time.monotonic() - began < 5


def test_where_others_build_too_only_age_tells(
    tmp_path: Path, locks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stale_locks, "_is_shared", lambda device: True)
    os.utime(locks[1], (time.time() - 2 * stale_locks.PATIENCE_SECONDS,) * 2)
    assert stale_locks.remove_stale_locks(tmp_path) == [locks[1]]


def test_extensions_are_built_apart_from_those_of_another_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    roots = []
    for version in ("2.10.0+cu128", "2.13.0+cpu"):
        monkeypatch.setenv(stale_locks.VARIABLE, "")
        roots.append(stale_locks.choose_root(version))
        assert os.environ[stale_locks.VARIABLE] == str(roots[-1])
    assert len({*roots}) == 2
    if sys.platform == "linux":
        assert {root.parent for root in roots} == {tmp_path / "torch_extensions"}
    monkeypatch.setenv(stale_locks.VARIABLE, str(tmp_path))
    assert stale_locks.choose_root("2.13.0") == tmp_path
