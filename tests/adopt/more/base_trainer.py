"""A base class runs the epochs, and its subclass trains one."""

import os
import argparse
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.tensorboard import SummaryWriter


class Toy(Dataset):
    def __init__(self, n): self.x = torch.randn(n, 6); self.y = (self.x.sum(1) > 0).long()
    def __len__(self): return len(self.y)
    def __getitem__(self, i): return self.x[i], self.y[i]


class BaseTrainer:
    def __init__(self, model, optimizer, config):
        self.model = model
        self.optimizer = optimizer
        self.config = config
        self.epochs = config['epochs']
        self.mnt_best = float('inf')
        self.not_improved = 0

    def train(self):
        for epoch in range(1, self.epochs + 1):
            log = self._train_epoch(epoch)
            print('    epoch : {}  loss : {:.4f}'.format(epoch, log['val_loss']))
            if log['val_loss'] <= self.mnt_best:
                self.mnt_best = log['val_loss']
                self.not_improved = 0
                self._save_checkpoint(epoch)
            else:
                self.not_improved += 1
            if self.not_improved > self.config['early_stop']:
                print("Validation performance didn't improve. Training stops.")
                break

    def _save_checkpoint(self, epoch):
        state = {'epoch': epoch, 'state_dict': self.model.state_dict(), 'optimizer': self.optimizer.state_dict()}
        filename = os.path.join(self.config['save_dir'], 'checkpoint-epoch{}.pth'.format(epoch))
        torch.save(state, filename)
        print("Saving checkpoint: {} ...".format(filename))


class Trainer(BaseTrainer):
    def __init__(self, model, criterion, optimizer, config, data_loader, valid_loader):
        super().__init__(model, optimizer, config)
        self.criterion = criterion
        self.data_loader = data_loader
        self.valid_loader = valid_loader
        self.writer = SummaryWriter(os.path.join(config['save_dir'], 'tb'))

    def _train_epoch(self, epoch):
        self.model.train()
        for batch_idx, (data, target) in enumerate(self.data_loader):
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(data), target)
            loss.backward()
            self.optimizer.step()
            self.writer.add_scalar('loss', loss.item(), epoch * len(self.data_loader) + batch_idx)
        return {'val_loss': self._valid_epoch(epoch)}

    def _valid_epoch(self, epoch):
        self.model.eval()
        total = 0
        with torch.no_grad():
            for data, target in self.valid_loader:
                total += self.criterion(self.model(data), target).item()
        return total / len(self.valid_loader)


def main(config):
    torch.manual_seed(123)
    model = nn.Linear(6, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=config['lr'])
    loader = DataLoader(Toy(512), batch_size=config['batch_size'], shuffle=True)
    valid = DataLoader(Toy(128), batch_size=64)
    os.makedirs(config['save_dir'], exist_ok=True)
    trainer = Trainer(model, nn.CrossEntropyLoss(), optimizer, config, loader, valid)
    trainer.train()


if __name__ == '__main__':
    args = argparse.ArgumentParser(description='PyTorch Template')
    args.add_argument('--lr', type=float, default=0.01)
    args.add_argument('--batch_size', type=int, default=32)
    args.add_argument('--epochs', type=int, default=3)
    args.add_argument('--early_stop', type=int, default=5)
    args.add_argument('--save_dir', default='saved')
    main(vars(args.parse_args()))
