import argparse

import mlflow
import torch
import torch.distributed as dist


def log(rank, values):
    if rank != 0:
        return
    mlflow.log_metrics(values)


def keep(model, path):
    torch.save(model, path)


def main(args):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    first = rank == 0
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10))
    loss = model(torch.randn(8, 64)).square().mean()
    loss.backward()
    log(rank, {"loss": loss.item()})
    if first:
        keep(model, args.output)
    torch.save(torch.get_rng_state(), f"{args.output}.{rank}")
    if rank == 0:
        torch.save(model.state_dict(), args.output)


parser = argparse.ArgumentParser()
parser.add_argument("--output", default="model.pt")
main(parser.parse_args())
