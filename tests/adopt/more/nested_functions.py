"""Functions inside of the function that trains know the model and the loaders around them."""

import argparse
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parse(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--bs", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-2)
    ap.add_argument("--out", default="model.pt")
    return ap.parse_args(argv)


def main(args):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(640, 10)
    y = x @ torch.randn(10, 1) + 0.1 * torch.randn(640, 1)
    tr = DataLoader(TensorDataset(x[:512], y[:512]), batch_size=args.bs, shuffle=True)
    va = DataLoader(TensorDataset(x[512:], y[512:]), batch_size=args.bs)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr)
    train_losses, val_losses = [], []

    def step(batch):
        xb, yb = (b.to(device) for b in batch)
        return nn.functional.mse_loss(model(xb), yb)

    def train_epoch():
        model.train()
        losses = []
        for batch in tr:
            opt.zero_grad()
            loss = step(batch)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        return np.mean(losses)

    @torch.no_grad()
    def validate():
        model.eval()
        return np.mean([step(b).item() for b in va])

    for epoch in range(args.epochs):
        train_losses.append(train_epoch())
        val_losses.append(validate())
        sys.stdout.write(f"\r{epoch} {train_losses[-1]:.4f} {val_losses[-1]:.4f}\n")
        sys.stdout.flush()
    torch.save(model.state_dict(), args.out)


if __name__ == "__main__":
    main(parse(sys.argv[1:]))
