"""Distances between points: names that the added lines would use, a profiler, an optimizer that may be missing."""

import sys
from time import time

import torch
from torch.utils.data import DataLoader, TensorDataset

points = torch.rand(512, 2)
dist = torch.cdist(points, points).mean(1)
loader = DataLoader(TensorDataset(points, dist), batch_size=32, shuffle=True)
device = "cuda" if torch.cuda.is_available() else "cpu"


def run(model, rate, epochs=5):
    """Train, and profile it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    started = time()
    with torch.profiler.profile() as prof:
        for epoch in range(epochs):
            total = 0.0
            for x, y in loader:
                loss = (model.forward(x.to(device)).squeeze(1) - y.to(device)).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                prof.step()
                total += loss.item()
            print(epoch, total / len(list(loader)), time() - started)


if __name__ == "__main__":
    net = torch.nn.Linear(2, 1).to(device)
    run(net, 0.1)
    sys.exit(0)
