import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load(n=256):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(n, 4, generator=g)
    return TensorDataset(x, x.sum(1, keepdim=True))


def train(args):
    torch.manual_seed(args.seed)
    model = nn.Linear(4, 1)
    loader = DataLoader(load(), batch_size=args.batch_size, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
    torch.save(model.state_dict(), args.output)


def evaluate(args):
    model = nn.Linear(4, 1)
    model.load_state_dict(torch.load(args.model))
    x, y = load()[:]
    print(nn.functional.mse_loss(model(x), y).item())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    sub = parser.add_subparsers(dest="command", required=True)
    t = sub.add_parser("train")
    t.add_argument("--batch-size", type=int, default=16)
    t.add_argument("--lr", type=float, default=0.05)
    t.add_argument("--epochs", type=int, default=3)
    t.add_argument("--output", default="model.pt")
    t.set_defaults(func=train)
    e = sub.add_parser("eval")
    e.add_argument("--model", default="model.pt")
    e.set_defaults(func=evaluate)
    args = parser.parse_args()
    args.func(args)


if __name__ == "__main__":
    main()
