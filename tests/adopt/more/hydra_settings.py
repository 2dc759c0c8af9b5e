"""Hydra reads the command line: a second parser would not know its words."""

import hydra
import torch
from torch.utils.data import DataLoader, TensorDataset


@hydra.main(config_path="conf", config_name="train")
def main(settings):
    """Train."""
    x = torch.randn(256, 4)
    model = torch.nn.Linear(4, 1).to("cuda")
    loader = DataLoader(TensorDataset(x), batch_size=32, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for (inputs,) in loader:
            loss = model(inputs.to("cuda")).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
