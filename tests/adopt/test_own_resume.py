"""Scripts that load checkpoints of their own, and what adopting adds to them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from adopt_text import TRAINER, adopt_text

from worldsize.adopting.model import Adoption

RELOAD = "if {}:\n            self.load({})"

ELSE = "\n        elif os.path.exists('a.pt'):\n            self.load('a.pt')"


def adopt_with(resume: str, guard: str = "pass", option: str = "pass"):  # type: ignore[no-untyped-def]
    return adopt_text(
        TRAINER.replace("{resume}", resume).replace("{guard}", guard).replace("{option}", option)
    )


def goes_on(text: str) -> bool:
    return "latest.pt" in text and "for epoch in range(start_epoch, self.args.epochs):" in text


@pytest.mark.parametrize(
    ("resume", "guard"),
    [
        (RELOAD.format("args.resume", "args.resume"), "pass"),
        (RELOAD.format("self.args.resume", "self.args.resume"), "pass"),
        (RELOAD.format("args.resume is not None and os.path.exists('a.pt')", "'a.pt'"), "pass"),
        (RELOAD.format("cfg.resume", "cfg.resume"), "pass"),
        ("if not args.resume:\n            pass\n        else:\n            self.load('a.pt')", "pass"),
        ("path = args.resume\n        if path:\n            self.load(path)", "pass"),
        ("self.load(args.resume)", "if not path:\n            return"),
        ("pass", "pass"),  # nothing loads
    ],
)
def test_a_trainer_that_resumes_only_with_an_option_gets_checkpoints(resume: str, guard: str) -> None:
    adoption = adopt_with(resume, guard)
    compile(adoption.text, "train.py", "exec")
    assert goes_on(adoption.text)
    assert not any("checkpoints" in each.message for each in adoption.obstacles)


@pytest.mark.parametrize(
    "resume",
    [
        RELOAD.format("os.path.exists('a.pt')", "'a.pt'"),
        RELOAD.format("args.resume or os.path.exists('a.pt')", "'a.pt'"),
        RELOAD.format("args.resume", "args.resume") + ELSE,
        RELOAD.format("cfg.start", "'a.pt'"),
    ],
)
def test_a_trainer_that_resumes_by_itself_is_reported_where_a_job_loses_its_folder(resume: str) -> None:
    adoption = adopt_with(resume)
    assert "latest.pt" not in adoption.text
    [found] = [each for each in adoption.obstacles if "checkpoints" in each.message]
    assert found.message.startswith("no checkpoints: the script loads its own here")
    kept = adopt_with(resume, option='parser.add_argument("--checkpoint-dir", default="checkpoints")')
    assert "latest.pt" not in kept.text
    assert not any("checkpoints" in each.message for each in kept.obstacles)


def test_a_folder_that_is_only_resumed_from_with_an_option_is_taken_by_the_job() -> None:
    option = 'parser.add_argument("--checkpoint-dir", default="checkpoints")'
    adoption = adopt_with(RELOAD.format("args.resume", "args.resume"), option=option)
    assert goes_on(adoption.text)
    assert 'CHECKPOINTS = os.environ.get("AZURE_ML_OUTPUT_checkpoints")\n' in adoption.text
    given = adopt_with(RELOAD.format("args.checkpoint_dir", "args.checkpoint_dir"), option=option)
    assert "latest.pt" not in given.text


LOOP = """\
import argparse
import os
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--resume", RESUME)
parser.add_argument("--out", default="out")
parser.add_argument("--epochs", type=int, default=6)
args = parser.parse_args()
os.makedirs(args.out, exist_ok=True)
torch.manual_seed(0)
rows = torch.randn(128, 8)
loader = DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=16, shuffle=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
start_epoch, best, waited, step = 0, float("inf"), 0, 0
LOAD
for epoch in range(start_epoch, args.epochs):
    total = 0.0
    for x, y in loader:
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        step += 1
    waited = 0 if total < best else waited + 1
    best = min(best, total)
    SAVE
    print(f"epoch {epoch} step {step} waited {waited} best {best:.6f} loss {total:.6f}", flush=True)
"""
LOADS = """
if TEST:
    state = torch.load(WHERE)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start_epoch, best = state["epoch"] + 1, state["best"]
"""
STATE = '{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "best": best}'
LAST = 'os.path.join(args.out, "last.pt")'


def adopt_own(
    test: str, where: str, save: str = f"torch.save({STATE}, {LAST})", resume: str = "default=None"
) -> Adoption:
    load = LOADS.replace("TEST", test).replace("WHERE", where)
    text = LOOP.replace("LOAD", load).replace("SAVE", save).replace("RESUME", resume)
    return adopt_text(text)


@pytest.mark.parametrize(
    ("test", "where", "resume", "set_in_job"),
    [
        (f"os.path.exists({LAST})", LAST, "default=None", ""),
        ("args.resume", "args.resume", "default=None", f"    args.resume = {LAST}\n"),
        ("args.resume", LAST, 'action="store_true"', "    args.resume = True\n"),
        ("args.resume == 'last'", LAST, "default='none'", "    args.resume = 'last'\n"),
    ],
)
def test_the_checkpoint_of_a_script_is_the_only_one(
    test: str, where: str, resume: str, set_in_job: str
) -> None:
    adoption = adopt_own(test, where, resume=resume)
    compile(adoption.text, "train.py", "exec")
    assert "latest.pt" not in adoption.text
    assert adoption.text.count("torch.save(") == 1  # of the function that writes it whole
    assert set_in_job in adoption.text
    assert ("if CHECKPOINTS and os.path.exists(" in adoption.text) is bool(set_in_job)
    assert '"best": best, "step": step, "waited": waited}' in adoption.text
    assert '    waited = state.get("waited", waited)\n' in adoption.text
    assert {flag.option: flag.role for flag in adoption.profile.flags}["--out"] == "checkpoints"
    assert not [
        left for left in adoption.obstacles if "resumes" in left.message or "checkpoints" in left.message
    ]


@pytest.mark.parametrize(
    ("save", "path"),
    [
        (f"torch.save({STATE}, Path(args.out) / 'x.pt')", "Path(args.out) / 'x.pt'"),
        (f"torch.save({STATE}, args.out + '/x.pt')", "args.out + '/x.pt'"),
        (f"torch.save({STATE}, 't')\n    os.replace('t', {LAST})", LAST),
        (f"with open({LAST}, 'wb') as file:\n        torch.save({STATE}, file)", LAST),
        (f"if total <= best:\n        torch.save({STATE}, 'best.pt')\n    torch.save({STATE}, {LAST})", LAST),
    ],
)
def test_a_job_that_resumes_loads_what_is_saved_each_time(save: str, path: str) -> None:
    adoption = adopt_own("args.resume", "args.resume", save)
    assert f"if CHECKPOINTS and os.path.exists({path}):" in adoption.text
    assert "latest.pt" not in adoption.text


def test_a_checkpoint_that_cannot_be_named_gets_no_second() -> None:
    adoption = adopt_own("args.resume", "args.resume", f"torch.save({STATE}, f'{{args.out}}/{{epoch}}.pt')")
    assert "latest.pt" not in adoption.text
    message = "no checkpoints: the script loads its own only by `args.resume`, which a job does not set"
    assert message in [left.message for left in adoption.obstacles]


def test_weights_alone_are_no_checkpoint() -> None:
    assert (
        "latest.pt" in adopt_own("args.resume", "args.resume", "torch.save(model.state_dict(), 'x.pt')").text
    )


def run_killed(folder: Path, text: str, epochs: int | None) -> str:
    """What the first of two processes prints; both are killed after a number of epochs, if one is given."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = str(bound.getsockname()[1])
    (folder / "train.py").write_text(text)
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    world["AZURE_ML_OUTPUT_checkpoints"] = str(folder / "out")
    logs = [(folder / f"{rank}.log").open("w") for rank in range(2)]
    ranks = [
        subprocess.Popen(
            [sys.executable, "train.py", "--out", str(folder / "out")],
            cwd=folder,
            env={**os.environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=logs[rank],
        )
        for rank in range(2)
    ]
    try:
        deadline = time.monotonic() + 90
        while epochs is not None and (folder / "0.log").read_text().count("epoch") < epochs:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        if epochs is None:
            assert [rank.wait(timeout=90) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
        for log in logs:
            log.close()
    return (folder / "0.log").read_text()


@pytest.mark.run
@pytest.mark.timeout(400)
@pytest.mark.parametrize("test", ["args.resume", f"os.path.exists({LAST})"])
def test_a_job_that_is_killed_goes_on_as_one_that_is_not(tmp_path: Path, test: str) -> None:
    text = adopt_own(test, "args.resume" if test == "args.resume" else LAST).text
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    lines = run_killed(whole, text, None).splitlines()
    run_killed(killed, text, 3)
    resumed = run_killed(killed, text, None).splitlines()
    assert 0 < len(resumed) < len(lines) == 6
    assert resumed == lines[-len(resumed) :]
