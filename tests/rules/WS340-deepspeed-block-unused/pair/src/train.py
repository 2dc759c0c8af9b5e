import deepspeed
import torch

from model import build

model = build()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer)
