"""`worldsize lsp` and `worldsize schema` as commands: their start, their end, and what is missing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from lsp_project import SPEC, document
from lsprotocol import types

from worldsize.cli.main import main
from worldsize.lsp import hover as hover_module
from worldsize.lsp.server import _make_handler, make_server


@pytest.mark.run
@pytest.mark.smoke
def test_nothing_heavy_is_imported_and_the_start_is_quick(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom worldsize.lsp import server\nserver._warm_up()\n"
        "print(sorted({'torch','tensorflow','mlflow','azure','pandas','numpy'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.run
@pytest.mark.smoke
def test_the_end_of_the_input_ends_the_server(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "worldsize", "lsp", "--stdio"],
        cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    started = time.monotonic()
    out, err = process.communicate(b"Content-Length: 5\r\n\r\nhello", timeout=60)
    assert time.monotonic() - started < 60
    assert b"Traceback" not in out + err
    assert process.returncode == 1  # `shutdown` has not been said


def test_a_person_who_starts_it_is_told_that_an_editor_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worldsize.lsp.server.serve", lambda: 0)
    monkeypatch.setattr("worldsize.cli.lsp.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    assert "waits for an editor" in CliRunner().invoke(main, ["lsp"]).stderr


def test_a_crash_of_a_handler_is_logged_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    server = make_server()
    logged: list[str] = []
    monkeypatch.setattr(server, "window_log_message", lambda params: logged.append(params.message))

    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError("a fault\nof two lines")

    monkeypatch.setattr(hover_module, "hover", fail)
    assert server.buffers.open("file:///tmp/spec.yml", SPEC, 1) is not None
    handle = _make_handler(server, "textDocument/hover", "hover", "hover")
    params = types.HoverParams(document("file:///tmp/spec.yml"), types.Position(0, 0))
    assert asyncio.run(handle(params)) is None
    assert logged == ["worldsize: textDocument/hover failed: ZeroDivisionError: a fault of two lines"]
    server.worker.shutdown()


@pytest.mark.run
@pytest.mark.smoke
def test_a_missing_extra_is_one_sentence(tmp_path: Path) -> None:
    code = (
        "import sys\nsys.modules['pygls'] = None\nsys.argv = ['worldsize', 'lsp']\n"
        "from worldsize.__main__ import main\nmain()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 1
    assert "pip install 'worldsize[lsp]'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", ["spec", "worldsize", "estimate", "plan", "advice"])
def test_a_schema_is_printed_with_its_address(name: str) -> None:
    result = CliRunner().invoke(main, ["schema", name])
    assert result.exit_code == 0
    assert json.loads(result.output)["$id"].endswith(f"/schemas/{name}.schema.json")
