import deepspeed
import torch.distributed as dist


def main() -> None:
    dist.init_process_group(backend="nccl")
    deepspeed.init_distributed("nccl")


if __name__ == "__main__":
    main()
