import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl", rank=int(os.environ["NODE_RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
print(model(torch.randn(6, 2).cuda()).sum())
