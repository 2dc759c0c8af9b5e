"""Train a classifier of digits."""

import os

import torch
from torch import nn


class Net(nn.Linear):
    def __init__(self):
        super().__init__(64, 10)


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        loss = model(torch.randn(32, 64, device=device)).square().mean()
        loss.backward()
        optimizer.step()


main()
