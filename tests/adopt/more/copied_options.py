"""A trainer copies what it needs from the options; the loop over epochs sees none."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, args, model, loader):
        self.epochs = args.epochs
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = model.to(self.device)
        self.loader = loader
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr)

    def fit(self):
        for epoch in range(self.epochs):
            self.run_epoch(epoch)

    def run_epoch(self, epoch):
        for x, y in self.loader:
            loss = nn.functional.mse_loss(self.model(x.to(self.device)), y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        print(epoch, loss.item())


def run(trainer, rows):
    print(len(rows), "rows")
    trainer.fit()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    rows = TensorDataset(torch.rand(256, 20), torch.rand(256, 1))
    loader = DataLoader(rows, batch_size=args.batch_size, shuffle=True)
    trainer = Trainer(args, nn.Linear(20, 1), loader)
    run(trainer, rows)


if __name__ == "__main__":
    main()
