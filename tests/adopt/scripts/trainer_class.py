import argparse
import logging
import os
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(message)s")
logger = logging.getLogger(__name__)


@dataclass
class Config:
    hidden: int = 32
    batch_size: int = 16
    lr: float = 1e-2
    epochs: int = 2
    device: str = "cuda" if torch.cuda.is_available() else "cpu"


class SineDataset(Dataset):
    """Points of a noisy sine."""

    def __init__(self, n, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.rand(n, 1, generator=g) * 6
        self.y = torch.sin(self.x) + 0.05 * torch.randn(n, 1, generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Trainer:
    def __init__(self, config: Config, model: nn.Module, train_set: Dataset, val_set: Dataset):
        self.config = config
        self.device = torch.device(config.device)
        self.model = model.to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.lr)
        self.criterion = nn.MSELoss()
        self.train_loader = DataLoader(train_set, batch_size=config.batch_size, shuffle=True, drop_last=True)
        self.val_loader = DataLoader(val_set, batch_size=64)

    def train_epoch(self):
        self.model.train()
        running = 0.0
        for x, y in self.train_loader:
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            running += loss.item()
        return running / len(self.train_loader)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        losses = [self.criterion(self.model(x.to(self.device)), y.to(self.device)).item() for x, y in self.val_loader]
        return sum(losses) / len(losses)

    def fit(self):
        best = float("inf")
        for epoch in range(self.config.epochs):
            train_loss = self.train_epoch()
            val_loss = self.validate()
            logger.info("epoch %d train %.4f val %.4f", epoch, train_loss, val_loss)
            if val_loss < best:
                best = val_loss
                self.save("best.pt")

    def save(self, name):
        os.makedirs("runs", exist_ok=True)
        torch.save(self.model.state_dict(), os.path.join("runs", name))


def main():
    torch.manual_seed(0)
    config = Config()
    model = nn.Sequential(nn.Linear(1, config.hidden), nn.Tanh(), nn.Linear(config.hidden, 1))
    trainer = Trainer(config, model, SineDataset(256), SineDataset(64, seed=1))
    trainer.fit()


if __name__ == "__main__":
    main()
