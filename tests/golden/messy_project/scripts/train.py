"""Train an autoencoder of digits on all GPUs."""

import argparse
from pathlib import Path

import mlflow
import torch
import torch.distributed as dist
from data import loader_of
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--digits", type=Path)
parser.add_argument("--epochs", type=int)
parser.add_argument("--learning-rate", dest="learning_rate", type=float)
parser.add_argument("--shuffle", type=bool)
parser.add_argument("--output", type=Path)


def main(args):
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 784)).to(device)
    model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
    loader = loader_of(args.digits, batch_size=64, shuffle=args.shuffle)
    for epoch in range(args.epochs):
        for (digits,) in loader:
            loss = (model(digits.to(device)) - digits.to(device).flatten(1)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            mlflow.log_metric("loss", loss.item(), step=epoch)
    torch.save(model.module.state_dict(), args.output / "model.pt")


main(parser.parse_args())
