"""Reads a shards folder: random access to memory-mapped rows, by their number in the split.

A shard is an Arrow IPC file with a column of features and one of labels: a number for each row, or a
fixed-size list of them. Features are a fixed-size list, or the file of a picture. Mapping costs no copy:
every process of an instance shares the pages of one file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wsshards.errors import UserError
from wsshards.manifest import Shard, label_shape, read_manifest
from wsshards.pictures import EncodedColumn, decode_rows
from wsshards.regular_files import path_of_open
from wsshards.terms import GROUP, GROUP_COLUMN, HASH_COLUMN, LABEL_COLUMN, LABEL_DTYPES
from wsshards.verify import check_shard_content, check_shard_size

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Piece:
    """One record batch: consecutive rows of the split, as views of the mapped file."""

    features: Array | EncodedColumn
    labels: Array | None
    keys: Array | None  # hashes of the rows, or of their groups
    shard: int


class ShardReader:
    """The rows of one split, numbered from 0 in the order of the shards.

    Sizes of all shards are checked when the first row is read. The SHA-256 of a shard is checked before
    its first row is used, unless the caller has verified the folder itself (`checksums=False`).
    A reader can be pickled; the copy maps the files again.
    """

    def __init__(self, folder: str | Path, split: str, *, checksums: bool = True) -> None:
        self.folder = Path(folder)
        self.split = split
        self.checksums = checksums
        self.manifest = read_manifest(folder)
        self._shards = self.manifest.split(split).shards
        self._pieces: list[_Piece] = []
        self._starts: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        self._unchecked: set[int] = set()

    def __len__(self) -> int:
        return self.manifest.split(self.split).rows

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.folder, self.split, self.checksums)

    def gather(self, indices: npt.NDArray[np.int64]) -> tuple[Array, Array | None]:
        """Return rows by number, in the given order.

        Args:
            indices: row numbers `[n]`, `0 <= i < len(self)`; repeats are allowed.

        Returns:
            Features `[n, *shape]` of the manifest's dtype, and labels or None: int64 `[n]` for classes,
            float64 `[n, targets]` for a regression, uint8 `[n, classes]` for several labels.

        Raises:
            UserError: a shard is missing, of another size or corrupted.
            IndexError: a number is outside the split.
        """
        features, labels = self.gather_stored(indices)
        spec = self.manifest.features
        if isinstance(features, list):
            features = decode_rows(features, spec.shape, spec.dtype, spec.scale)
        elif spec.stored:
            features = np.multiply(features, np.dtype(spec.dtype).type(spec.scale), dtype=spec.dtype)
        return features.reshape(len(indices), *spec.shape), labels

    def gather_stored(self, indices: npt.NDArray[np.int64]) -> tuple[Array | list[bytes], Array | None]:
        """Return rows as they are on disk: `[n, width]` of `disk_dtype`, or files of pictures.

        Arguments, labels and errors are those of :meth:`gather`.
        """
        if not self._pieces:
            self._open()
        indices = np.asarray(indices, np.int64)
        if indices.size and indices.view(np.uint64).max() >= len(self):  # a negative number is a huge one
            raise IndexError(f"row numbers of `{self.split}` go from 0 to {len(self) - 1}")
        return self._take(indices)

    def labels(self) -> Array:
        """Return the labels of all rows, as :meth:`gather` does; no features are read.

        Raises:
            UserError: a shard is missing or of another size, or the rows have no labels.
        """
        if not self._pieces:
            self._open()
        labels = [piece.labels for piece in self._pieces if piece.labels is not None]
        if not labels:
            raise UserError(f"the rows of `{self.folder}` have no labels")
        return np.concatenate(labels)

    def groups(self) -> npt.NDArray[np.uint64] | None:
        """Return the hash `[n]` of the group of each row, or None if rows are not divided by groups.

        Raises:
            UserError: a shard is missing, of another size, or lacks the groups.
        """
        return self.keys() if self.manifest.division.method == GROUP else None

    def keys(self) -> npt.NDArray[np.uint64]:
        """Return the hash `[n]` by which each row was divided: of its group, or of the rows that test.

        Raises:
            UserError: a shard is missing, of another size, or lacks the hashes.
        """
        if not self._pieces:
            self._open()
        return np.concatenate([self._keys_of(piece) for piece in self._pieces])

    def _keys_of(self, piece: _Piece) -> npt.NDArray[np.uint64]:
        if piece.keys is None or piece.keys.dtype != np.uint64:
            raise _unreadable(self._shards[piece.shard], f"there is no column `{self._key_column}`")
        return piece.keys

    @property
    def _key_column(self) -> str:
        return GROUP_COLUMN if self.manifest.division.method == GROUP else HASH_COLUMN

    def _take(self, indices: npt.NDArray[np.int64]) -> tuple[Array | list[bytes], Array | None]:
        spec = self.manifest.features
        if len(self._pieces) == 1:
            self._check(self._pieces[0].shard)
            piece = self._pieces[0]
            return piece.features[indices], piece.labels[indices] if piece.labels is not None else None
        features: Array = (
            np.empty(len(indices), object)
            if spec.encoded
            else np.empty((len(indices), spec.width), spec.disk_dtype)
        )
        labels = self._empty_labels(len(indices))
        where = np.searchsorted(self._starts, indices, side="right") - 1
        order = np.argsort(where, kind="stable")
        numbers, begins = np.unique(where[order], return_index=True)
        # Nothing asked for is one empty piece to `split`, and no piece to `unique`.
        for number, rows in zip(numbers.tolist(), np.split(order, begins[1:]), strict=False):
            piece = self._pieces[number]
            self._check(piece.shard)
            local = indices[rows] - self._starts[number]
            features[rows] = piece.features[local]
            if labels is not None and piece.labels is not None:
                labels[rows] = piece.labels[local]
        return (list(features) if spec.encoded else features), labels

    def _empty_labels(self, rows: int) -> Array | None:
        if self.manifest.label is None:
            return None
        return np.empty((rows, *label_shape(self.manifest)), LABEL_DTYPES[self.manifest.task])

    def _check(self, number: int) -> None:
        if number in self._unchecked:
            check_shard_content(self.folder, self._shards[number])
            self._unchecked.discard(number)

    def _open(self) -> None:
        for shard in self._shards:
            check_shard_size(self.folder, shard)
        if not self._shards:
            raise UserError(
                f"the `{self.split}` split of `{self.folder}` has no rows",
                help=f"shard the data with a `{self.split}_fraction` above 0",
            )
        pieces = [piece for number in range(len(self._shards)) for piece in self._map(number)]
        self._starts = np.cumsum([0, *(len(piece.features) for piece in pieces)], dtype=np.int64)[:-1]
        self._unchecked = set(range(len(self._shards))) if self.checksums else set()
        self._pieces = pieces

    def _map(self, number: int) -> list[_Piece]:
        import pyarrow as pa  # a planner reads manifests without pyarrow

        shard = self._shards[number]
        try:
            with path_of_open(self.folder / shard.path) as path:
                batches = map_record_batches(path)
            for batch in batches:
                batch.validate(full=True)  # nothing in the file may point outside of it
        except (OSError, ValueError, pa.ArrowException) as error:
            raise _unreadable(shard, str(error).partition("\n")[0]) from None
        pieces = [self._piece(batch, number) for batch in batches if batch.num_rows]
        if sum(len(piece.features) for piece in pieces) != shard.rows:
            raise _unreadable(shard, "another number of rows than the manifest says")
        return pieces

    def _piece(self, batch: Any, number: int) -> _Piece:
        spec = self.manifest.features
        features: Array | EncodedColumn
        try:
            if spec.encoded:
                features = EncodedColumn(batch.column(spec.name))
            else:
                values = batch.column(spec.name).flatten().to_numpy(zero_copy_only=True)
                features = values.reshape(batch.num_rows, spec.width)
            labels = self._map_labels(batch)
            keys = self._map_keys(batch)
        except (KeyError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
            raise _unreadable(self._shards[number], str(error)) from None
        if isinstance(features, EncodedColumn):
            return _Piece(features, labels, keys, number)
        if features.dtype != spec.disk_dtype:
            raise _unreadable(
                self._shards[number], f"values are {features.dtype}, the manifest says {spec.disk_dtype}"
            )
        return _Piece(features, labels, keys, number)

    def _map_keys(self, batch: Any) -> Array | None:
        name = self._key_column
        if name not in batch.schema.names or self.manifest.features.name == name:
            return None
        keys: Array = batch.column(name).to_numpy(zero_copy_only=True)
        return keys

    def _map_labels(self, batch: Any) -> Array | None:
        if self.manifest.label is None:
            return None
        shape, column = label_shape(self.manifest), batch.column(LABEL_COLUMN)
        values: Array = (column.flatten() if shape else column).to_numpy(zero_copy_only=True)
        if values.dtype != LABEL_DTYPES[self.manifest.task]:
            raise ValueError(f"labels of {self.manifest.task} are {values.dtype}")
        labels: Array = values.reshape(batch.num_rows, *shape)
        return labels


def _reopen(folder: Path, split: str, checksums: bool) -> ShardReader:
    return ShardReader(folder, split, checksums=checksums)


def _unreadable(shard: Shard, reason: str) -> UserError:
    return UserError(
        f"shard `{shard.path}` is not what the manifest describes: {reason}",
        help="write the folder again with a `shard_data` step",
    )


_MAGIC = b"ARROW1\0\0"
# Numbers of fields in the tables `Message` and `RecordBatch` of Arrow's format (Message.fbs).
_HEADER, _COMPRESSION = 2, 3


def map_record_batches(path: str) -> list[Any]:
    """Return the record batches of a file in Arrow's IPC format, as views of the mapped file.

    Only uncompressed batches are taken: compressed ones are copied to memory, as large as they say they are.
    The messages are read one after the other, so each is decoded just as it was looked at.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: it is not such a file, or a batch of it is compressed.
    """
    import pyarrow as pa  # a planner reads manifests without pyarrow

    source = pa.memory_map(path)
    if source.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it is not an Arrow file")
    messages = pa.ipc.MessageReader.open_stream(source)
    first = _read_message(messages)
    if first is None or first.type != "schema":  # pyarrow does not check it
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
    """Return where a field of a FlatBuffers table is; 0 if the table does not have it."""
    places = table - struct.unpack_from("<i", message, table)[0]
    entry = 4 + 2 * field
    if entry >= struct.unpack_from("<H", message, places)[0]:
        return 0
    offset = struct.unpack_from("<H", message, places + entry)[0]
    return table + offset if offset else 0
