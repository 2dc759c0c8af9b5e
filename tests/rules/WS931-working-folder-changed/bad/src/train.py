import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--output", default="out")
args = parser.parse_args()
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
os.chdir(args.output)
if rank == 0:
    torch.save({"rank": rank}, "model.pt")
