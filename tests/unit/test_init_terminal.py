"""`worldsize init` on a real pseudo-terminal: questions, wrong answers, Ctrl-C and the end of the input."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.run, pytest.mark.smoke]  # a process and a terminal for each
TABLE = "area,price\n" + "".join(f"{n},{n * 3}.5\n" for n in range(60))
CTRL_C, CTRL_D = "\x03", "\x04"
SECONDS = 40.0


def talk(folder: Path, *turns: tuple[str, str], source: str | None = None) -> tuple[int, str]:
    """Run it in a folder; each turn is what it asks and what is typed. The exit status and what was shown."""
    argv = [sys.executable, "-m", "worldsize", "init", *(["--from", source] if source else [])]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execv(sys.executable, argv)
    shown, seen, left, end = "", 0, list(turns), time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            if left and left[0][0] in shown[seen:]:
                seen = len(shown)
                time.sleep(0.3)  # readline loses a signal that comes before it waits for a key
                os.write(terminal, left.pop(0)[1].encode())
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    shown += os.read(terminal, 4096).decode()
                except OSError:  # the program has ended
                    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    finally:
        os.close(terminal)
    pytest.fail(f"it still waits after:\n{shown}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flats.csv").write_text(TABLE, encoding="utf-8")
    return tmp_path


def test_wrong_answers_are_asked_again(folder: Path) -> None:
    status, shown = talk(
        folder,
        ("Start from", "nothing.csv\n"),
        ("`nothing.csv` does not exist", "'flats.csv'\n"),
        ("Name [flats]", "my flats\n"),
        ("VM size", "Standard_NC96\n"),
        ("is not a VM size that Worldsize knows", "standard_nc96ads_a100_v4\n"),
        ("Label (of `area`, `price`) [price]", "prise\n"),
        ("`flats.csv` has no column `prise`", "price\n"),
    )

    assert status == 0, shown
    spec = yaml.safe_load((folder / "my_flats.yml").read_text(encoding="utf-8"))
    assert spec["compute"]["gpu"]["instance_type"] == "Standard_NC96ads_A100_v4"
    assert spec["steps"]["shard"]["with"]["label"] == "price"


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
@pytest.mark.parametrize("question", ["Start from", "Name", "VM size", "Label"])
def test_leaving_at_a_question_writes_nothing(folder: Path, key: str, question: str) -> None:
    turns = [("Start from", "flats.csv\n"), ("Name", "\n"), ("VM size", "\n"), ("Label", "\n")]
    at = [asked for asked, _ in turns].index(question)

    status, shown = talk(folder, *turns[:at], (question, key))

    assert status == 130, shown
    assert "nothing is written" in shown
    assert [each.name for each in folder.iterdir()] == ["flats.csv"]


def test_the_sizes_of_a_pipelines_clusters_are_asked_for(folder: Path) -> None:
    (folder / "pipeline.yml").write_text(
        "type: pipeline\njobs:\n"
        "  a: {type: command, compute: azureml:one, command: ls, environment: azureml:e:1}\n"
        "  b: {type: command, compute: azureml:two, command: ls, environment: azureml:e:1}\n",
        encoding="utf-8",
    )

    status, shown = talk(folder, ("`one`", "Standard_D4s_v5\n"), ("`two`", "\n"), source="pipeline.yml")

    assert status == 0, shown
    settings = yaml.safe_load((folder / "worldsize.yml").read_text(encoding="utf-8"))
    assert settings["compute"] == {
        "one": {"instance_type": "Standard_D4s_v5"},
        "two": {},
    }
