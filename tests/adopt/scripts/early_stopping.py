import argparse
import copy
from pathlib import Path

import torch
import torch.nn as nn
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--bs", type=int, default=32)
    p.add_argument("--lr", type=float, default=0.01)
    p.add_argument("--patience", type=int, default=2)
    p.add_argument("--out", type=Path, default=Path("."))
    return p.parse_args()


def load(bs):
    data = load_breast_cancer()
    x = torch.tensor(data.data, dtype=torch.float32)
    x = (x - x.mean(0)) / x.std(0)
    y = torch.tensor(data.target, dtype=torch.float32)
    xt, xv, yt, yv = train_test_split(x, y, test_size=0.1, random_state=0)
    return DataLoader(TensorDataset(xt, yt), bs, shuffle=True), DataLoader(TensorDataset(xv, yv), 256)


def evaluate(model, loader, loss_fn):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += loss_fn(model(x).squeeze(1), y).item() * len(x)
    return total / len(loader.dataset)


if __name__ == "__main__":
    args = get_args()
    torch.manual_seed(0)
    train_loader, val_loader = load(args.bs)
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1))
    loss_fn = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)

    best_loss = float("inf")
    bad_epochs = 0
    for epoch in range(args.epochs):
        model.train()
        for x, y in tqdm(train_loader, desc=f"epoch {epoch}"):
            loss = loss_fn(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        val_loss = evaluate(model, val_loader, loss_fn)
        scheduler.step(val_loss)
        print(f"{epoch=} {val_loss=:.4f}")
        if val_loss < best_loss:
            best_loss = val_loss
            bad_epochs = 0
            torch.save(model.state_dict(), args.out / "best.pt")
        else:
            bad_epochs += 1
            if bad_epochs >= args.patience:
                print("early stopping")
                break

    model.load_state_dict(torch.load(args.out / "best.pt"))
    print("best", evaluate(model, val_loader, loss_fn))
