"""Scripts that load checkpoints of their own, and what adopting adds to them."""

from __future__ import annotations

import pytest
from adopt_text import adopt_text

TRAINER = """\
import argparse
import os
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    resume: str = ""
    start: bool = True


def read():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--resume", default="")
    {option}
    return parser.parse_args()


class Trainer:
    def __init__(self, args, cfg):
        self.args = args
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr)
        rows = TensorDataset(torch.rand(64, 4), torch.rand(64, 1))
        self.loader = DataLoader(rows, batch_size=args.batch_size, shuffle=True)
        self.start_epoch = 0
        {resume}

    def load(self, path):
        {guard}
        state = torch.load(path, map_location="cpu")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.start_epoch = state["epoch"] + 1

    def fit(self):
        for epoch in range(self.start_epoch, self.args.epochs):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                loss = (self.model(x) - y).pow(2).mean()
                loss.backward()
                self.optimizer.step()


def main():
    args, cfg = read(), Settings()
    trainer = Trainer(args, cfg)
    trainer.fit()


main()
"""
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
