"""`worldsize serve -- COMMAND`: its environment, its exit status, signals, and what is left afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from serving import SERVE, start

pytest.importorskip("uvicorn", reason="pip install 'worldsize[serve]'")
pytestmark = [pytest.mark.run, pytest.mark.timeout(90)]


def serve(folder: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SERVE, *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False, **more
    )


def test_the_command_has_its_own_umask_a_config_and_its_status(tmp_path: Path) -> None:
    code = "import os; print(oct(os.umask(0))); print(open('.azureml/config.json').read(), flush=True)"
    umask = os.umask(0o022)
    os.umask(umask)
    result = serve(tmp_path, "--", sys.executable, "-c", code + "; os._exit(7)")
    assert result.returncode == 7
    first, _, rest = result.stdout.partition("\n")
    assert first == oct(umask)
    assert set(json.loads(rest)) == {"subscription_id", "resource_group", "workspace_name"}
    assert not (tmp_path / ".azureml").exists()


def test_addresses_stay(tmp_path: Path) -> None:
    show = ["sh", "-c", "echo $IDENTITY_ENDPOINT $HTTPS_PROXY"]
    first = serve(tmp_path, "--", *show).stdout
    printed = serve(tmp_path, "--print-env")
    assert first.split()[0] in printed.stdout
    assert "no server runs" in printed.stderr
    port = int(first.split()[0].split(":")[2].split("/")[0])
    with socket.create_server(("127.0.0.1", port)):  # taken: another one is found
        assert str(port) not in serve(tmp_path, "--", *show).stdout.split()[0]
        refused = serve(tmp_path, "--port", str(port), "--", "true")
    assert refused.returncode == 1
    assert f"port {port} is taken" in refused.stderr


def test_signals_reach_the_command_and_nothing_is_left(tmp_path: Path) -> None:
    number = signal.SIGTERM
    psutil = pytest.importorskip("psutil")
    code = f"""
import signal, sys, time
signal.signal({int(number)}, lambda *_: sys.exit(5))
print("ready", flush=True)
time.sleep(60)
"""
    process = subprocess.Popen(
        [*SERVE, "--", sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    assert process.wait(timeout=30) == 5
    process.stdout.close()
    assert not psutil.wait_procs(children, timeout=10)[1]
    assert not (tmp_path / ".azureml").exists()


@pytest.mark.smoke
def test_a_server_alone_ends_with_status_zero(tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    served = start(tmp_path)
    children = psutil.Process(served.process.pid).children(recursive=True)
    with socket.create_connection(("127.0.0.1", served.port)):  # a client that does not speak
        assert served.stop(signal.SIGINT) == 0
    assert served.process.stdout is not None
    assert "Traceback" not in served.process.stdout.read()
    served.process.stdout.close()
    assert not psutil.wait_procs(children, timeout=10)[1]


@pytest.mark.smoke
def test_a_home_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = serve(tmp_path, "--home", "file/home", "--", "true")
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    (tmp_path / "home" / "serve").mkdir(parents=True)
    (tmp_path / "home" / "serve" / "workspace.db").write_text("nonsense " * 1000)
    result = serve(tmp_path, "--home", "home", "--", "true")
    assert result.returncode == 1
    assert "cannot be opened" in result.stderr


@pytest.mark.smoke
def test_a_home_of_a_newer_mlflow_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "home" / "mlflow.db")) as database, database:
        database.execute("CREATE TABLE alembic_version AS SELECT 'ffffffffffff' AS version_num")
    for words in (["--", "true"], ["--print-env"]):
        result = serve(tmp_path, "--home", "home", *words)
        assert result.returncode == 1
        assert result.stderr.startswith("error: the workspace in `home` cannot be opened: a newer MLflow")
        assert len(result.stderr.splitlines()) == 1


def test_a_proxy_that_cannot_be_chained_is_one_line(tmp_path: Path) -> None:
    environment = {**os.environ, "HTTPS_PROXY": "socks5://127.0.0.1:1"}
    result = serve(tmp_path, "--", "true", env=environment)
    assert result.returncode == 1
    assert "HTTPS_PROXY" in result.stderr
    assert serve(tmp_path, "--no-proxy", "--", "true", env=environment).returncode == 0
