import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
model = torch.nn.Linear(64, 10)
model = model.cuda(gpu)
model = DistributedDataParallel(model, device_ids=[gpu])
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(100):
    optimizer.zero_grad()
    model(torch.randn(8, 64).cuda()).square().mean().backward()
    optimizer.step()
