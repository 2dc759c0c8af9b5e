"""Pictures that are kept as files: a file of the source is copied only if it is on another disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
SRC = Path(__file__).parents[2] / "components" / "shard_data" / "src"


@pytest.fixture
def blobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(SRC))
    import blobs  # type: ignore[import-not-found,unused-ignore]

    yield blobs
    sys.modules.pop("blobs")


@pytest.fixture
def kept(blobs: Any) -> Iterator[Any]:
    file = blobs.BlobFile(lambda path: path.name)
    yield file
    file.close()


def write_file(blobs: Any, path: Path, content: bytes, **changes: Any) -> Any:
    path.write_bytes(content)
    return blobs.hash_content(content, blobs.find_file(path)._replace(**changes))


def count_copied(kept: Any) -> int:
    return os.fstat(kept._file.fileno()).st_size  # nobody else can see an unnamed file


def test_rows_are_read_in_any_order(blobs: Any, kept: Any, tmp_path: Path) -> None:
    disk = os.fstat(kept._file.fileno()).st_dev
    rows = [
        write_file(blobs, tmp_path / "a.jpg", b"a file", disk=disk),
        blobs.hash_content(b"converted"),
        write_file(blobs, tmp_path / "b.jpg", b"of another disk", disk=disk + 1),
        blobs.hash_content(b""),
    ]
    references = kept.append(rows)
    assert count_copied(kept) == len(b"converted" + b"of another disk")
    assert kept.read(references[[2, 0, 3, 1]]).to_pylist() == [
        b"of another disk",
        b"a file",
        b"",
        b"converted",
    ]


def change_content(path: Path) -> None:
    path.write_bytes(b"changed")  # as many bytes as before
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize(
    "change", [change_content, Path.unlink, lambda path: path.write_bytes(b"longer than it was")]
)
def test_a_file_that_changes_before_it_is_written_is_an_error(
    blobs: Any, kept: Any, tmp_path: Path, change: Any
) -> None:
    from wsshards.errors import UserError  # type: ignore[import-not-found,unused-ignore]

    row = write_file(blobs, tmp_path / "a.jpg", b"content", disk=os.fstat(kept._file.fileno()).st_dev)
    references = kept.append([row])
    change(tmp_path / "a.jpg")
    with pytest.raises(UserError, match=r"`a\.jpg` has changed since sharding began"):
        kept.read(references)
