import os

import torch

torch.distributed.init_process_group("nccl")
rank = int(os.environ["RANK"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
print(rank, device)
