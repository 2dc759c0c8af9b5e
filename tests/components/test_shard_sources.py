"""Data from elsewhere: web servers, object stores, and what `datasets` saved."""

from __future__ import annotations

import importlib
import io
import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ports import find_free_port

from worldsize.data import counts
from wsshards import manifest as contents
from wsshards import terms
from wsshards.errors import UserError
from wsshards.verify import verify_shards

np = pytest.importorskip("numpy")
Run = Callable[..., Any]
SOURCE = Path(__file__).parents[2] / "components/shard_data/src"
TABLE = "x,y,label\n" + "".join(f"{n},{n % 3},{'ab'[n % 2]}\n" for n in range(20))


def _shard(shard: Run, out: Path, **values: Any) -> tuple[contents.Manifest, str]:
    done = shard(shards=out, shard_count=1, **values)
    assert done.returncode == 0, done.stderr
    manifest = contents.read_manifest(out)
    verify_shards(out, manifest)
    return manifest, done.stdout


def _gather(out: Path, count: int) -> tuple[Any, Any]:
    """The features and labels of the first rows for the test."""
    from wsshards.reader import ShardReader

    return ShardReader(out, "test").gather(np.arange(count))


def _rows(manifest: contents.Manifest) -> list[int]:
    return [manifest.split(part).rows for part in terms.SPLITS]


class _Web(BaseHTTPRequestHandler):
    """A server with a table, and with faults at other paths."""

    cuts = 0
    asked: list[str] = []  # noqa: RUF012 - of one test

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        self.asked.append(self.path)
        status = {"/secret.csv": 403, "/down.csv": 503}.get(path, 200 if path in _PAGES else 404)
        content = _PAGES.get(path, b"") if status == 200 else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not body:
            return
        if path == "/cut.csv" or (path == "/cut-once.csv" and type(self).cuts == 0):
            type(self).cuts += 1
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.wfile.write(content)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


_PAGES = dict.fromkeys(("/d/a.csv", "/cut.csv", "/cut-once.csv"), TABLE.encode())


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Web)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The step's own module, which waits no time between attempts."""
    pytest.importorskip("fsspec")
    monkeypatch.syspath_prepend(str(SOURCE))
    before = set(sys.modules)
    module = importlib.import_module("sources.downloads")
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    yield module
    for name in set(sys.modules) - before:
        if str(SOURCE) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_a_file_of_a_web_server(shard: Run, tmp_path: Path, web: str) -> None:
    pytest.importorskip("aiohttp")
    manifest, output = _shard(shard, tmp_path / "out", source=f"{web}/d/a.csv?sig=hidden")
    assert _rows(manifest) == [16, 4, 0]
    assert manifest.source == f"{web}/d/a.csv"  # what follows `?` may be a key
    assert f"downloaded 1 file, {len(TABLE):,} bytes, from {web}/d/a.csv" in output
    assert "hidden" not in output + (tmp_path / "out" / "manifest.json").read_text()
    local = tmp_path / "a.csv"
    local.write_text(TABLE)
    same, _ = _shard(shard, tmp_path / "same", data=local)
    assert [each.sha256 for each in same.train.shards] == [each.sha256 for each in manifest.train.shards]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing.csv", "does not exist"),
        ("secret.csv?sig=hidden", "may not be read with the credentials here: the server answered 403"),
        ("down.csv", "the server answered 503"),
        ("cut.csv?sig=hidden", "cannot read `"),
    ],
)
def test_faults_of_a_web_server(
    downloads: ModuleType, tmp_path: Path, web: str, path: str, message: str
) -> None:
    pytest.importorskip("aiohttp")
    with pytest.raises(UserError) as caught:
        downloads.download(f"{web}/{path}", tmp_path)
    assert message in caught.value.message
    assert "hidden" not in caught.value.message
    assert "Traceback" not in caught.value.message


def test_a_server_that_is_not_there(downloads: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    port = find_free_port()
    with pytest.raises(UserError, match=r"cannot read `http://127.0.0.1:\d+/a.csv`: .*[cC]onnect"):
        downloads.download(f"http://127.0.0.1:{port}/a.csv", tmp_path)


def test_a_transfer_that_breaks_off_begins_again(downloads: ModuleType, tmp_path: Path, web: str) -> None:
    pytest.importorskip("aiohttp")
    _Web.cuts = 0
    assert downloads.download(f"{web}/cut-once.csv", tmp_path).read_text() == TABLE
    assert _Web.cuts == 1


def test_folders_of_fsspec(downloads: ModuleType, tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for name in ("train/b.csv", "train/a.csv", "test/a.csv", "train/_SUCCESS", ".hidden/x.csv"):
        memory.pipe(f"/bucket/{name}", TABLE.encode())
    (tmp_path / "m").mkdir()
    root = downloads.download("memory://bucket", tmp_path / "m")
    found = sorted(file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file())
    assert found == ["test/a.csv", "train/a.csv", "train/b.csv"]
    (tmp_path / "f").mkdir()
    copied = downloads.download((root / "train").as_uri(), tmp_path / "f")
    assert sorted(file.name for file in copied.iterdir()) == ["a.csv", "b.csv"]
    with pytest.raises(UserError, match="does not exist"):
        downloads.download("memory://other", tmp_path / "m")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UserError, match="holds no files"):
        downloads.download((tmp_path / "nothing").as_uri(), tmp_path / "f")


def test_a_file_of_the_wrong_length(
    downloads: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    files = fsspec.filesystem("memory")
    files.pipe("/short/a.csv", TABLE.encode())
    monkeypatch.setattr(type(files), "get_file", lambda *a, **_: Path(a[2]).write_text("x"))
    with pytest.raises(UserError, match=rf"1 of {len(TABLE)} bytes arrived"):
        downloads.download("memory://short/a.csv", tmp_path)


def test_a_package_that_is_missing(
    downloads: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(UserError, match="`s3://bucket/a` needs the package `s3fs`, which is not installed"):
        downloads.download("s3://bucket/a", tmp_path)


def _save(folder: Path, table: Any, features: dict[str, Any]) -> None:
    """Write a table as `datasets.Dataset.save_to_disk` does."""
    import pyarrow as pa

    folder.mkdir(parents=True)
    path = str(folder / "data-00000-of-00001.arrow")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=16)
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))


def _number(kind: str) -> dict[str, str]:
    return {"dtype": kind, "_type": "Value"}


_CLASSES = {"names": ["no", "yes", "perhaps"], "_type": "ClassLabel"}


def _reviews(folder: Path) -> Path:
    import pyarrow as pa

    features = {"x": _number("float32"), "kind": _number("string"), "label": _CLASSES}
    for part, rows in (("train", 40), ("validation", 12), ("test", 8)):
        numbers = range(rows)
        table = pa.table(
            {
                "x": pa.array([n / 2 for n in numbers], pa.float32()),
                "kind": [f"k{n % 2}" for n in numbers],
                "label": pa.array([n % 3 for n in numbers], pa.int64()),
            }
        )
        _save(folder / part, table, features)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "validation", "test"]}))
    return folder


def test_splits_of_a_saved_data_set(shard: Run, tmp_path: Path) -> None:
    data = _reviews(tmp_path / "reviews")
    manifest, _ = _shard(shard, tmp_path / "out", data=data)
    assert _rows(manifest) == [40, 12, 8]
    assert manifest.label is not None
    assert manifest.label.classes == ("no", "perhaps", "yes")
    assert [column.name for column in manifest.features.columns] == ["x", "kind"]
    values = {"source": ".", "format": "auto", "label": "label", "validation_fraction": 0.2}
    counted = counts.count_split(data, values)
    assert counted is not None
    assert (counted.rows, counted.task, counted.outputs) == (40, "classification", 3)
    (features, labels) = _gather(tmp_path / "out", 8)
    names = [manifest.label.classes[int(label)] for label in labels]
    expected = {n / 2: _CLASSES["names"][n % 3] for n in range(8)}
    assert {float(x): name for x, name in zip(features[:, 0], names, strict=True)} == expected
    one, _ = _shard(shard, tmp_path / "one", data=data, source="train", validation_fraction=0.25)
    assert _rows(one) == [30, 10, 0]


def test_pictures_of_a_saved_data_set(shard: Run, tmp_path: Path) -> None:
    import pyarrow as pa
    from PIL import Image

    def draw(level: int) -> dict[str, Any]:
        target = io.BytesIO()
        Image.new("L", (8, 8), level).save(target, "PNG")
        return {"bytes": target.getvalue(), "path": None}

    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    for part, rows in (("train", 12), ("test", 6)):
        pictures = pa.array([draw(10 * n) for n in range(rows)], kind)
        table = pa.table({"image": pictures, "label": pa.array([n % 3 for n in range(rows)], pa.int64())})
        _save(tmp_path / "d" / part, table, {"image": {"_type": "Image"}, "label": _CLASSES})
    (tmp_path / "d" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    manifest, _ = _shard(shard, tmp_path / "out", data=tmp_path / "d", validation_fraction=0)
    assert _rows(manifest) == [12, 0, 6]
    assert manifest.features.shape == (1, 8, 8)
    features, labels = _gather(tmp_path / "out", 6)
    assert manifest.label is not None
    levels = np.rint(features.reshape(6, -1).mean(axis=1) * 255 / 10).astype(int)
    names = [manifest.label.classes[int(label)] for label in labels]
    assert dict(zip(levels.tolist(), names, strict=True)) == {n: _CLASSES["names"][n % 3] for n in range(6)}
    values = {"source": ".", "format": "auto", "label": "label", "validation_fraction": 0}
    counted = counts.count_split(tmp_path / "d", values)
    assert counted is not None
    assert counted.rows == 12


@pytest.mark.run
def test_what_datasets_itself_saves(shard: Run, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "text": datasets.Value("string"),
            "vector": datasets.Sequence(datasets.Value("float32"), length=3),
            "label": datasets.ClassLabel(names=["no", "yes"]),
        }
    )
    rows = {
        "text": [f"text {n}" for n in range(30)],
        "vector": [[n, 1.0, 2.0] for n in range(30)],
        "label": [n % 2 for n in range(30)],
    }
    whole = datasets.Dataset.from_dict(rows, features=features)
    parts = datasets.DatasetDict({"train": whole.select(range(6, 30)), "test": whole.select(range(6))})
    parts.save_to_disk(tmp_path / "d")
    manifest, _ = _shard(
        shard, tmp_path / "out", data=tmp_path / "d", features="vector", validation_fraction=0
    )
    assert _rows(manifest) == [24, 0, 6]
    found, labels = _gather(tmp_path / "out", 6)
    assert manifest.label is not None
    names = [manifest.label.classes[int(label)] for label in labels]
    assert {int(x[0]): name for x, name in zip(found, names, strict=True)} == {
        n: ["no", "yes"][n % 2] for n in range(6)
    }
    texts, _ = _shard(shard, tmp_path / "t", data=tmp_path / "d", text="text", validation_fraction=0)
    assert (texts.task, _rows(texts)) == ("classification", [24, 0, 6])
