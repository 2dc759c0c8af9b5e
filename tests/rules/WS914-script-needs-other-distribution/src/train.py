import os

import torch

torch.distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 10).cuda())
model(torch.randn(8, 32).cuda()).square().mean().backward()
