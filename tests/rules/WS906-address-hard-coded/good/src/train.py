import os

import torch

if "MASTER_ADDR" not in os.environ:  # on a laptop
    os.environ["MASTER_ADDR"] = "localhost"
torch.distributed.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
model = torch.nn.Linear(64, 10).cuda(local_rank)
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])
model(torch.randn(8, 64, device=local_rank)).sum().backward()
