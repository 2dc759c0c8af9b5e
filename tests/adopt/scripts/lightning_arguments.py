import os
from argparse import ArgumentParser

import pytorch_lightning as pl
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __init__(self, n=256):
        g = torch.Generator().manual_seed(1)
        phase = torch.rand(n, 1, generator=g) * 6.28
        steps = torch.arange(32) / 5
        self.x = torch.sin(steps + phase) + 0.1 * torch.randn(n, 32, generator=g)

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, i):
        return self.x[i]


class AutoEncoder(pl.LightningModule):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.encoder = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 32))

    def training_step(self, batch, batch_idx):
        loss = nn.functional.mse_loss(self.decoder(self.encoder(batch)), batch)
        self.log('loss', loss)
        return loss

    def configure_optimizers(self):
        optimizer = optim.AdamW(self.parameters(), lr=self.args.learning_rate)
        scheduler = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.95)
        return [optimizer], [scheduler]


parser = ArgumentParser()
parser.add_argument('--learning_rate', type=float, default=0.005)
parser.add_argument('--batch_size', type=int, default=32)
parser.add_argument('--max_epochs', type=int, default=3)
parser.add_argument('--out_dir', default='.')
args = parser.parse_args()

pl.seed_everything(0, workers=True)
model = AutoEncoder(args)
loader = DataLoader(Waves(), batch_size=args.batch_size, shuffle=True, drop_last=True)
trainer = pl.Trainer(max_epochs=args.max_epochs, logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(model, loader)
print(f"final loss {trainer.callback_metrics['loss']:.4f}")
torch.save(model.state_dict(), os.path.join(args.out_dir, 'autoencoder.pt'))
