"""What the page reads of files: logs as they grow, folders and previews, and nothing outside of the home."""

from __future__ import annotations

import os
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from worldsize.serving.database import Database
from worldsize.serving.errors import ServiceError
from worldsize.serving.home import Home
from worldsize.serving.jobs.job_files import _copy_into
from worldsize.serving.jobs.records import JobRecord, insert
from worldsize.serving.page.queries.files import (
    PREVIEW_BYTES,
    TAIL_BYTES,
    LogTail,
    file_url,
    find_output,
    list_entries,
    list_folder,
    list_logs,
    list_roots,
    preview_file,
    resolve_inside,
)
from worldsize.serving.page.routes import routes
from worldsize.serving.workspace import Endpoints, Workspace

RUN = JobRecord(
    name="run", type="Pipeline", display_name="run", experiment="e", status="Completed", properties={},
    root="run", created="2026-01-02T03:04:05Z",
)  # fmt: skip
STEP = JobRecord(
    name="child", type="Command", display_name="train", experiment="e", status="Completed", properties={},
    root="run", parent="run", step="train", created="2026-01-02T03:04:05Z",
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    (tmp_path / "secret.txt").write_text("outside")
    step = home.runs / "run" / "steps" / "train"
    (step / "logs").mkdir(parents=True)
    for rank in (10, 2):
        (step / "logs" / f"rank-{rank}.log").write_text("one\ntwo\n")
    (step / "outputs" / "model").mkdir(parents=True)
    (step / "outputs" / "model" / "weights.txt").write_text("1 2 3")
    (step / "outputs" / "model" / "page.html").write_text("<script>alert(1)</script>")
    (step / "outputs" / "out").symlink_to(tmp_path / "secret.txt")
    (step / "outputs" / "database").symlink_to(home.database)
    home.database.touch()
    return home


def test_a_log_is_followed_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_bytes(b"first\n" * TAIL_BYTES + "zwölf".encode()[:3])
    tail = LogTail(path)
    lines = tail.read_lines()
    assert lines[0] == lines[-1] == "first"
    assert len(lines) < TAIL_BYTES / 6 + 2
    assert tail.skipped == 6 * TAIL_BYTES + 3 - TAIL_BYTES
    assert tail.read_lines() == []
    with path.open("ab") as file:
        file.write("zwölf".encode()[3:] + b"\n\x1b[31mred\x1b[0m\rwhite\nrest")
    assert tail.read_lines() == ["zwölf", "white"]
    assert tail.read_lines(final=True) == ["rest"]


def test_a_log_that_begins_again_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("old\n")
    tail = LogTail(path)
    assert tail.read_lines() == ["old"]
    path.rename(tmp_path / "attempt-1.log")
    path.write_text("new\n")
    assert tail.read_lines()[-1] == "new"
    path.unlink()
    assert tail.read_lines() == []


def test_logs_are_in_the_order_of_ranks(home: Home) -> None:
    assert [log.key for log in list_logs(home, STEP)] == ["train/rank-2", "train/rank-10"]
    assert list_logs(home, RUN) == list_logs(home, STEP)


@pytest.mark.parametrize(
    "path", ["..", "../x", "/etc/passwd", "model/../../..", "a\0b", "out", "database", "none"]
)
def test_nothing_outside_is_found(home: Home, path: str) -> None:
    base = home.runs / "run" / "steps" / "train" / "outputs"
    assert resolve_inside(home, base, path) is None
    assert find_output(home, STEP, f"step-train/{path}") is None


def test_outputs_are_browsed(home: Home) -> None:
    assert [(root.key, root.title) for root in list_roots(home, STEP)] == [("step-train", "Outputs")]
    assert [(each.path, each.folder) for each in list_entries(home, STEP, "step-train")] == [
        ("step-train/model", True)
    ]
    files = list_entries(home, STEP, "step-train/model")
    assert [(each.name, each.size) for each in files] == [("page.html", 25), ("weights.txt", 5)]
    assert find_output(home, STEP, files[1].path) is not None
    assert list_entries(home, STEP, "unknown") == []


def test_an_unreadable_folder_is_empty(home: Home) -> None:
    assert list_folder(home, home.runs / "absent") == []


@pytest.mark.parametrize(
    ("name", "content", "kind", "text"),
    [
        ("a.txt", "ä".encode() * PREVIEW_BYTES, "text", "ää"),
        ("a.json", b'{"b":[1]}', "text", '{\n  "b": [\n    1'),
        ("bad.json", b"{", "text", "{"),
        ("a.bin", b"\x00\x01", "none", "not text"),
        ("latin", b"gr\xfcn und weiter", "none", "not text"),
        ("a.png", b"", "image", ""),
        ("empty.csv", b"", "none", "empty"),
    ],
)
def test_previews(tmp_path: Path, name: str, content: bytes, kind: str, text: str) -> None:
    (tmp_path / name).write_bytes(content)
    preview = preview_file(tmp_path / name)
    assert preview.kind == kind
    assert text in preview.text
    assert preview.cut == (len(content) > PREVIEW_BYTES)


def test_a_table_shows_its_first_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n" + '"1, 2",x\n' * 30)
    preview = preview_file(tmp_path / "a.csv")
    assert (preview.kind, preview.columns, preview.cut) == ("table", ["a", "b"], True)
    assert preview.rows == [["1, 2", "x"]] * 20


def test_a_file_that_is_not_one(tmp_path: Path) -> None:
    assert preview_file(tmp_path).text == "This is not a file."
    assert preview_file(tmp_path / "gone").text == "This is not a file."


@pytest.fixture
def client(home: Home) -> TestClient:
    home.database.unlink()
    database = Database(home.database)
    insert(database, RUN)
    insert(database, STEP)
    workspace = Workspace(home, database, Endpoints("http://127.0.0.1:1"), home.root)
    handlers = {ServiceError: lambda _request, error: error.response()}
    return TestClient(Starlette(routes=routes(workspace), exception_handlers=handlers))  # type: ignore[arg-type]


def test_a_download_never_runs_in_the_browser(client: TestClient) -> None:
    answer = client.get("/files/jobs/child/step-train/model/page.html?inline=1")
    assert answer.text == "<script>alert(1)</script>"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_folder_is_downloaded_as_an_archive(client: TestClient, home: Home) -> None:
    answer = client.get("/files/jobs/child/step-train")
    with zipfile.ZipFile(BytesIO(answer.content)) as archive:
        assert sorted(archive.namelist()) == ["model/page.html", "model/weights.txt"]
    assert not list(home.state.glob("*.zip"))


@pytest.mark.parametrize(
    "path",
    [
        "jobs/child/step-train/out",
        "jobs/child/step-train/%2e%2e/%2e%2e/run.json",
        "jobs/child/step-train/..%2f..%2flogs",
        "jobs/none/step-train/model",
        "models/none:1/",
        "secrets/token/x",
    ],
)
def test_other_files_are_not_found(client: TestClient, path: str) -> None:
    answer = client.get(f"/files/{path}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "ResourceNotFound"


def test_a_fifo_does_not_block(home: Home) -> None:
    path = home.runs / "run" / "steps" / "train" / "outputs" / "pipe"
    os.mkfifo(path)
    assert preview_file(path).kind == "none"


def test_an_archive_has_files_of_any_time_and_name(client: TestClient, home: Home) -> None:
    folder = home.runs / "run" / "steps" / "train" / "outputs" / "model"
    for name, seconds in ((b"old", 0), (b"new", 2**33), (b"b\xff\xe9", 10**9)):
        path = folder / os.fsdecode(name)
        path.write_bytes(name)
        os.utime(path, (seconds, seconds))
    (folder / "all").symlink_to("/")
    (folder / "itself").symlink_to("itself")
    before = sorted(home.state.iterdir())
    answer = client.get("/files/jobs/child/step-train")
    assert answer.headers["content-length"] == str(len(answer.content))
    with zipfile.ZipFile(BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        years = {info.filename: info.date_time[0] for info in archive.infolist()}
    assert years["model/old"] == 1980
    assert years["model/new"] == 2107
    assert "model/b%FF%E9" in years
    assert len(years) == 5
    assert sorted(home.state.iterdir()) == before
    (odd,) = (each for each in list_folder(home, folder, "") if "\ufffd" in each.name)
    odd.name.encode()
    url = file_url("jobs", "child", f"step-train/model/{odd.path}")
    assert client.get(url).content == b"b\xff\xe9"


def test_output_that_joins_data_is_copied_without_what_its_links_reach(home: Home, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (home.jobs / "run").mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    output = home.runs / "one" / "steps" / "train" / "outputs" / "data"
    output.mkdir(parents=True)
    (output / "new").write_text("new")
    (output / "all").symlink_to("/")
    target = home.blobs / "azureml-blobstore" / "there"
    (target / "sub").mkdir(parents=True)
    (target / "old").write_text("old")
    (target / "new").symlink_to(outside / "secret")
    _copy_into(home, RUN, output, target)
    assert sorted(path.name for path in target.iterdir()) == ["new", "old", "sub"]
    assert (target / "new").read_text() == "new"
    assert (outside / "secret").read_text() == "secret"
