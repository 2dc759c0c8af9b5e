"""Digits with everything in a configuration file."""
import argparse

import torch
import torch.nn.functional as F
import yaml
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="config_file.yaml")
    args = parser.parse_args()
    with open(args.config) as f:
        cfg = yaml.safe_load(f)
    torch.manual_seed(cfg["seed"])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    digits = load_digits()
    x = torch.tensor(digits.data / 16, dtype=torch.float32)
    y = torch.tensor(digits.target)
    rows = TensorDataset(x[:1024], y[:1024])
    loader = DataLoader(rows, batch_size=cfg["data"]["batch_size"], shuffle=True)
    model = nn.Sequential(nn.Linear(64, cfg["model"]["hidden"]), nn.ReLU(), nn.Linear(cfg["model"]["hidden"], 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg["train"]["lr"])
    for epoch in range(cfg["train"]["epochs"]):
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
