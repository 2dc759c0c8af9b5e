"""Files are written as a whole, or stay as they were."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from run_folders import FolderOfRun

from worldsize.base.whole_file import (
    SUFFIX,
    NotAsWrittenError,
    read_private,
    remove_parts,
    write_whole,
)
from worldsize.cli.main import main
from wsshards import whole_file as components


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


def test_a_link_at_a_place_that_nobody_named_is_replaced(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"theirs")
    for target in (outside, tmp_path / "nothing", Path("/dev/zero")):
        link = tmp_path / "link"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        write_whole(link, b"ours", follow=False)
        assert not link.is_symlink()
        assert link.read_bytes() == b"ours"
    assert outside.read_bytes() == b"theirs"
    assert list_names(tmp_path) == ["link", "outside"]


@pytest.mark.parametrize("links", [True, False])
def test_of_two_writers_of_a_new_file_one_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:  # as on FAT
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no links")))
    write_whole(tmp_path / "new", b"first", new=True)
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("new", "link"):
        with pytest.raises(FileExistsError) as caught:
            write_whole(tmp_path / name, b"second", new=True)
        assert caught.value.filename == str(tmp_path / name)
    assert (tmp_path / "new").read_bytes() == b"first"
    assert list_names(tmp_path) == ["link", "new"]


def test_an_error_names_the_file_and_not_its_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        write_whole(tmp_path / "file", b"new")
    assert caught.value.filename == str(tmp_path / "file")
    assert list_names(tmp_path) == []


FORM = re.compile(rb"[a-z]{8}")


def test_a_private_file_is_read_if_it_is_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert read_private(path, FORM) is None
    write_whole(path, b"abcdefgh", mode=0o600)
    assert read_private(path, FORM) == b"abcdefgh"
    for content in (b"", b"abcdefg", b"a" * 9, b"abcdefgh\n"):
        path.write_bytes(content)
        with pytest.raises(NotAsWrittenError, match="is damaged" if content else "is empty, as a full disk"):
            read_private(path, FORM)


@pytest.mark.parametrize("kind", ["mode", "link", "folder", "pipe", "owner"])
def test_a_private_file_of_another_kind_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path, other = tmp_path / "secret", tmp_path / "other"
    write_whole(other, b"abcdefgh", mode=0o600)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path, 0o600)  # nobody writes: reading it would never end
    elif kind == "link":
        path.symlink_to(other)
    else:
        other.rename(path)
    if kind == "mode":
        path.chmod(0o604)
    if kind == "owner":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(NotAsWrittenError, match=str(path)):
        read_private(path, FORM)


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    write_whole(tmp_path / "kept", b"x")
    (tmp_path / f".1-ab{SUFFIX}").touch()
    remove_parts(tmp_path)
    assert list_names(tmp_path) == ["kept"]


@pytest.mark.parametrize("failing", ["fsync", "open"])
def test_a_component_writes_a_whole_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "metrics.json"
    components.write_whole(path, "old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, failing, fail)
        with pytest.raises(OSError, match="No space left"):
            components.write_whole(path, "new")
    assert path.read_text() == "old"
    assert list_names(tmp_path) == ["metrics.json"]

    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "fsync", unsupported)  # as a mounted container answers
    components.write_whole(path, "new")
    assert path.read_text() == "new"


def test_the_page_is_not_written_through_a_link_of_the_runs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = FolderOfRun(tmp_path / ".worldsize")
    run.step("train")
    root = run.finish()
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs")
    for target in (theirs, tmp_path / "nothing"):
        (root / "report.html").unlink(missing_ok=True)
        (root / "report.html").symlink_to(target)
        assert CliRunner().invoke(main, ["report"]).exit_code == 0
        assert not (root / "report.html").is_symlink()
    assert theirs.read_text() == "theirs"
    assert not (tmp_path / "nothing").exists()
    elsewhere = root.rename(tmp_path / "elsewhere")
    root.symlink_to(elsewhere)  # the whole folder leads elsewhere
    (elsewhere / "report.html").unlink()
    refused = CliRunner().invoke(main, ["report"])
    assert (refused.exit_code, "is a link" in refused.stderr) == (1, True)
    assert not (elsewhere / "report.html").exists()
    assert CliRunner().invoke(main, ["report", "-o", str(tmp_path / "link.html")]).exit_code == 0
