"""LightningCLI reads the command line itself."""

import torch
from lightning import LightningModule
from lightning.pytorch.cli import LightningCLI


class Line(LightningModule):
    def __init__(self, lr: float = 0.1):
        super().__init__()
        self.lr = lr
        self.layer = torch.nn.Linear(3, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)


if __name__ == "__main__":
    LightningCLI(Line)
