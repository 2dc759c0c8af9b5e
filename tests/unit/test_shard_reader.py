from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wsshards.errors import UserError
from wsshards.verify import hash_file

pytestmark = [pytest.mark.run, pytest.mark.smoke]  # needs numpy and pyarrow

Made = Callable[..., tuple[Path, Any, Any]]


@pytest.fixture
def shards(tmp_path: Path) -> Made:
    """Write a shards folder by hand: the reader must understand the format, not only our writer."""

    def make(
        batches: tuple[tuple[int, ...], ...] = ((4, 3), (7,), (6,)),
        stored: str = "",
        compression: str | None = None,
    ) -> tuple[Path, Any, Any]:
        import numpy as np
        import pyarrow as pa

        from wsshards import manifest as m

        rows = sum(sum(shard) for shard in batches)
        kind = stored or "float32"
        features = np.random.default_rng(0).integers(0, 255, (rows, 6)).astype(kind)
        labels = np.arange(rows) % 3
        (tmp_path / "train").mkdir()
        written, at = [], 0
        for number, sizes in enumerate(batches):
            path = tmp_path / "train" / f"shard-{number:05d}.arrow"
            schema = pa.schema([("features", pa.list_(pa.from_numpy_dtype(kind), 6)), ("label", pa.int64())])
            options = pa.ipc.IpcWriteOptions(compression=compression)
            with pa.ipc.new_file(str(path), schema, options=options) as writer:
                for size in sizes:
                    values = pa.FixedSizeListArray.from_arrays(
                        pa.array(features[at : at + size].reshape(-1)), 6
                    )
                    writer.write_batch(
                        pa.record_batch([values, pa.array(labels[at : at + size])], schema=schema)
                    )
                    at += size
            digest = hash_file(path)
            written.append(m.Shard(f"train/{path.name}", sum(sizes), path.stat().st_size, digest))
        manifest = m.Manifest(
            "classification",
            "test",
            0,
            m.Features("features", "float32", (1, 2, 3), stored, 1 / 255 if stored else 1.0),
            m.Label(("label",), ("a", "b", "c")),
            m.Split(rows, tuple(written)),
            m.Split(0, ()),
        )
        (tmp_path / m.MANIFEST_NAME).write_text(m.manifest_to_json(manifest))
        return tmp_path, features, labels

    return make


@pytest.mark.parametrize("batches", [((20,),), ((4, 3), (7,), (6,)), ((1,),) * 12])
def test_gather_takes_rows_in_any_order_and_repeats_them(shards: Made, batches: Any) -> None:
    import numpy as np

    from wsshards.reader import ShardReader

    folder, features, labels = shards(batches)
    reader = ShardReader(folder, "train")
    wanted = np.random.default_rng(1).integers(0, len(reader), 50)
    x, y = reader.gather(wanted)
    assert x.shape == (50, 1, 2, 3)
    assert x.dtype == np.float32
    assert (x.reshape(50, -1) == features[wanted]).all()
    assert y is not None
    assert (y == labels[wanted]).all()
    assert x.flags.writeable  # torch.from_numpy warns about arrays it may not write to
    assert reader.gather(np.empty(0, np.int64))[0].shape == (0, 1, 2, 3)


def test_stored_bytes_are_read_scaled(shards: Made) -> None:
    import numpy as np

    from wsshards.reader import ShardReader

    folder, features, _ = shards(stored="uint8")
    x, _ = ShardReader(folder, "train").gather(np.arange(20))
    assert x.dtype == np.float32
    assert np.allclose(x.reshape(20, -1), features / 255)


def test_reader_survives_pickling(shards: Made) -> None:
    import numpy as np

    from wsshards.reader import ShardReader

    reader = ShardReader(shards()[0], "train")
    x, _ = reader.gather(np.arange(20))
    again, _ = pickle.loads(pickle.dumps(reader)).gather(np.arange(20))
    assert (x == again).all()


def test_rows_outside_the_split_are_refused(shards: Made) -> None:
    import numpy as np

    from wsshards.reader import ShardReader

    reader = ShardReader(shards()[0], "train")
    for index in (-1, 20):
        with pytest.raises(IndexError, match="from 0 to 19"):
            reader.gather(np.array([index]))


def test_corrupted_shard_is_named_before_its_rows_are_used(shards: Made) -> None:
    import numpy as np

    from wsshards.reader import ShardReader

    folder, features, _ = shards()
    path = folder / "train" / "shard-00001.arrow"
    data = bytearray(path.read_bytes())
    place = data.find(features[7:9].tobytes())
    data[place + 5] ^= 1
    path.write_bytes(bytes(data))
    reader = ShardReader(folder, "train")
    reader.gather(np.arange(7))  # the first shard is whole
    with pytest.raises(UserError, match=r"`train/shard-00001.arrow` is corrupted"):
        reader.gather(np.array([0, 8]))


def test_truncated_shard_is_named(shards: Made) -> None:
    import numpy as np

    from wsshards.reader import ShardReader

    folder = shards()[0]
    path = folder / "train" / "shard-00002.arrow"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(UserError, match=r"`train/shard-00002.arrow` has"):
        ShardReader(folder, "train").gather(np.array([0]))


def test_empty_split_says_so(shards: Made) -> None:
    import numpy as np

    from wsshards.reader import ShardReader

    reader = ShardReader(shards()[0], "validation")
    assert len(reader) == 0
    with pytest.raises(UserError, match=r"`validation` split of .* has no rows"):
        reader.gather(np.empty(0, np.int64))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_shard_is_refused_before_it_is_unpacked(shards: Made, compression: str) -> None:
    import numpy as np

    from wsshards.reader import ShardReader

    folder = shards(((200_000,),), compression=compression)[0]
    with pytest.raises(UserError, match=r"shard-00000.arrow` is not .*: record batch 1 of it is compressed"):
        ShardReader(folder, "train").gather(np.array([0]))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "it is not an Arrow file"),
        (b"ARROW1\0\0", "it does not begin with a schema"),
        (b"ARROW1\0\0" + b"\xff" * 4 + b"\x40\0\0\0" + bytes(64), "Invalid flatbuffers message"),
        (b"ARROW1\0\0" + b"\xff" * 4 + b"\xff\xff\xff\x7f", "metadata"),
    ],
)
def test_what_is_not_an_arrow_file_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    import pyarrow as pa

    from wsshards.reader import map_record_batches

    (tmp_path / "shard").write_bytes(content)
    with pytest.raises((OSError, ValueError, pa.ArrowException), match=fault):
        map_record_batches(str(tmp_path / "shard"))


def test_dictionaries_in_a_shard_are_refused(tmp_path: Path) -> None:
    import pyarrow as pa

    from wsshards.reader import map_record_batches

    batch = pa.record_batch({"label": pa.array(["a", "b"]).dictionary_encode()})
    with pa.ipc.new_file(str(tmp_path / "shard"), batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(ValueError, match="message 1 of it is not a record batch"):
        map_record_batches(str(tmp_path / "shard"))


def test_a_shard_that_begins_with_its_rows_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa

    from wsshards.reader import map_record_batches

    batch = pa.record_batch({"label": pa.array([1, 2])})
    (tmp_path / "shard").write_bytes(b"ARROW1\0\0" + batch.serialize().to_pybytes())
    with pytest.raises(ValueError, match="it does not begin with a schema"):
        map_record_batches(str(tmp_path / "shard"))
