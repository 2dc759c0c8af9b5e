import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl")
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
model = DistributedDataParallel(torch.nn.Linear(64, 10).cuda(), device_ids=[gpu])
optimizer = torch.optim.AdamW(model.parameters())
rows = TensorDataset(torch.randn(1000, 64))
sampler = DistributedSampler(rows)
loader = DataLoader(rows, batch_size=32, sampler=sampler)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for (batch,) in loader:
        optimizer.zero_grad()
        model(batch.cuda()).square().mean().backward()
        optimizer.step()
