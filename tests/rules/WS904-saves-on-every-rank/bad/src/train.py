import argparse

import mlflow
import torch
import torch.distributed as dist


def main(args):
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10))
    for step in range(100):
        loss = model(torch.randn(8, 64)).square().mean()
        loss.backward()
        mlflow.log_metric("loss", loss.item(), step=step)
    torch.save(model.state_dict(), args.output)


parser = argparse.ArgumentParser()
parser.add_argument("--output", default="model.pt")
main(parser.parse_args())
