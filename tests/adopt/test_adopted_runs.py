"""From a script to a run: the adopted spec trains, and scripts that cannot be proven are told so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.run

SCRIPTS = Path(__file__).with_name("scripts")
TRAINS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rows = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
loader = DataLoader(rows, batch_size=8, shuffle=True)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
"""


def worldsize(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "worldsize", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.timeout(240)
def test_an_adopted_script_is_written_and_runs_to_its_model(tmp_path: Path) -> None:
    script = tmp_path / "argparse_digits.py"
    script.write_bytes((SCRIPTS / script.name).read_bytes())

    adopted = worldsize(tmp_path, "adopt", script.name, "--write", "-o", "job", "--steps", "6")
    assert adopted.returncode == 0, adopted.stdout + adopted.stderr
    assert "same loss curve: all 6 steps within 0.1 % of the loss, or 0.0001" in adopted.stdout
    assert "DistributedSampler" in script.read_text(encoding="utf-8")

    done = worldsize(tmp_path, "run", "job/argparse_digits.yml", "--processes", "2", "--no-track")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (tmp_path / ".worldsize" / "runs").iterdir()
    assert [each.name for each in run.rglob("outputs/model/*.pt")] == ["digits_cnn.pt"]
    assert [each.name for each in run.rglob("outputs/checkpoints/*.pt")] == ["latest.pt"]


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            TRAINS.replace("model = nn", 'raise SystemExit("no rows")\nmodel = nn'),
            ["ended with status 1", "| no rows"],
        ),
        (TRAINS.replace("range(2)", "range(0)"), ["ends without a step"]),
    ],
    ids=["crashes", "never steps"],
)
def test_a_script_that_does_not_train_is_told(tmp_path: Path, text: str, words: list[str]) -> None:
    (tmp_path / "train.py").write_text(text, encoding="utf-8")

    done = worldsize(tmp_path, "adopt", "train.py", "-o", "job")

    assert done.returncode == 1, done.stdout + done.stderr
    for each in words:
        assert each in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.timeout(200)
def test_an_error_behind_an_epoch_is_found_by_its_proof(tmp_path: Path) -> None:
    rows = TRAINS.replace("randn(64", "randn(1024")  # an epoch has more steps than the proof
    text = rows.replace(
        "    print(epoch", '    assert not torch.distributed.is_initialized(), "late"\n    print(epoch'
    )
    (tmp_path / "train.py").write_text(text, encoding="utf-8")

    done = worldsize(tmp_path, "adopt", "train.py", "-o", "job")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "error: the adopted script fails at the end of an epoch: rank " in done.stdout
    assert "AssertionError: late" in done.stdout
    assert not (tmp_path / "job").exists()
