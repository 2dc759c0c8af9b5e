import random

import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Sampler, TensorDataset, WeightedRandomSampler


def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def make_data(n=400):
    rng = np.random.RandomState(0)
    labels = (rng.rand(n) < 0.2).astype(np.int64)  # few positives
    rows = (rng.randn(n, 10) + labels[:, None]).astype(np.float32)
    return torch.from_numpy(rows), torch.from_numpy(labels)


def main(epochs=2, batch_size=40, lr=0.05):
    seed_all(11)
    rows, labels = make_data()
    counts = torch.bincount(labels)
    weights = (1.0 / counts.float())[labels]
    sampler = WeightedRandomSampler(weights, num_samples=len(labels), replacement=True)
    loader = DataLoader(TensorDataset(rows, labels), batch_size=batch_size, sampler=sampler)

    net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = optim.SGD(net.parameters(), lr=lr, momentum=0.9, nesterov=True)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        correct = seen = 0
        for x, y in loader:
            optimizer.zero_grad()
            out = net(x)
            loss = criterion(out, y)
            loss.backward()
            optimizer.step()
            correct += (out.argmax(1) == y).sum().item()
            seen += len(y)
        print("epoch %d loss %.4f accuracy %.3f" % (epoch, loss.item(), correct / seen))


if __name__ == "__main__":
    main()
