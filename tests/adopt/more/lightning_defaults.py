"""The options are the parameters of the module, whose defaults stand for themselves."""

from argparse import ArgumentParser

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset


class Regression(LightningModule):
    """A line through points."""

    def __init__(self, lr: float = 1e-2, batch_size: int = 4, **options):
        super().__init__()
        self.lr = lr
        self.batch_size = batch_size
        self.line = torch.nn.Linear(1, 1)

    def training_step(self, batch, index):
        x, y = batch
        return (self.line(x) - y).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.line.parameters(), lr=self.lr)

    def train_dataloader(self):
        x = torch.linspace(0, 1, 64).unsqueeze(1)
        return DataLoader(TensorDataset(x, 2 * x), batch_size=self.batch_size, shuffle=True)


def main(args):
    """Train."""
    model = Regression(**vars(args))
    trainer = Trainer()
    trainer.fit(model)


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--batch_size", type=int, default=8)
    args = parser.parse_args()
    main(args)
