import argparse

import horovod.torch as hvd
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", dest="learning_rate", type=float)
parser.add_argument("--warmup-steps", dest="warmup_steps", type=int)
args = parser.parse_args()
hvd.init()
model = torch.nn.Linear(64, 10).cuda(hvd.local_rank())
optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
