"""The size and channels of a picture, from the first bytes of its file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from wsshards.regular_files import open_regular

Shape = tuple[int, int, int]  # channels, or 0 where only the pixels tell; height; width
_PNG, _JPEG, _GIF, _BMP = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", (b"GIF87a", b"GIF89a"), b"BM"
_OTHERS = (b"II", b"MM", b"RIFF", b"P")  # TIFF, WebP and PPM, which are not read here
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 4, 6: 4}  # by colour type: with a palette RGB, grey with alpha RGBA
_SEGMENTS = 200  # of a JPEG before its size; a picture of a camera has about ten
_CHUNKS = 2_000  # of a PNG
_CHECKSUMS = 8  # bytes behind the last pixel, which readers do without


def read_shape(path: Path) -> Shape | None:
    """Return the shape of a PNG, JPEG, GIF or BMP; None for another format.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is no picture, or ends before its pixels.
    """
    with open_regular(path) as file:
        head = file.read(64)
        if head.startswith(_PNG):
            return _read_png(file, head)
        if head.startswith(_JPEG):
            return _read_jpeg(file)
        if head.startswith(_OTHERS):
            return None
        if not head.startswith((*_GIF, _BMP)):
            raise ValueError("it is not a picture of a known format" if head else "it is empty")
        if len(head) < 30:
            raise ValueError("it ends before the picture begins")
        if not head.startswith(_BMP):
            return (0, *struct.unpack_from("<HH", head, 6)[::-1])
        if struct.unpack_from("<I", head, 14)[0] < 40:  # of OS/2
            return None
        width, height, _, bits = struct.unpack_from("<iiHH", head, 18)
        return 3 if bits == 24 else 0, abs(height), width


def _read_png(file: IO[bytes], head: bytes) -> Shape:
    if len(head) < 33 or head[12:16] != b"IHDR":
        raise ValueError("it ends before the picture begins")
    width, height, _, colours = struct.unpack_from(">IIBB", head, 16)
    size, at, pixels = file.seek(0, 2), 8, False
    for _ in range(_CHUNKS):
        file.seek(at)
        start = file.read(8)
        if not pixels and (len(start) < 8 or start[4:] == b"IEND"):
            raise ValueError("it ends before the picture begins")
        if len(start) < 8 or start[4:] == b"IEND":
            break
        pixels = pixels or start[4:] == b"IDAT"
        at += 12 + int.from_bytes(start[:4], "big")
        if start[4:] == b"IDAT" and at > size + _CHECKSUMS:
            raise ValueError(f"it has {size:,} bytes, and its pixels end at byte {at:,}")
    return _PNG_CHANNELS.get(colours, 0), height, width


def _read_jpeg(file: IO[bytes]) -> Shape:
    for marker, content in _jpeg_segments(file):
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            if len(content) < 6:
                break
            _, height, width, channels = struct.unpack_from(">BHHB", content)
            return (1 if channels == 1 else 3), height, width
    raise ValueError("it ends before the picture begins")


def _jpeg_segments(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    at = 2
    for _ in range(_SEGMENTS):
        file.seek(at)
        head = file.read(4)
        if len(head) < 4 or head[0] != 0xFF:
            return
        if head[1] == 0xFF:  # a byte that fills
            at += 1
            continue
        length = int.from_bytes(head[2:], "big")
        yield head[1], file.read(min(length - 2, 16)) if length > 2 else b""
        at += 2 + length
