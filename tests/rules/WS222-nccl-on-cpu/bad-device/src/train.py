import os

import torch
import torch.distributed as dist


def main():
    dist.init_process_group()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if torch.cuda.is_available():
        torch.cuda.set_device(0)


if __name__ == "__main__":
    main()
