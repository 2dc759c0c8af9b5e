"""The run of the tracker holds the settings."""

import torch
import wandb
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(256, 4)
with wandb.init(config={"epochs": 3}) as run:
    config = run.config
    model = torch.nn.Linear(4, 1)
    if torch.cuda.is_available():
        model.to("cuda")
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(config.epochs):
        for inputs, wanted in loader:
            if torch.cuda.is_available():
                inputs, wanted = inputs.to("cuda"), wanted.to("cuda")
            loss = (model(inputs) - wanted).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            wandb.log({"loss": loss.item()})
