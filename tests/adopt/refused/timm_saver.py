"""A saver of timm gives the best result back, and keeps the newest files."""

import torch
from timm.optim import create_optimizer_v2
from timm.utils import CheckpointSaver
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8, shuffle=True)
model = torch.nn.Linear(4, 1)
optimizer = create_optimizer_v2(model, opt="sgd", lr=0.1)
saver = CheckpointSaver(model=model, optimizer=optimizer, checkpoint_dir="out")
for epoch in range(3):
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    best, _ = saver.save_checkpoint(epoch, metric=loss.item())
