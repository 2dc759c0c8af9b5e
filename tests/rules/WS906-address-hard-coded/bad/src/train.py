import os

import torch

os.environ["MASTER_ADDR"] = "localhost"
os.environ["MASTER_PORT"] = "29500"
torch.distributed.init_process_group("nccl", world_size=4, rank=int(os.environ["RANK"]))
local_rank = int(os.environ["LOCAL_RANK"])
model = torch.nn.Linear(64, 10).cuda(local_rank)
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])
model(torch.randn(8, 64, device=local_rank)).sum().backward()
