import torch
from accelerate import Accelerator

from model import build

model = build()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.0003)
model, optimizer = Accelerator().prepare(model, optimizer)
