"""The kit for a GPU, rehearsed on processors: what it installs, what it tries, what a cut leaves of it."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import venv
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.run, pytest.mark.timeout(600)]
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROVE = HERE / "prove.py"
MOST_MIB = 60
CHECKS = """
import os, time
def check_crashes(trial):
    trial.keep(reached=1)
    os.abort()
def check_fails(trial):
    trial.expect(1 > 2, "one is less")
def check_hangs(trial):
    trial.say("it began")
    time.sleep(100)
def check_fine(trial):
    trial.say("all is well")
"""


@pytest.fixture
def prove(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, whose checks a test may replace."""
    monkeypatch.syspath_prepend(str(HERE))
    before = signal.getsignal(signal.SIGTERM)
    yield importlib.import_module("prove")
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kit of the wheel alone: this Python has what it needs."""
    folder = tmp_path_factory.mktemp("kit")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True, timeout=200)
    return folder


def read(out: Path) -> dict[str, Any]:
    """The results, which both files must hold."""
    document: dict[str, Any] = json.loads((out / "gpu.json").read_text(encoding="utf-8"))
    page = (out / "gpu.md").read_text(encoding="utf-8")
    for name in document["checks"]:
        assert f"| {name.replace('_', ' ')} |" in page
    return document


def test_every_check_passes_on_processors(kit: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(PROVE), "--device", "cpu", "--kit", str(kit), "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, "--seconds", "560"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    log = (tmp_path / "gpu.log").read_text(encoding="utf-8", errors="replace")
    assert done.returncode == 0, done.stdout + done.stderr + log[-5000:]
    document = read(tmp_path)
    assert [name for name, each in document["checks"].items() if each["passed"] is not True] == []
    assert document["tracking"].startswith("off: MLflow is not used")
    assert any("NCCL" in each for each in document["checks"]["strategies"]["not_here"])
    assert document["checks"]["checkpoints"]["seconds"] > 0
    profiles = document["checks"]["speed"]["profiles"]["tiny"]
    assert all(0 < profiles[loop]["busy"] <= 1 for loop in ("ours", "hand"))
    (measured,) = document["checks"]["speed"]["measured"]
    assert measured["workload"]["layers"] == 2
    assert measured["parameters"]["device"] == "cpu"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu.json", "gpu.log", "gpu.md"]


@pytest.mark.parametrize("shares", [False, True])
def test_a_check_that_crashes_or_hangs_ends_only_itself(
    prove: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shares: bool
) -> None:
    (tmp_path / "faulty.py").write_text(CHECKS, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    names = ("crashes", "fails", "hangs", "fine")
    monkeypatch.setattr(prove, "CHECKS", [prove.Check(name, "faulty", 1.0, shares) for name in names])
    out = tmp_path / "out"
    options = Namespace(out=out, device="cpu", seconds=14.0, only=None, kit=None)
    assert prove.prove(options, tmp_path) == 1
    found = read(out)["checks"]
    assert [found[name]["passed"] for name in names] == [False, False, False, True]
    assert found["crashes"]["reason"] == "ended with status -6"
    assert found["crashes"]["reached"] == 1
    assert found["fails"]["faults"] == ["one is less"]
    assert found["hangs"]["reason"].startswith("stopped after ")
    assert found["hangs"]["said"] == ["it began"]
    assert "all is well" in (out / "gpu.md").read_text(encoding="utf-8")


@pytest.mark.smoke
def test_a_short_time_leaves_results_too(prove: Any, tmp_path: Path) -> None:
    options = Namespace(out=tmp_path, device="cpu", seconds=2.0, only=None, kit=None)
    assert prove.prove(options, tmp_path) == 0
    checks = read(tmp_path)["checks"]
    assert len(checks) == 13
    assert {each["passed"] for each in checks.values()} == {None}
    assert all(each["reason"].startswith("not started: ") for each in checks.values())


@pytest.mark.smoke
def test_a_folder_without_our_wheel_is_named(prove: Any, tmp_path: Path) -> None:
    options = Namespace(out=tmp_path / "out", device="cpu", seconds=90.0, only=["speed"], kit=tmp_path)
    assert prove.prove(options, tmp_path) == 1
    assert "there is no wheel of worldsize" in read(tmp_path / "out")["checks"]["speed"]["reason"]


def test_a_signal_leaves_results_and_no_process(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(PROVE),
        "--device",
        "cpu",
        "--out",
        str(tmp_path),
        "--only",
        "checkpoints",
        "loader",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env=os.environ | {"TMPDIR": str(tmp_path)}
    ) as process:
        deadline = time.monotonic() + 100
        while not (started := find_processes(str(tmp_path))) or not (tmp_path / "gpu.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.001)  # so that the signal often comes before the driver has noted what it started
        assert len(started) > 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    document = read(tmp_path)
    assert document["stopped"] == "from outside"
    assert document["checks"]["loader"]["passed"] is False
    assert document["checks"]["checkpoints"]["reason"] == "not reached"
    assert find_processes(str(tmp_path)) == []


def find_processes(text: str) -> list[int]:
    """Processes of checks and trainings whose command line has a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if text.encode() in words and (b"--check" in words or b"loops.py" in words):
            found.append(int(folder.name))
    return found


@pytest.mark.smoke
def test_the_driver_needs_the_standard_library_only() -> None:
    command = [sys.executable, "-S", "-E", str(PROVE), "--help"]
    assert "--kit" in subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def test_the_kit_is_small_and_installs_without_a_network(tmp_path: Path) -> None:
    made = tmp_path / "kit"
    # `--old-file`: what is installed here is not looked at.
    command = [
        "make",
        "gpu-kit",
        f"KIT={made}",
        f"BIN={Path(sys.executable).parent}",
        "--old-file=.venv/.all",
    ]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=250)
    if built.returncode and "No matching distribution" in built.stderr:
        pytest.skip("needs a package index")
    assert built.returncode == 0, built.stderr[-1000:]
    assert sum(path.stat().st_size for path in made.iterdir()) <= MOST_MIB << 20
    venv.create(tmp_path / "bare", with_pip=True)
    code = f"import prove, pathlib; print(prove.install(pathlib.Path({str(made)!r}), pathlib.Path('.')))"
    bare = str(tmp_path / "bare" / "bin" / "python")
    nowhere = {"PATH": os.environ["PATH"], "PYTHONPATH": str(HERE), "PIP_INDEX_URL": "http://127.0.0.1:1"}
    told = subprocess.run(
        [bare, "-c", code], cwd=tmp_path, env=nowhere, capture_output=True, text=True, check=True
    )
    assert told.stdout == "None\n", told.stdout
    plan = [bare, "-m", "worldsize", "plan", str(ROOT / "pipelines" / "digits_ddp.yml")]
    site = nowhere | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(plan, env=site, capture_output=True, text=True, check=False, timeout=60)
    assert "world size" in done.stdout, done.stderr
