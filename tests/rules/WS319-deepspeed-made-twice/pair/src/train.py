import torch
from accelerate import Accelerator

from model import build

model = build()
best = torch.optim.AdamW(model.parameters(), 3e-4)
Accelerator().prepare(model, best)
