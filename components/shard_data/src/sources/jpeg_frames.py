"""Tells from a JPEG's markers whether Pillow decodes it, where one with the same tables was decoded before.

A decoder refuses a baseline JPEG for its tables, or because it ends too early; bits that are wrong within a
scan it decodes to other pixels (ITU-T T.81, annex B; libjpeg's `jdmarker.c` and `jdhuff.c`). So a picture
whose tables are known to work, and whose one scan ends with the end of the image, need not be decoded again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SIDE = 65_500  # pixels: the most that libjpeg takes
_MODES = {1: "L", 3: "RGB"}
_START, _SOF, _SOS = b"\xff\xd8", (0xC0, 0xC1), 0xDA
_DQT, _DHT, _DRI, _APP0, _APP2, _APP14, _COMMENT = 0xDB, 0xC4, 0xDD, 0xE0, 0xE2, 0xEE, 0xFE
_TABLES = frozenset([_DQT, _DHT, _DRI, _APP14])
_JFIF_BYTES, _ICC_BYTES = 14, 18  # of a segment: fewer are damaged
_END = 0xD9
_MARKER, _MARKER_BUT_RESTART = re.compile(rb"\xff[^\x00]"), re.compile(rb"\xff[^\x00\xd0-\xd7]")
_MAX_TABLES = 4096  # that are remembered, some 600 bytes each


@dataclass(frozen=True, slots=True)
class JpegFrame:
    """A baseline JPEG of one scan, without EXIF.

    Attributes:
        size: width and height in pixels.
        mode: Pillow's.
        tables: everything that a decoder needs beside the size and the scan.
        scan: where the scan begins in the file.
    """

    size: tuple[int, int]
    mode: str
    tables: bytes
    scan: int

    def is_whole(self, data: bytes) -> bool:
        """Whether the scan is followed by the end of the image."""
        restarts = b"\xff\xdd" in self.tables
        marker = (_MARKER_BUT_RESTART if restarts else _MARKER).search(data, self.scan)
        return marker is not None and data[marker.start() + 1] == _END


def read_frame(data: bytes) -> JpegFrame | None:
    """Return the frame of a JPEG, whose scan need not be in `data`; None for any other file."""
    if data[:2] != _START:
        return None
    at, tables, frame = 2, [], b""
    while at + 4 <= len(data) and data[at] == 0xFF:
        kind, stop = data[at + 1], at + 2 + (data[at + 2] << 8 | data[at + 3])
        if stop > len(data) or stop < at + 4:
            return None
        segment = data[at:stop]
        if kind == _SOS:
            return _make_frame(frame, segment, tables, stop)
        if kind in _SOF and not frame:
            frame = segment
        elif kind in _TABLES:
            tables.append(segment)
        elif not _is_harmless(kind, segment):
            return None
        at = stop
    return None


def _is_harmless(kind: int, segment: bytes) -> bool:
    """Whether a segment changes nothing about how the picture is seen."""
    if kind == _APP0:
        return segment[4:9] == b"JFIF\0" and len(segment) >= _JFIF_BYTES
    profile = kind == _APP2 and segment[4:16] == b"ICC_PROFILE\0" and len(segment) >= _ICC_BYTES
    return kind == _COMMENT or profile


def _make_frame(frame: bytes, scan: bytes, tables: list[bytes], stop: int) -> JpegFrame | None:
    # Length, bits, height, width, number of components, three bytes for each.
    channels = frame[9] if len(frame) > 9 else 0
    if channels not in _MODES or len(frame) != 10 + 3 * channels or frame[4] != 8 or scan[4] != channels:
        return None
    height, width = frame[5] << 8 | frame[6], frame[7] << 8 | frame[8]
    if not 0 < height <= _SIDE or not 0 < width <= _SIDE:
        return None
    return JpegFrame((width, height), _MODES[channels], b"".join([*tables, frame[9:], scan]), stop)


class DecodedTables:
    """The tables of JPEGs that were decoded."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def add(self, frame: JpegFrame) -> None:
        """Remember the tables of a picture that was decoded."""
        if len(self._known) < _MAX_TABLES:
            self._known.add(frame.tables)

    def cover(self, frame: JpegFrame, data: bytes) -> bool:
        """Whether the picture need not be decoded to know that it can be."""
        return frame.tables in self._known and frame.is_whole(data)
