"""Train a small network inside of `with open(…)`, and keep the best one and where it was."""

import argparse
import csv
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in loader:
            right += (model(images).argmax(1) == labels).sum().item()
    return right / len(loader.dataset)


def train(model, loader, optimizer, criterion):
    model.train()
    total = 0.0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--patience", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("runs"))
    args = parser.parse_args()
    torch.manual_seed(0)
    args.out.mkdir(parents=True, exist_ok=True)

    features = torch.randn(512, 8)
    labels = (features.sum(1) > 0).long()
    train_set = TensorDataset(features[:384], labels[:384])
    test_set = TensorDataset(features[384:], labels[384:])
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=args.batch_size)

    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()

    best: float = 0.0
    lowest = None
    bad_epochs = 0
    with open(args.out / "log.csv", "w", newline="") as f:
        log = csv.writer(f)
        log.writerow(["epoch", "loss", "accuracy"])
        for epoch in range(args.epochs):
            loss = train(model, train_loader, optimizer, criterion)
            accuracy = evaluate(model, test_loader)
            log.writerow([epoch, loss, accuracy])
            f.flush()
            if lowest is None or loss < lowest:
                lowest = loss
            if accuracy > best:
                best = accuracy
                bad_epochs = 0
                torch.save(model.state_dict(), args.out / "best.pt")
            else:
                bad_epochs += 1
            if bad_epochs >= args.patience:
                break


if __name__ == "__main__":
    main()
