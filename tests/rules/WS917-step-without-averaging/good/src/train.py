import contextlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
model = DistributedDataParallel(torch.nn.Linear(64, 10).cuda(), device_ids=[gpu])
optimizer = torch.optim.AdamW(model.parameters())
for index in range(400):
    last = (index + 1) % 4 == 0
    with contextlib.nullcontext() if last else model.no_sync():
        (model(torch.randn(8, 64).cuda()).square().mean() / 4).backward()
    if (index + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
