"""A function that fire calls, which writes each loss into a file that stays open."""

import csv

import fire
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(epochs=3, bs=32, lr=0.05, log="losses.csv"):
    torch.manual_seed(1)
    x = torch.randn(256, 6)
    loader = DataLoader(TensorDataset(x, x[:, :1] ** 2), bs, True)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    file = open(log, "w", newline="")
    rows = csv.writer(file)
    rows.writerow(["epoch", "loss"])
    history = []
    for epoch in range(epochs):
        for a, b in loader:
            loss = nn.functional.mse_loss(model(a), b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rows.writerow([epoch, loss.item()])
        history.append(loss.item())
    file.close()
    np.savetxt("history.txt", np.array(history))


if __name__ == "__main__":
    fire.Fire(main)
