import horovod.torch as hvd
import torch

hvd.init()
model = torch.nn.Linear(32, 10)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
print(hvd.rank())
