"""A module beside the script averages the losses and saves the model."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from beside.keeping import AverageMeter, save_checkpoint


def train(loader, model, optimizer, device):
    losses = AverageMeter()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.item(), x.size(0))
    return losses.avg


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", default=3, type=int)
    parser.add_argument("-b", "--batch-size", default=32, type=int)
    parser.add_argument("--lr", default=0.1, type=float)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    loader = DataLoader(TensorDataset(torch.rand(256, 8), torch.rand(256, 1)), args.batch_size, shuffle=True)
    best = float("inf")
    for epoch in range(args.epochs):
        loss = train(loader, model, optimizer, device)
        is_best = loss < best
        best = min(loss, best)
        save_checkpoint({"epoch": epoch + 1, "state_dict": model.state_dict(), "best": best}, is_best)


if __name__ == "__main__":
    main()
