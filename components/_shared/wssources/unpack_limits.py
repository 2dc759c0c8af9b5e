"""Limits of what a small file may unpack to, checked before anything is unpacked."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
import zlib
from typing import IO, Any

FREE_BYTES = 64 << 20  # bytes that any file may unpack to
MAX_RATIO = 500  # its own size that a file may unpack to beyond that
MAX_DIRECTORY_BYTES = 1 << 20  # bytes of a zip's list of members: about 10,000
MAX_HEADER_BYTES = 10_000  # bytes of an array's header, as NumPy has it
_END, _END_64 = b"PK\x05\x06", b"PK\x06\x06"
_END_BYTES = 22
_TAIL = _END_BYTES + 0xFFFF + 76  # bytes: the end of a zip with the longest comment, and its large form
_MAGIC = b"\x93NUMPY"


def check_unpacked(unpacked: int, packed: int) -> None:
    """Refuse what unpacks to far more than data does.

    Raises:
        ValueError: saying both sizes.
    """
    if unpacked > FREE_BYTES and unpacked > MAX_RATIO * packed:
        raise ValueError(
            f"{packed:,} bytes of it unpack to {unpacked:,} or more, over {MAX_RATIO} times as many"
        )


def open_archive(file: IO[bytes]) -> zipfile.ZipFile:
    """Open a zip archive whose list of members is not too long to be read, as NumPy writes them.

    Raises:
        ValueError: the list is too long, or a member is packed in a way that NumPy does not use, is
            encrypted, or unpacks to far more than data does.
        OSError, zipfile.BadZipFile: it cannot be read.
    """
    end = file.seek(0, io.SEEK_END)
    file.seek(max(0, end - _TAIL))
    tail = file.read()
    place = tail.rfind(_END, 0, max(0, len(tail) - _END_BYTES) + len(_END))
    if place >= 0 and len(tail) - place >= _END_BYTES:
        size = struct.unpack_from("<I", tail, place + 12)[0]
        large = tail.rfind(_END_64, 0, place)
        if size == 0xFFFFFFFF and 0 <= large <= len(tail) - 48:
            size = struct.unpack_from("<Q", tail, large + 40)[0]
        if size > MAX_DIRECTORY_BYTES:
            raise ValueError(f"its list of members has {size:,} bytes, and may have {MAX_DIRECTORY_BYTES:,}")
    archive = zipfile.ZipFile(file)
    for member in archive.infolist():
        if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} or member.flag_bits & 1:
            raise ValueError(
                f"`{member.filename}` in it is encrypted or packed in a way that NumPy does not use"
            )
        check_unpacked(member.file_size, member.compress_size)
    return archive


def read_npy_header(member: IO[bytes]) -> tuple[tuple[int, int], io.BytesIO]:
    """Return the version of an array in NumPy's own format (NEP 1), and its header with the length before it.

    Raises:
        ValueError: it is not such an array, or its header is longer than any.
    """
    start = member.read(8)
    if len(start) < 8 or not start.startswith(_MAGIC):
        raise ValueError("it is not an array of NumPy's")
    version = (start[6], start[7])
    width = 2 if version == (1, 0) else 4
    length = member.read(width)
    if len(length) < width:
        raise ValueError("it ends within an array's header")
    size = int.from_bytes(length, "little")
    if size > MAX_HEADER_BYTES:
        raise ValueError(f"an array's header has {size:,} bytes, and may have {MAX_HEADER_BYTES:,}")
    return version, io.BytesIO(length + member.read(size))


class LimitedGzip(io.RawIOBase):
    """The content of a gzip file, refused once it has become far more than data does."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        size = packed.seek(0, io.SEEK_END)
        packed.seek(max(0, size - 4))
        check_unpacked(int.from_bytes(packed.read(4), "little"), size)  # as it says itself, at its end
        packed.seek(0)
        self._content = gzip.GzipFile(fileobj=packed)
        self._done = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as far as there is something left; raises OSError for what is damaged."""
        try:
            data = self._content.read(len(buffer))
            self._done += len(data)
            check_unpacked(self._done, self._packed.tell())
        except (zlib.error, EOFError, ValueError) as error:
            raise OSError(str(error)) from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._content.close()
        self._packed.close()
        super().close()
