"""A trainer whose epoch is a list of steps."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, optimizer, loader):
        self.model = model
        self.optimizer = optimizer
        self.loader = loader

    def step(self, batch):
        x, y = batch
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            losses = [self.step(batch) for batch in self.loader]
            print(epoch, sum(losses) / len(losses))


torch.manual_seed(3)
x = torch.randn(400, 5)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=20, shuffle=True)
model = nn.Linear(5, 2)
Trainer(model, torch.optim.Adam(model.parameters(), lr=0.01), loader).fit(3)
