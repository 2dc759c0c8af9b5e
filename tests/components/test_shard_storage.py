"""Data in the object stores of Amazon and Azure, read by their real clients from emulators."""

from __future__ import annotations

import contextlib
import runpy
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ports import find_free_port

from wsshards.errors import UserError

downloads = runpy.run_path(str(Path(__file__).with_name("test_shard_sources.py")))["downloads"]
TABLE = "x,y,label\n" + "".join(f"{n},{n % 3},{'ab'[n % 2]}\n" for n in range(20))


@pytest.mark.run
def test_a_bucket(downloads: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "here")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "here")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    try:
        client = boto3.client("s3")
        client.create_bucket(Bucket="wine")
        for name in ("d/train/a.csv", "d/test/b.csv"):
            client.put_object(Bucket="wine", Key=name, Body=TABLE.encode())
        root = downloads.download("s3://wine/d", tmp_path)
        assert [(root / name).read_text() for name in ("train/a.csv", "test/b.csv")] == [TABLE, TABLE]
        with pytest.raises(UserError, match="does not exist"):
            downloads.download("s3://wine/none", tmp_path)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("address", "connection", "message"),
    [
        ("az://wine/d", "", "`az://wine/d` names a container, and no storage account is known"),
        (
            "abfss://wine@here.dfs.core.windows.net/d",
            "AccountName=there;AccountKey=a2V5",
            "is in the storage account `here`, and `AZURE_STORAGE_CONNECTION_STRING` is of `there`",
        ),
    ],
)
def test_the_storage_account_is_the_address_s(
    address: str, connection: str, message: str, downloads: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection)
    with pytest.raises(UserError, match=message):
        downloads.download(address, Path())


@pytest.fixture
def azurite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The client of a container in Azure's storage emulator, where its program and the libraries are."""
    pytest.importorskip("adlfs")
    blobs = pytest.importorskip("azure.storage.blob")
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite is not installed")
    port = find_free_port()
    command = [program, "--silent", "--location", str(tmp_path / "azurite"), "--blobPort", str(port)]
    process = subprocess.Popen([*command, "--skipApiVersionCheck", "--disableTelemetry"])
    # The emulator's account and key are the same everywhere, and published.
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    connection = f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={key}"
    connection += f";BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        container = blobs.ContainerClient.from_connection_string(connection, "wine")
        container.create_container()
        yield container
    finally:
        process.terminate()
        process.wait()


@pytest.mark.run
@pytest.mark.parametrize("root", ["az://wine/", "abfss://wine@devstoreaccount1.dfs.core.windows.net/"])
def test_a_storage_account(root: str, azurite: Any, downloads: ModuleType, tmp_path: Path) -> None:
    for name in ("d/train/a b.csv", "d/_left_out.csv"):
        azurite.upload_blob(name, TABLE.encode())
    folder = downloads.download(f"{root}d", tmp_path)
    assert [path.name for path in folder.rglob("*.csv")] == ["a b.csv"]
    assert downloads.download(f"{root}d/train/a b.csv", tmp_path / "azurite").read_text() == TABLE
    with pytest.raises(UserError, match="does not exist"):
        downloads.download(f"{root}none", tmp_path)
