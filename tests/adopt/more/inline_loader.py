"""The loader has no name, and its function knows no epoch."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def train_epoch(model, optimizer, images, labels, batch_size):
    total = 0.0
    batches = 0
    for i, (x, y) in enumerate(
        tqdm(DataLoader(TensorDataset(images, labels), batch_size=batch_size, shuffle=True, drop_last=True))
    ):
        loss = nn.functional.mse_loss(model(x.to(DEVICE)), y.to(DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        batches += 1
    return total / batches


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--bs", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(0)
    images, labels = torch.rand(256, 20), torch.rand(256, 1)
    model = nn.Linear(20, 1).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        print(f"epoch {epoch}: {train_epoch(model, optimizer, images, labels, args.bs):.4f}")


if __name__ == "__main__":
    main()
