"""Files of others, as every component and the compiler read them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.fuzz import foreign_files

from worldsize.base import limits, untrusted
from worldsize.cli.main import main
from worldsize.data import counts
from wsmodels import mlmodel
from wsshards import errors, manifest, regular_files, verify
from wsshards.errors import UserError
from wssources import unpack_limits

pytestmark = pytest.mark.skipif(os.name != "posix", reason="named pipes and devices")
REGISTER = Path(__file__).parents[2] / "components" / "register" / "src"


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_only_regular_files_are_opened(tmp_path: Path, pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "device").symlink_to("/dev/zero")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    kinds = {"pipe": "a named pipe", "device": "a device", "socket": "a socket", ".": "a folder"}
    for name, kind in kinds.items():
        with pytest.raises(OSError, match=f"it is {kind}, not a file"):
            regular_files.open_regular(tmp_path / name)
        with pytest.raises(OSError, match=f"it is {kind}, not a file"):
            regular_files.check_regular(tmp_path / name)


def test_a_file_that_takes_the_place_of_another_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("first")
    with regular_files.path_of_open(tmp_path / "a") as path:
        if not path.startswith("/proc"):
            pytest.skip("open files have names on Linux alone")
        (tmp_path / "a").unlink()
        os.mkfifo(tmp_path / "a")
        assert Path(path).read_text() == "first"


def test_no_more_than_was_bargained_for_is_read(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="more than the 100 it may have"):
        regular_files.read_regular(tmp_path / "a", 100)
    for number in range(4):
        (tmp_path / str(number)).touch()
    with pytest.raises(OSError, match="more than 3 files"):
        list(regular_files.list_files(tmp_path, 3))


def test_what_data_packs_to_is_believed() -> None:
    unpack_limits.check_unpacked(unpack_limits.FREE_BYTES, 1)
    unpack_limits.check_unpacked(10**12, 10**12 // unpack_limits.MAX_RATIO)
    with pytest.raises(ValueError, match="over 500 times as many"):
        unpack_limits.check_unpacked(unpack_limits.FREE_BYTES + 1, 1)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 猫", "plain é 猫"),
        ("\x1b[31m\x07", "\\x1b[31m\\x07"),
        ("a\nb\u202ec\x9b", "a\\nb\\u202ec\\x9b"),
        (os.fsdecode(b"caf\xe9"), "caf\\xe9"),
    ],
)
def test_a_message_shows_what_a_terminal_would_obey(text: str, shown: str) -> None:
    assert errors.escape_controls(text) == shown


COUNTED = {"format": "auto", "label": "label", "validation_fraction": 0.0}


@pytest.mark.parametrize("name", ["d.csv", "d.jsonl", "d.npz", "d.parquet", "d.txt"])
def test_the_count_of_rows_leaves_out_what_is_not_a_file(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert counts.count_split(tmp_path, COUNTED) is None
    assert counts.count_split(tmp_path / name, COUNTED) is None


def test_the_count_of_rows_lists_no_folder_twice(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x,label\n1,a\n2,b\n")
    assert counts.count_split(tmp_path, COUNTED) is not None
    (tmp_path / "up").symlink_to(".")
    assert counts.count_split(tmp_path, COUNTED) is None


def test_a_manifest_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / manifest.MANIFEST_NAME)
    with pytest.raises(UserError, match="it is a named pipe, not a file"):
        manifest.read_manifest(tmp_path)
    os.mkfifo(tmp_path / "shard")
    with pytest.raises(UserError, match="it is a named pipe, not a file"):
        verify.check_shard_size(tmp_path, manifest.Shard("shard", 0, 0, ""))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "has no readable `MLmodel`"),
        ("- a", "is not a mapping"),
        ("a: [", "is not YAML"),
        ("a: " + "[" * 100_000, "is nested too deeply"),
        ("- " * 100_000, "is nested too deeply"),
        ("a: &a {x: *a}", "says more by its anchors"),
        (
            "a0: &a0 [1]\n"
            + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
            "says more by its anchors",
        ),
        (" " * (mlmodel.MAX_MLMODEL_BYTES + 1), "more than the 1,048,576 it may have"),
    ],
)
def test_a_hostile_card_of_a_model_is_refused(tmp_path: Path, text: str | None, fault: str) -> None:
    if text is not None:
        (tmp_path / mlmodel.MLMODEL_NAME).write_text(text)
    with pytest.raises(UserError, match=fault):
        mlmodel.read_mlmodel(str(tmp_path))


def test_a_model_with_a_pipe_among_its_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / mlmodel.MLMODEL_NAME).write_text("flavors: {}")
    assert mlmodel.read_mlmodel(str(tmp_path)) == {"flavors": {}}
    (tmp_path / "data").mkdir()
    os.mkfifo(tmp_path / "data" / ".model.pkl")
    with pytest.raises(UserError, match=r"data/\.model\.pkl`: it is a named pipe, not a file"):
        mlmodel.read_mlmodel(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "it is a named pipe, not a file"),
        (1 << 30, "it has 1,073,741,824 bytes"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b"\xff", "cannot read"),
    ],
)
def test_hostile_metrics_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | int | None, fault: str
) -> None:
    monkeypatch.syspath_prepend(REGISTER)
    path = tmp_path / "metrics.json"
    if content is None:
        os.mkfifo(path)
    elif isinstance(content, int):
        path.touch()
        os.truncate(path, content)
    else:
        path.write_bytes(content)
    import gate

    try:
        with pytest.raises(UserError, match=fault):
            gate.read_metrics(str(tmp_path))
    finally:
        del sys.modules["gate"]


def test_what_is_not_a_file_is_said_in_a_sentence(tmp_path: Path, pipe: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "text").write_bytes(b"a\r\nb\xff")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 1 << 40)
    reasons = {
        "pipe": "it is a named pipe, not a file",
        "loop": "it is a link that leads back to itself",
        "text": "it is not utf-8 text: byte 0xff at 4",
        "large": "it has 1,099,511,627,776 bytes, more than the 16,777,216 it may have",
        "": "it is a folder, not a file",
    }
    for name, reason in reasons.items():
        with pytest.raises(untrusted.UnreadableError) as caught:
            untrusted.read_text(tmp_path / name)
        assert str(caught.value) == f"`{tmp_path / name}` cannot be read: {reason}"
        assert caught.value.too_large is (name == "large")
    for name in ("nothing", "text/below", "a\0b", "x" * 300):
        with pytest.raises(FileNotFoundError):
            untrusted.read_bytes(tmp_path / name)
    assert untrusted.read_text(tmp_path / "text", errors="replace") == "a\nb\ufffd"
    assert untrusted.find_fault(pipe) == reasons["pipe"]
    assert untrusted.find_fault(tmp_path, folder=True) is None


def test_a_size_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RECORD", 1 << 20)
    if Path("/proc/self/status").exists():
        assert b"Name:" in untrusted.read_bytes("/proc/self/status")  # of size 0
    path = tmp_path / "grows"
    path.write_text("a\n" * 1000)
    with untrusted.open_file(path) as file:
        path.write_text("a\n" * 2000)
        with pytest.raises(untrusted.UnreadableError, match="more than the 3,000"):
            untrusted.read_bytes(path, 3000)
        chunks = untrusted.read_chunks(file)
        assert next(chunks) == b"a\n" * 2000
        with path.open("a") as longer:
            longer.write("a\n")
        with pytest.raises(untrusted.UnreadableError, match="it grew while it was read"):
            next(chunks)
    path.write_bytes(b"a\n" * (1 << 20))
    with pytest.raises(untrusted.UnreadableError, match="more than the 1,048,576"):
        list(untrusted.read_lines(path))


def test_a_file_that_is_passed_over_is_warned_of(pipe: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        untrusted.UnreadableError(1, "it is odd", str(pipe)).warn()
    assert [str(each.message) for each in caught] == [f"`{pipe}` cannot be read: it is odd"]


@pytest.mark.timeout(30)
def test_a_pipe_that_git_waits_for_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "--quiet"], check=True)
    os.mkfifo(".gitignore")
    result = CliRunner().invoke(main, ["check", "."])
    assert result.exit_code == 1
    assert "`.gitignore` cannot be read: it is a named pipe, not a file" in result.output


SELECTED = {"check a job": ("pipe", "1 TiB"), "plan": ("device",), "show": ("pipe",), "logs": ("growing",)}


@pytest.mark.run  # in a process for each
@pytest.mark.smoke
@pytest.mark.timeout(120)
def test_no_command_waits_for_what_is_not_a_file(tmp_path: Path) -> None:
    matrix = foreign_files.Matrix(tmp_path, [*SELECTED])
    for cell in foreign_files.list_cells(matrix, [*foreign_files.KINDS]):
        if cell.kind in SELECTED[cell.command]:
            assert matrix.judge(cell) is None, cell
