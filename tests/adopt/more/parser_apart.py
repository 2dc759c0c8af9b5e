"""Options of the file that `main` parses, a numbered GPU, accumulation in a function, and a late import."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--accumulate", type=int, default=2)
parser.add_argument("--gpu", type=int, default=0)


def save_checkpoint(state, filename="checkpoint.pth.tar"):
    torch.save(state, filename)


def train(loader, model, optimizer, args):
    total = 0.0
    for step, (x,) in enumerate(loader):
        if torch.cuda.is_available():
            x = x.cuda(args.gpu, non_blocking=True)
        loss = ((model(x) - x) ** 2).mean() / args.accumulate
        loss.backward()
        if (step + 1) % args.accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
        total += loss.item()
    return total / len(loader)


def main():
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 3), nn.Linear(3, 8))
    if torch.cuda.is_available():
        model = model.cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), args.lr)
    loader = DataLoader(TensorDataset(torch.randn(512, 8)), batch_size=args.batch_size, shuffle=True)
    for epoch in range(args.epochs):
        loss = train(loader, model, optimizer, args)
        print(f"epoch {epoch}: {loss:.4f}")
        save_checkpoint({"epoch": epoch, "model": model.state_dict()})


if __name__ == "__main__":
    main()
    import os

    print(os.path.getsize("checkpoint.pth.tar"), "bytes")
