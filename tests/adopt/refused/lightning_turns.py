import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader


class Adversaries(LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.maker, self.judge = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)

    def training_step(self, batch, index):
        made, judged = self.optimizers()
        self.manual_backward(-self.judge(self.maker(batch)).mean())
        made.step()
        self.manual_backward(self.judge(self.maker(batch)).mean() - self.judge(batch).mean())
        judged.step()

    def configure_optimizers(self):
        return [torch.optim.Adam(each.parameters()) for each in (self.maker, self.judge)]


Trainer(max_epochs=3).fit(Adversaries(), DataLoader(torch.randn(64, 2), batch_size=8))
