import os

import torch

torch.distributed.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10).to(device))
model(torch.randn(8, 64, device=device)).square().mean().backward()
