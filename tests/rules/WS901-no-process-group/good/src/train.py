"""Train a classifier of digits on all ranks."""

import torch
from group import join
from torch import nn


def main():
    device = join()
    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 10).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.randn(32, 64, device=device)).square().mean()
        loss.backward()
        optimizer.step()


main()
