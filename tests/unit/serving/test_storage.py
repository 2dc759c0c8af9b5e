"""The blob service, asked as Azure's clients ask it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from management import Management
from starlette.applications import Starlette
from starlette.testclient import TestClient

from worldsize.running.record.tracker import chosen_artifacts
from worldsize.serving.errors import ServiceError
from worldsize.serving.storage.routes import routes
from worldsize.serving.storage.uploads import blocks_folder, prepare_folders, uploads_folder
from worldsize.serving.tracking.routes import routes as tracking_routes
from worldsize.tracking.database import DATABASE

ACCOUNT = "/blob/worldsize.blob.core.windows.net"
STORE = f"{ACCOUNT}/azureml-blobstore"
BLOCK = {"x-ms-blob-type": "BlockBlob"}


def answer_error(_: object, error: Exception) -> Any:
    assert isinstance(error, ServiceError)
    return error.response()


@pytest.fixture
def client(management: Management) -> TestClient:
    app = Starlette(routes=routes(management.workspace), exception_handlers={ServiceError: answer_error})
    return TestClient(app)


def put(client: TestClient, name: str, content: bytes = b"content", **headers: str) -> Any:
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    answer = client.put(f"{STORE}/{name}", content=content, headers={**BLOCK, **given})
    assert answer.status_code == 201, answer.text
    return answer


def names(client: TestClient, **query: str) -> list[str]:
    answer = client.get(STORE, params={"restype": "container", "comp": "list", **query})
    assert answer.status_code == 200, answer.text
    return re.findall("<Name>([^<]*)</Name>", answer.text)


def test_a_blob_is_read_as_it_was_written(client: TestClient) -> None:
    content = b"0123456789"
    written = put(client, "a/b.txt", content, x_ms_meta_name="v", content_type="text/plain")
    read = client.get(f"{STORE}/a/b.txt")
    assert read.content == content
    assert read.headers["content-type"] == "text/plain"
    assert read.headers["x-ms-meta-name"] == "v"
    assert read.headers["etag"] == written.headers["etag"]
    assert read.headers["content-md5"] == base64.b64encode(hashlib.md5(content).digest()).decode()
    head = client.head(f"{STORE}/a/b.txt")
    assert (head.headers["content-length"], head.headers["x-ms-blob-type"]) == ("10", "BlockBlob")


@pytest.mark.parametrize(
    ("asked", "status", "content"),
    [
        ("bytes=2-4", 206, b"234"),
        ("bytes=7-", 206, b"789"),
        ("bytes=-3", 206, b"789"),
        ("bytes=0-99", 206, b"0123456789"),
        ("bytes=4-2", 200, b"0123456789"),
        ("lines=1-2", 200, b"0123456789"),
    ],
)
def test_ranges(client: TestClient, asked: str, status: int, content: bytes) -> None:
    put(client, "x", b"0123456789")
    answer = client.get(f"{STORE}/x", headers={"x-ms-range": asked})
    assert (answer.status_code, answer.content) == (status, content)


def test_a_range_beyond_the_end_is_refused(client: TestClient) -> None:
    put(client, "x", b"")
    answer = client.get(f"{STORE}/x", headers={"range": "bytes=0-9"})
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (416, "InvalidRange")


def test_conditions(client: TestClient) -> None:
    etag = put(client, "x", b"1").headers["etag"]
    url = f"{STORE}/x"
    assert client.get(url, headers={"if-none-match": etag}).status_code == 304
    assert client.get(url, headers={"if-match": '"other"'}).status_code == 412
    assert client.get(url, headers={"if-modified-since": "Wed, 01 Jan 2200 00:00:00 GMT"}).status_code == 304
    exists = client.put(url, content=b"2", headers={**BLOCK, "if-none-match": "*"})
    assert (exists.status_code, exists.headers["x-ms-error-code"]) == (409, "BlobAlreadyExists")
    assert client.put(url, content=b"2", headers={**BLOCK, "if-match": '"other"'}).status_code == 412
    assert client.get(url).content == b"1"
    assert client.put(url, content=b"2", headers={**BLOCK, "if-match": etag}).status_code == 201


def test_missing_things(client: TestClient) -> None:
    blob = client.get(f"{STORE}/none")
    assert (blob.status_code, blob.headers["x-ms-error-code"]) == (404, "BlobNotFound")
    container = client.get(f"{ACCOUNT}/none-such?restype=container&comp=list")
    assert (container.status_code, container.headers["x-ms-error-code"]) == (404, "ContainerNotFound")


def test_blocks_become_a_blob_in_the_order_of_the_list(client: TestClient) -> None:
    ids = [base64.b64encode(text).decode() for text in (b"1", b"2", b"3")]
    for block, content in zip(ids, (b"one", b"two", b"three"), strict=True):
        answer = client.put(f"{STORE}/x", params={"comp": "block", "blockid": block}, content=content)
        assert answer.status_code == 201
    listed = client.get(f"{STORE}/x", params={"comp": "blocklist", "blocklisttype": "all"}).text
    assert listed.count("<Block>") == 3
    assert client.get(f"{STORE}/x").status_code == 404
    order = "".join(f"<Latest>{block}</Latest>" for block in reversed(ids))
    body = f"<?xml version='1.0'?><BlockList>{order}</BlockList>"
    assert client.put(f"{STORE}/x", params={"comp": "blocklist"}, content=body).status_code == 201
    assert client.get(f"{STORE}/x").content == b"threetwoone"
    again = f"<BlockList><Committed>{ids[0]}</Committed><Committed>{ids[2]}</Committed></BlockList>"
    assert client.put(f"{STORE}/x", params={"comp": "blocklist"}, content=again).status_code == 201
    assert client.get(f"{STORE}/x").content == b"onethree"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<BlockList><Latest>bm9uZQ==</Latest></BlockList>", "InvalidBlockList"),
        (b"<BlockList><Other>a</Other></BlockList>", "InvalidXmlDocument"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><BlockList/>", "InvalidXmlDocument"),
        ("<!DOCTYPE a><BlockList/>".encode("utf-16"), "InvalidXmlDocument"),
        (b"<BlockList><Latest><Latest>a</Latest></Latest></BlockList>", "InvalidXmlDocument"),
        (b"<BlockList>" + b"<Latest/>" * 200_000 + b"</BlockList>", "InvalidXmlDocument"),
        (b"<BlockList><Latest>", "InvalidXmlDocument"),
        (b"\xff", "InvalidXmlDocument"),
    ],
)
def test_a_wrong_list_of_blocks_is_refused(client: TestClient, body: bytes, code: str) -> None:
    answer = client.put(f"{STORE}/x", params={"comp": "blocklist"}, content=body)
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (400, code)


def test_listing_in_pages_and_by_folder(client: TestClient) -> None:
    everything = ["a b/é %.txt", "d-x", "d.txt", "d/1", "d/2/3", "d/4", "e"]
    for name in everything:
        put(client, name.replace("%", "%25"))
    assert names(client) == everything
    assert names(client, prefix="d/") == ["d/1", "d/2/3", "d/4"]
    assert names(client, delimiter="/") == ["a b/", "d-x", "d.txt", "d/", "e"]
    assert names(client, prefix="d/", delimiter="/") == ["d/1", "d/2/", "d/4"]
    for query in ({}, {"delimiter": "/"}, {"delimiter": "-"}):
        found, marker = [], ""
        while True:
            page = client.get(
                STORE,
                params={"restype": "container", "comp": "list", "maxresults": "1", "marker": marker, **query},
            )
            found += re.findall("<Name>([^<]*)</Name>", page.text)
            match = re.search("<NextMarker>([^<]+)</NextMarker>", page.text)
            if match is None:
                break
            marker = match[1]
        assert found == names(client, **query)


def test_metadata_replaces_what_was_there(client: TestClient) -> None:
    etag = put(client, "x", b"1", x_ms_meta_old="1").headers["etag"]
    answer = client.put(f"{STORE}/x", params={"comp": "metadata"}, headers={"x-ms-meta-new": "2"})
    assert answer.status_code == 200
    assert answer.headers["etag"] != etag
    head = client.head(f"{STORE}/x")
    assert head.headers["x-ms-meta-new"] == "2"
    assert "x-ms-meta-old" not in head.headers
    assert "<new>2</new>" in client.get(f"{STORE}?restype=container&comp=list&include=metadata").text


def test_a_file_that_a_job_wrote_is_a_blob(client: TestClient, management: Management) -> None:
    put(client, "out/x", b"before", x_ms_meta_name="v")
    file = management.workspace.home.blobs / "azureml-blobstore" / "out" / "x"
    file.write_bytes(b"written by a job")
    answer = client.get(f"{STORE}/out/x")
    assert answer.content == b"written by a job"
    assert "x-ms-meta-name" not in answer.headers  # it was said of another content
    assert "content-md5" not in answer.headers


def test_a_row_that_cannot_be_read_hides_no_blob(client: TestClient, management: Management) -> None:
    for name in ("a", "b", "c"):
        put(client, name, x_ms_meta_name="v")
    management.workspace.database.connection.execute("UPDATE blobs SET metadata = '{' WHERE path = 'b'")
    assert names(client, include="metadata") == ["a", "b", "c"]
    assert client.get(f"{STORE}/b").content == b"content"  # without what was said of it


def test_of_writes_at_once_that_want_a_new_blob_one_succeeds(client: TestClient) -> None:
    def write(number: int) -> int:
        headers = {**BLOCK, "if-none-match": "*"}
        return client.put(f"{STORE}/one", content=b"%d" % number, headers=headers).status_code

    with client, ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(write, range(8))) == [201] + [409] * 7


def test_links_are_followed_only_inside_the_home(client: TestClient, management: Management) -> None:
    home = management.workspace.home
    (home.runs / "r").mkdir()
    (home.runs / "r" / "model.bin").write_bytes(b"model")
    outside = home.root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret", encoding="utf-8")
    home.secret("token")
    store = home.blobs / "azureml-blobstore"
    store.mkdir(exist_ok=True)
    (store / "run").symlink_to(home.runs / "r")
    (store / "out").symlink_to(outside)
    (store / "state").symlink_to(home.state)
    (store / "self").symlink_to(store)
    assert client.get(f"{STORE}/run/model.bin").content == b"model"
    assert names(client) == ["run/model.bin"]
    for name in ("out/secret", "out", "state/token.secret"):
        assert client.get(f"{STORE}/{name}").status_code == 400
        assert client.put(f"{STORE}/{name}/new", content=b"1", headers=BLOCK).status_code == 400
    assert [each.name for each in outside.iterdir()] == ["secret"]


def test_a_name_cannot_be_blob_and_folder(client: TestClient) -> None:
    put(client, "a/b")
    for name in ("a", "a/b/c"):
        answer = client.put(f"{STORE}/{name}", content=b"1", headers=BLOCK)
        assert (answer.status_code, answer.headers["x-ms-error-code"]) == (409, "PathConflict")


def test_copies_come_from_this_workspace_only(client: TestClient) -> None:
    put(client, "x", b"1", x_ms_meta_name="v")
    source = "https://worldsize.blob.core.windows.net/azureml-blobstore/x?sig=1"
    assert client.put(f"{STORE}/y", headers={"x-ms-copy-source": source}).status_code == 202
    assert client.get(f"{STORE}/y").content == b"1"
    assert client.head(f"{STORE}/y").headers["x-ms-meta-name"] == "v"
    for wrong in ("https://example.com/azureml-blobstore/x", "file:///etc/passwd", "https://[", ""):
        answer = client.put(f"{STORE}/z", headers={"x-ms-copy-source": wrong})
        assert answer.status_code in (400, 404)


def test_deleting_the_last_blob_removes_its_folders(client: TestClient, management: Management) -> None:
    put(client, "a/b/c")
    assert client.delete(f"{STORE}/a/b/c").status_code == 202
    assert client.delete(f"{STORE}/a/b/c").status_code == 404
    assert list((management.workspace.home.blobs / "azureml-blobstore").iterdir()) == []


def test_a_body_that_is_not_what_its_hash_says_is_refused(client: TestClient) -> None:
    answer = client.put(f"{STORE}/x", content=b"1", headers={**BLOCK, "content-md5": "AAAA"})
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (400, "Md5Mismatch")
    assert client.get(f"{STORE}/x").status_code == 404


def test_containers(client: TestClient) -> None:
    assert client.put(f"{ACCOUNT}/mine?restype=container").status_code == 201
    assert client.put(f"{ACCOUNT}/mine?restype=container").status_code == 409
    assert client.get(f"{ACCOUNT}/mine?restype=container").status_code == 200
    assert "<Name>mine</Name>" in client.get(f"{ACCOUNT}/?comp=list").text
    assert client.delete(f"{ACCOUNT}/mine?restype=container").status_code == 202
    assert client.delete(f"{ACCOUNT}/azureml-blobstore?restype=container").status_code == 403


@pytest.mark.parametrize("kind", ["AppendBlob", "PageBlob"])
def test_other_types_of_blobs_are_refused_in_words(client: TestClient, kind: str) -> None:
    answer = client.put(f"{STORE}/x", headers={"x-ms-blob-type": kind})
    assert answer.status_code == 501
    assert f"blobs of the type {kind}" in answer.text


def test_a_start_removes_what_a_killed_server_left(management: Management, tmp_path: Path) -> None:
    home = management.workspace.home
    prepare_folders(home)
    (uploads_folder(home) / "half").write_bytes(b"1")
    fresh, old = blocks_folder(home) / "fresh", blocks_folder(home) / "old"
    fresh.mkdir()
    old.mkdir()
    os.utime(old, (0, 0))
    prepare_folders(home)
    assert list(uploads_folder(home).iterdir()) == []
    assert list(blocks_folder(home).iterdir()) == [fresh]


def test_mlflow_lists_no_artifacts_outside_of_the_home(management: Management, tmp_path: Path) -> None:
    workspace = management.workspace
    home, outside = workspace.home, tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").touch()
    places = {"good": chosen_artifacts(home.artifacts.absolute(), "good"), "bad": outside, "m-bad": outside}
    (places["good"] / "model").mkdir(parents=True)
    (places["good"] / "model" / "MLmodel").write_text("x: y")
    (places["good"] / "all").symlink_to("/")
    (places["good"] / "secret").symlink_to(outside / "secret")
    with contextlib.closing(sqlite3.connect(home.root / DATABASE)) as mlflow:
        mlflow.execute("CREATE TABLE runs (run_uuid TEXT, artifact_uri TEXT)")
        mlflow.execute("CREATE TABLE logged_models (model_id TEXT, artifact_location TEXT)")
        for name in ("good", "bad"):
            mlflow.execute("INSERT INTO runs VALUES (?, ?)", (name, places[name].as_uri()))
        mlflow.execute("INSERT INTO runs VALUES ('far', 's3://bucket/x')")
        mlflow.execute("INSERT INTO logged_models VALUES ('m-bad', ?)", (outside.as_uri(),))
        mlflow.commit()
    app = Starlette(routes=tracking_routes(workspace), exception_handlers={ServiceError: answer_error})
    client = TestClient(app)
    api = "/mlflow/v2.0/api/2.0/mlflow/"
    listed = client.get(f"{api}artifacts/list?run_id=good").json()["files"]
    assert listed == [{"path": "model", "is_dir": True}]
    inner = client.get(f"{api}artifacts/list?run_id=good&path=model").json()["files"]
    assert inner == [{"path": "model/MLmodel", "is_dir": False, "file_size": 4}]
    for query in (
        "artifacts/list?run_id=bad",
        "artifacts/list?run_uuid=bad",
        "artifacts/list?run_id=far",
        "artifacts/list?run_id=bad&run_id=good&run_id=bad",
        "artifacts/list?run_id=good&path=..%2F..",
        "logged-models/m-bad/artifacts/directories",
    ):
        assert client.get(api + query).status_code == 400, query
    for path in ("all", "all/etc", "secret"):  # links out of the home have no content
        assert client.get(f"{api}artifacts/list?run_id=good&path={path}").json()["files"] == []
    body = client.request("GET", f"{api}artifacts/list", json={"run_id": "bad"})
    assert body.status_code == 400
