"""A trainer keeps the options, as many projects with `get_args` do."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--patience", type=int, default=2)
    args = parser.parse_args()
    args.device = "cuda" if torch.cuda.is_available() else "cpu"
    return args


class Trainer:
    """Trains until the validation loss stops falling."""

    def __init__(self, args, model, train_loader, val_loader):
        self.args = args
        self.model = model.to(args.device)
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr)
        self.best = float("inf")
        self.bad_epochs = 0

    def train(self):
        for epoch in range(self.args.epochs):
            for x, y in self.train_loader:
                loss = self.loss(x, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            val_loss = self.validate()
            print(f"epoch {epoch}: {val_loss:.4f}")
            if val_loss < self.best:
                self.best = val_loss
                self.bad_epochs = 0
                torch.save(self.model.state_dict(), "best.pt")
            else:
                self.bad_epochs += 1
                if self.bad_epochs > self.args.patience:
                    break

    def loss(self, x, y):
        return nn.functional.mse_loss(self.model(x.to(self.args.device)), y.to(self.args.device))

    @torch.no_grad()
    def validate(self):
        return sum(self.loss(x, y).item() for x, y in self.val_loader) / len(self.val_loader)


def main():
    opt = get_args()
    torch.manual_seed(0)
    rows = TensorDataset(torch.rand(256, 20), torch.rand(256, 1))
    train_loader = DataLoader(rows, batch_size=opt.batch_size, shuffle=True)
    val_loader = DataLoader(rows, batch_size=opt.batch_size)
    Trainer(opt, nn.Linear(20, 1), train_loader, val_loader).train()


if __name__ == "__main__":
    main()
