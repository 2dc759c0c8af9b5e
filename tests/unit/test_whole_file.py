"""Files are written as a whole, or stay as they were."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from worldsize.base.whole_file import write_whole


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", b"text")
    finally:
        os.umask(umask)
    assert (tmp_path / "new").read_bytes() == b"text"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_file_keeps_its_permissions_unless_others_are_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_bytes(b"old")
    file.chmod(0o755)
    write_whole(file, b"new", flush=True)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o755)
    write_whole(file, b"secret", mode=0o600)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "file")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_bytes() == b"new"
    assert list_names(tmp_path / "real") == ["file"]


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")

    def fail(_self: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write_whole(file, b"new")
    assert file.read_bytes() == b"old"
    assert list_names(tmp_path) == ["file"]


def test_a_read_only_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_arguments: False)  # root may write any file
    with pytest.raises(PermissionError):
        write_whole(file, b"new")
    assert file.read_bytes() == b"old"


def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(tmp_path / "pipe", b"text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "missing" / "file", b"")
