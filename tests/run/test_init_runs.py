"""What `worldsize init` writes for a table trains, is evaluated and registers a model, as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.run, pytest.mark.timeout(400)]


def call(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "worldsize", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_table_with_an_id_and_empty_cells_runs(tmp_path: Path) -> None:
    labels = [("no", "yes")[n % 9 > 4 or n % 7 == 0] for n in range(80)]  # to be learned
    rows = "".join(f"c{n},{n % 9},{'' if n % 5 else n},{label}\n" for n, label in enumerate(labels))
    (tmp_path / "customers.csv").write_text("id,visits,income,bought\n" + rows, encoding="utf-8")

    call(tmp_path, "init", "--from", "customers.csv")
    assert "nothing found" in call(tmp_path, "check", ".")
    said = call(tmp_path, "run", "customers.yml", "--set", "train.epochs=40")

    assert "customers version 1" in said
