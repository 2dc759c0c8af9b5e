import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def train(rows, model, epochs):
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    model = DDP(model.to(device))
    sampler = DistributedSampler(rows)
    loader = DataLoader(rows, batch_size=64, sampler=sampler)
    for epoch in range(epochs):
        for rows, labels in loader:
            model(rows.to(device), labels).backward()
