import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset


def main(gpu):
    model = torch.nn.Linear(4, 1).to(f"cuda:{gpu}")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8, shuffle=True)
    for epoch in range(3):
        for (batch,) in loader:
            loss = model(batch.to(f"cuda:{gpu}")).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=0)
main(**vars(parser.parse_args()))
