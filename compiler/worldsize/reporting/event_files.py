"""Reads the scalars of TensorBoard's event files.

A file is records of a length (8 bytes), its checksum (4), the message and its checksum (4); a message is an
`Event` of `tensorboard/compat/proto/event.proto`. TensorBoard itself opens whatever bears the name of such a
file, and need not be installed where a run is looked at; the few fields of a scalar are read here.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from worldsize.base import untrusted
from worldsize.showing.curves import Curve

MAX_FILES = 50  # of one step
MAX_FOLDERS = 2_000  # that are looked into
MAX_BYTES = 64 << 20  # of one file
_STEP, _SUMMARY = 2, 5  # fields of an Event
_VALUE = 1  # of a Summary
_TAG, _SIMPLE, _TENSOR = 1, 2, 8  # of a Value
_CONTENT, _FLOATS, _DOUBLES = 4, 5, 6  # of a TensorProto
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5  # how a field is written


def read_event_files(*folders: Path) -> dict[str, Curve]:
    """Return the scalars of the event files below folders, by tag.

    A tag of a file in a folder that others do not share, such as Keras' `train` and `validation`, gets the
    folder's name in front. Links are not followed; what is damaged is left out from there on.
    """
    files = [file for folder in folders for file in _find_files(folder)][:MAX_FILES]
    shared = os.path.commonpath([file.parent for file in files]) if files else ""
    curves: dict[str, dict[float, float]] = {}
    for file in files:
        prefix = file.parent.relative_to(shared).as_posix()
        with untrusted.passed_over(), contextlib.suppress(ValueError, struct.error):
            for tag, step, value in _read_scalars(untrusted.read_bytes(file, MAX_BYTES)):
                curves.setdefault(tag if prefix == "." else f"{prefix}/{tag}", {})[step] = value
    return {name: sorted(points.items()) for name, points in curves.items()}


def _find_files(folder: Path) -> Iterator[Path]:
    """Yield the event files below a folder, the oldest first in each."""
    for count, (place, folders, names) in enumerate(os.walk(folder)):
        if count >= MAX_FOLDERS:
            return
        folders.sort()
        yield from (Path(place, name) for name in sorted(names) if ".tfevents." in name)


def _read_scalars(data: bytes) -> Iterator[tuple[str, float, float]]:
    """Yield tag, step and value; raises ValueError or struct.error where the file is damaged."""
    place = 0
    while place + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        message = memoryview(data)[place + 12 : place + 12 + length]
        if len(message) < length:  # it is still being written
            return
        place += 16 + length
        step, summaries = 0, []
        for field, value in _read_fields(message):
            if field == _STEP and isinstance(value, int):
                step = value
            elif field == _SUMMARY and isinstance(value, memoryview):
                summaries.append(value)
        for summary in summaries:
            for field, value in _read_fields(summary):
                if field == _VALUE and isinstance(value, memoryview):
                    yield from ((tag, step, number) for tag, number in _read_value(value))


def _read_value(message: memoryview) -> Iterator[tuple[str, float]]:
    """Yield the tag and the number of one value, if it is a scalar."""
    tag, number = "", None
    for field, value in _read_fields(message):
        if field == _TAG and isinstance(value, memoryview):
            tag = bytes(value).decode("utf-8", "replace")
        elif field == _SIMPLE and isinstance(value, memoryview):
            (number,) = struct.unpack("<f", value)
        elif field == _TENSOR and isinstance(value, memoryview):
            number = _read_tensor(value)
    if tag and number is not None:
        yield tag, number


def _read_tensor(message: memoryview) -> float | None:
    """Return the number of a tensor that holds a single one."""
    forms = {(_CONTENT, 4): "<f", (_CONTENT, 8): "<d", (_FLOATS, 4): "<f", (_DOUBLES, 8): "<d"}
    for field, value in _read_fields(message):
        if isinstance(value, memoryview) and (form := forms.get((field, len(value)))):
            (number,) = struct.unpack(form, value)
            return float(number)
    return None


def _read_fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number and the value of each field of a message of protocol buffers."""
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        field, form = key >> 3, key & 7
        if form == _VARINT:
            number, place = _read_varint(message, place)
            yield field, number
            continue
        if form == _BYTES:
            length, place = _read_varint(message, place)
        elif form in (_EIGHT, _FOUR):
            length = 8 if form == _EIGHT else 4
        else:
            raise ValueError(f"field {field} is written as {form}")
        if place + length > len(message):
            raise ValueError(f"field {field} is longer than its message")
        yield field, message[place : place + length]
        place += length


def _read_varint(message: memoryview, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            break
        number |= (message[place] & 0x7F) << shift
        place += 1
        if not message[place - 1] & 0x80:
            return number, place
    raise ValueError("a number does not end")
