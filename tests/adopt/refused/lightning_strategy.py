import lightning as L
import torch
from lightning.pytorch.strategies import FSDPStrategy
from torch.utils.data import DataLoader


class Small(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, index):
        return self.layer(batch).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


strategy = FSDPStrategy(cpu_offload=True)
trainer = L.Trainer(max_epochs=3, devices=4, strategy=strategy)
trainer.fit(Small(), DataLoader(torch.randn(64, 2), batch_size=8))
