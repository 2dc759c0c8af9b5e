"""PyTorch's own strategies, which ``train_ddp`` offers: DDP, FSDP, tensor and pipeline parallelism."""
