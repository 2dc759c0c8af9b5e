import os

import numpy as np
import torch
from torch import nn

out_dir = "out"
batch_size = 8
accumulation_steps = 2
learning_rate = 6e-3
max_iters = 40

os.makedirs(out_dir, exist_ok=True)
np.random.seed(0)
rows = np.random.rand(4000).astype(np.float32)


def get_batch():
    ix = np.random.randint(0, len(rows) - 16, (batch_size,))
    x = torch.stack([torch.from_numpy(rows[i : i + 16]) for i in ix])
    return x, x.sum(1, keepdim=True)


model = nn.Linear(16, 1)
scaler = torch.amp.GradScaler(enabled=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
iter_num = 0
x, y = get_batch()
while True:
    for _ in range(accumulation_steps):
        loss = nn.functional.mse_loss(model(x), y) / accumulation_steps
        x, y = get_batch()
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if iter_num % 10 == 0:
        print(f"iter {iter_num}: {loss.item():.4f}")
        torch.save(model.state_dict(), os.path.join(out_dir, f"ckpt_{iter_num}.pt"))
    iter_num += 1
    if iter_num > max_iters:
        break
