"""A fixed number of steps, with an iterator that is made again at its end."""
import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--max_iters", type=int, default=60)
    return parser.parse_args()


def main():
    args = get_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    digits = load_digits()
    x = torch.tensor(digits.data / 16, dtype=torch.float32)
    y = torch.tensor(digits.target)
    loader = DataLoader(TensorDataset(x[:1024], y[:1024]), batch_size=args.batch_size, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
    optimizer = optim.SGD(model.parameters(), lr=args.lr)
    data_iter = iter(loader)
    for step in range(args.max_iters):
        try:
            data, target = next(data_iter)
        except StopIteration:
            data_iter = iter(loader)
            data, target = next(data_iter)
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: {loss.item():.4f}")
    torch.save(model.state_dict(), "digits.pt")


if __name__ == "__main__":
    main()
