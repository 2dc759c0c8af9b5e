import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
model = DistributedDataParallel(torch.nn.Linear(64, 10).cuda(), device_ids=[gpu])
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(100):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 64).cuda()).square().mean()
    loss.backward()
    optimizer.step()
    if loss.item() < 0.01:
        break
