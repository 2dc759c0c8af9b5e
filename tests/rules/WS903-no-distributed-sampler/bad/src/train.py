import argparse
import os

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", dest="batch_size", type=int, default=64)
args = parser.parse_args()
torch.distributed.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
rows = TensorDataset(torch.load("digits.pt"))
loader = DataLoader(rows, batch_size=args.batch_size, shuffle=True)
model = DistributedDataParallel(torch.nn.Linear(64, 10).to(device))
for (batch,) in loader:
    model(batch.to(device)).square().mean().backward()
