import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--output", default="out")
args = parser.parse_args()
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
path = os.path.join(args.output, "model.pt")
if rank == 0:
    torch.save({"rank": rank}, path)
