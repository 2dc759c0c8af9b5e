"""The optimizer is made on demand, in a loop over a bar that takes the name of the rows."""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--adam", action="store_true")
args = parser.parse_args()

x = torch.randn(256, 3)
rows = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=args.batch_size, shuffle=True)
model = torch.nn.Linear(3, 1)
if torch.cuda.is_available():
    model = model.cuda()
optimizer = None
if args.adam:
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)


def train(rows):
    """One epoch."""
    with tqdm(rows) as bar:
        for inputs, wanted in bar:
            if torch.cuda.is_available():
                inputs, wanted = inputs.cuda(), wanted.cuda()
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            model.zero_grad()
            loss.backward()
            if optimizer is not None:
                optimizer.step()
            else:
                for each in model.parameters():
                    each.data.add_(each.grad, alpha=-args.lr)


for epoch in range(args.epochs):
    train(rows)
