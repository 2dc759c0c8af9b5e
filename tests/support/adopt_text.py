"""Adopting a script that is a text, and a plain script and one with a trainer to begin with."""

from __future__ import annotations

from pathlib import Path

from worldsize.adopting.adopt import adopt_module
from worldsize.adopting.model import Adoption
from worldsize.adopting.source.reading import parse_bytes

PLAIN = (Path(__file__).parents[1] / "adopt/scripts/globals_blobs.py").read_bytes()

# With places for an option more, for what `__init__` loads, and for how `load` begins.
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


def adopt_text(text: str | bytes) -> Adoption:
    """Adopt a script by its text."""
    module, encoding = parse_bytes("train.py", text.encode() if isinstance(text, str) else text)
    return adopt_module(module, encoding)
