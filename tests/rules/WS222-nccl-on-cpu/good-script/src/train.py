import os

import torch
import torch.distributed as dist


def main() -> None:
    if not torch.cuda.is_available():
        dist.init_process_group("gloo")
        return
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")


if __name__ == "__main__":
    main()
