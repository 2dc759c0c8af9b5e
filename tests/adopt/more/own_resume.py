"""Resumes by an option of its own, saves in two steps, and has paths for defaults."""

import argparse
import os
import shutil
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", type=Path, default=Path("data"))
parser.add_argument("--out-dir", type=Path, default=Path("runs") / "first")
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--lr", type=float, default=1e-2)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--resume", type=str, default="")
args = parser.parse_args()


def save(path, epoch, best):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "best": best}
    part = str(path) + ".part"
    torch.save(state, part)
    os.replace(part, path)


rows = np.load(args.data_dir / "train.npz")
dataset = TensorDataset(torch.from_numpy(rows["x"]), torch.from_numpy(rows["y"]))
loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
model = nn.Linear(8, 3)
optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
start_epoch, best, waited, pending = 0, float("inf"), 0, list(range(3))
if args.resume:
    state = torch.load(args.resume)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start_epoch, best = state["epoch"] + 1, state["best"]

log = open(args.out_dir / "log.csv", "w")
lines = (args.out_dir / "lines.txt").open("a")
path = args.out_dir / "last.txt"
last = path.open("w")

for epoch in range(start_epoch, args.epochs):
    pending.remove(epoch % 3)
    pending.append(epoch % 3)
    total = 0.0
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    save(args.out_dir / "last.pt", epoch, best)
    if total < best:
        best, waited = total, 0
        shutil.copy(args.out_dir / "last.pt", args.out_dir / "best.part")
        (args.out_dir / "best.part").replace(args.out_dir / "best.pt")
    waited += 1
    log.write(f"{epoch},{total}\n")
    lines.write("done\n")
log.close()
