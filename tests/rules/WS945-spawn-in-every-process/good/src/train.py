import os

import torch
import torch.distributed as dist


def worker(local_rank):
    dist.init_process_group("nccl")
    torch.cuda.set_device(local_rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
    print(model(torch.randn(6, 2).cuda()).sum())


if __name__ == "__main__":
    worker(int(os.environ["LOCAL_RANK"]))
