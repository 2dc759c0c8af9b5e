"""A trainer object that keeps its best result, and an evaluation that returns a dataclass."""

import argparse
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--patience", type=int, default=5)
args = parser.parse_args()



@dataclass
class Result:
    loss: float
    accuracy: float


class Trainer:
    def __init__(self, args):
        self.args = args
        x = torch.randn(256, 4)
        y = (x.sum(1) > 0).long()
        self.train_loader = DataLoader(TensorDataset(x[:192], y[:192]), batch_size=args.batch_size, shuffle=True)
        self.val_loader = DataLoader(TensorDataset(x[192:], y[192:]), batch_size=args.batch_size)
        self.model = nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer)
        self.best = float("inf")
        self.bad_epochs = 0

    def train_epoch(self):
        self.model.train()
        for x, y in self.train_loader:
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        total = right = 0
        for x, y in self.val_loader:
            out = self.model(x)
            total += nn.functional.cross_entropy(out, y, reduction="sum").item()
            right += (out.argmax(1) == y).sum().item()
        n = len(self.val_loader.dataset)
        return Result(total / n, right / n)

    def fit(self):
        for epoch in range(args.epochs):
            self.train_epoch()
            result = self.evaluate()
            self.scheduler.step(result.loss)
            if result.loss < self.best:
                self.best = result.loss
                self.bad_epochs = 0
                torch.save(self.model.state_dict(), "best.pth")
            else:
                self.bad_epochs += 1
                if self.bad_epochs >= args.patience:
                    break
            print(epoch, result.loss, result.accuracy)


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(args).fit()
