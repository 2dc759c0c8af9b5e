"""The record batches of an Arrow file, mapped and not copied: what would be unpacked is refused."""

from __future__ import annotations

import struct
from typing import Any

_MAGIC = b"ARROW1\0\0"
# Places of fields in the tables `Message` and `RecordBatch` of Arrow's format (Message.fbs).
_HEADER, _COMPRESSION = 2, 3


def map_batches(path: str) -> list[Any]:
    """The record batches of a file in Arrow's IPC format, as views of the mapped file.

    Only uncompressed batches are taken: compressed ones are copied to memory, as large as they say they are.
    The messages are read one after the other, so each is decoded just as it was looked at.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: it is not such a file, or a batch of it is compressed.
    """
    import pyarrow as pa  # noqa: PLC0415  a planner reads manifests without pyarrow

    source = pa.memory_map(path)
    if source.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it is not an Arrow file")
    messages = pa.ipc.MessageReader.open_stream(source)
    first = _read_message(messages)
    if first is None or first.type != "schema":  # pyarrow takes it for one unseen
        raise ValueError("it does not begin with a schema")
    schema = pa.ipc.read_schema(first)
    batches = []
    for number, message in enumerate(iter(lambda: _read_message(messages), None)):
        if message.type != "record batch":
            raise ValueError(f"message {number + 1} of it is not a record batch")
        if _is_compressed(message.metadata.to_pybytes()):
            raise ValueError(f"record batch {number + 1} of it is compressed, and shards are not")
        batches.append(pa.ipc.read_record_batch(message, schema))
    return batches


def _read_message(messages: Any) -> Any:
    try:
        return messages.read_next_message()
    except StopIteration:
        return None


def _is_compressed(message: bytes) -> bool:
    """Whether a message says that the buffers of its record batch are compressed."""
    try:
        header = _find_field(message, struct.unpack_from("<I", message)[0], _HEADER)
        batch = header + struct.unpack_from("<I", message, header)[0]
        return _find_field(message, batch, _COMPRESSION) != 0
    except struct.error:
        raise ValueError("the description of a record batch is damaged") from None


def _find_field(message: bytes, table: int, field: int) -> int:
    """Where a field of a FlatBuffers table is, or 0 where the table does not have it."""
    places = table - struct.unpack_from("<i", message, table)[0]
    entry = 4 + 2 * field
    if entry >= struct.unpack_from("<H", message, places)[0]:
        return 0
    offset = struct.unpack_from("<H", message, places + entry)[0]
    return table + offset if offset else 0
