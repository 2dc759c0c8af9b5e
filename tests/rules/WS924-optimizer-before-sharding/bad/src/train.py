import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("nccl")
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
model = torch.nn.Linear(64, 10).cuda()
optimizer = torch.optim.AdamW(model.parameters())
fully_shard(model)
for _ in range(100):
    optimizer.zero_grad()
    model(torch.randn(8, 64).cuda()).square().mean().backward()
    optimizer.step()
