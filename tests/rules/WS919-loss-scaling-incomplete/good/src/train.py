import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
model = DistributedDataParallel(torch.nn.Linear(64, 10).cuda(), device_ids=[gpu])
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(100):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.randn(8, 64).cuda()).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
