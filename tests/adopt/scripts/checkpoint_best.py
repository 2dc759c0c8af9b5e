import os, json
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
import argparse


class Series(Dataset):
    '''Windows of a series and the value that follows.'''
    def __init__(self, values, window=8):
        self.values = torch.as_tensor(values, dtype=torch.float32)
        self.window = window
    def __len__(self):
        return len(self.values) - self.window
    def __getitem__(self, i):
        return self.values[i:i + self.window, None], self.values[i + self.window]


class Forecaster(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)
    def forward(self, x):
        h, _ = self.lstm(x)
        return self.out(h[:, -1]).squeeze(1)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument('--train_batch_size', type=int, default=24)
    parser.add_argument('--max_epochs', type=int, default=2)
    parser.add_argument('--base_lr', type=float, default=0.01)
    parser.add_argument('--save_dir', type=str, default='checkpoints')
    parser.add_argument('--hidden', type=int, default=16)
    return parser.parse_args()


args = parse_args()
torch.manual_seed(2)
np.random.seed(2)
device = torch.device('cuda') if torch.cuda.is_available() else torch.device('cpu')
os.makedirs(args.save_dir, exist_ok=True)

series = np.sin(np.arange(248) / 5.0)
train_set, val_set = Series(series[:200]), Series(series[200:])
loaders = {'train': DataLoader(train_set, batch_size=args.train_batch_size, shuffle=True),
           'val': DataLoader(val_set, batch_size=args.train_batch_size)}

model = Forecaster(args.hidden).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=args.base_lr)
best = {'loss': 1e9}
log = []
for epoch in range(args.max_epochs):
    model.train()
    train_loss = 0
    for x, y in loaders['train']:
        optimizer.zero_grad()
        loss = ((model(x.to(device)) - y.to(device)) ** 2).mean()
        loss.backward()
        optimizer.step()
        train_loss += loss.item()
    train_loss /= len(loaders['train'])
    model.eval()
    with torch.no_grad():
        val_loss = np.mean([((model(x.to(device)) - y.to(device)) ** 2).mean().item() for x, y in loaders['val']])
    log.append({'epoch': epoch, 'train': train_loss, 'val': float(val_loss)})
    print('epoch', epoch, 'train', round(train_loss, 5), 'val', round(float(val_loss), 5))
    if val_loss < best['loss']:
        best = {'loss': float(val_loss), 'epoch': epoch}
        torch.save({'state': model.state_dict(), 'epoch': epoch}, os.path.join(args.save_dir, 'best.pth'))
with open(os.path.join(args.save_dir, 'log.json'), 'w') as f:
    json.dump(log, f)
