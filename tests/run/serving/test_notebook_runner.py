"""The runner of notebooks: a real kernel, cells after a failed one, and one that takes too long."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from notebooks import main, run_notebook

pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(90)]


def write(path: Path, *cells: str) -> Path:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    notebook.metadata["kernelspec"] = {"name": "amlv2_py310", "display_name": "of Azure's image"}
    nbformat.write(notebook, path)
    return path


def test_each_cell_is_reported_and_the_file_stays(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.ipynb",
        "import os\nvalue = os.environ['GIVEN']",
        "1 / 0",
        "import time\ntime.sleep(60)",
        "import sys\nprint(value, os.getcwd(), repr(sys.path[0]))",
    )
    before = path.read_bytes()
    reports = list(run_notebook(path, env={"GIVEN": "x", "PATH": "/usr/bin:/bin"}, cell_seconds=2))
    assert [bool(each.error) for each in reports] == [False, True, True, False]
    assert reports[1].error == "ZeroDivisionError: division by zero"
    assert reports[2].error.startswith("KeyboardInterrupt")
    assert reports[3].output == f"x {tmp_path} ''\n"
    assert path.read_bytes() == before


def test_the_exit_status_tells_of_failed_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write(tmp_path / "good.ipynb", "1"))]) == 0
    assert "1 of 1 cells passed" in capsys.readouterr().out
    assert main([str(write(tmp_path / "bad.ipynb", "1", "x"))]) == 1
    assert "1 of 2 cells passed" in capsys.readouterr().out
