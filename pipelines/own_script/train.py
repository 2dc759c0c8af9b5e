"""Train a digit classifier with torch's DistributedDataParallel, in as many processes as are started."""

import argparse
import contextlib
import math
import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, which it would keep until Python ends
from network import digit_network
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with train.npz")
    parser.add_argument("--output", type=Path, required=True, help="folder for model.pt")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=32, help="rows a process takes at a time")
    parser.add_argument("--accumulation", type=int, default=1, help="batches summed before a step")
    parser.add_argument("--warmup-steps", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def start_group() -> torch.device:
    """Join the process group that the launcher's environment describes; return this process's device."""
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
    if "RANK" not in os.environ:  # started by hand: a group of one
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return device


def load_rows(folder: Path, batch_size: int, seed: int) -> tuple[DataLoader, DistributedSampler]:
    """This process's share of the training rows, in whole batches."""
    with np.load(folder / "train.npz") as arrays:
        rows = TensorDataset(torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"]))
    sampler = DistributedSampler(rows, shuffle=True, seed=seed, drop_last=True)
    return DataLoader(rows, batch_size=batch_size, sampler=sampler, drop_last=True), sampler


def rate(step: int, total: int, warmup: int) -> float:
    """Share of the learning rate at a step: a straight climb, then half a cosine down."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(total - warmup, 1)))


def train(arguments: argparse.Namespace, device: torch.device) -> nn.Module:
    """Train and return the network."""
    torch.manual_seed(arguments.seed)
    loader, sampler = load_rows(arguments.data, arguments.batch_size, arguments.seed)
    steps = len(loader) // arguments.accumulation
    if steps == 0:
        raise SystemExit(
            f"error: {len(sampler)} rows a process are fewer than one step of "
            f"{arguments.batch_size} x {arguments.accumulation}"
        )
    model = DistributedDataParallel(digit_network().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate(step, steps * arguments.epochs, arguments.warmup_steps)
    )
    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)  # otherwise every epoch has the same order
        loss = one_epoch(model, loader, optimizer, schedule, arguments.accumulation)
        if dist.get_rank() == 0:
            print(
                f"epoch {epoch + 1}/{arguments.epochs}: loss {loss:.4f}, rate {schedule.get_last_lr()[0]:.4g}"
            )
    return model.module


def one_epoch(
    model: DistributedDataParallel,
    loader: DataLoader,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    accumulation: int,
) -> float:
    """One pass over this process's rows; the mean loss over all processes."""
    device = next(model.parameters()).device
    batches, steps = iter(loader), len(loader) // accumulation
    total = torch.zeros((), device=device)
    for _ in range(steps):
        for part in range(accumulation):
            images, labels = (tensor.to(device) for tensor in next(batches))
            last = part == accumulation - 1
            # Gradients travel once a step, with the last part.
            with contextlib.nullcontext() if last else model.no_sync():
                loss = nn.functional.cross_entropy(model(images), labels) / accumulation
                loss.backward()
            total += loss.detach()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    dist.all_reduce(total)
    return total.item() / (steps * dist.get_world_size())


def main() -> None:
    """Start the group, train, save from rank 0, and leave the group in every case."""
    arguments = parse()
    device = start_group()
    try:
        model = train(arguments, device)
        if dist.get_rank() == 0:
            arguments.output.mkdir(parents=True, exist_ok=True)
            unfinished = arguments.output / "model.pt.part"
            torch.save(model.cpu().state_dict(), unfinished)
            unfinished.replace(arguments.output / "model.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
