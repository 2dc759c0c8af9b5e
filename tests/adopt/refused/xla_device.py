import torch
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(4, 1).to(xm.xla_device())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=16):
    loss = model(x.to(xm.xla_device())).mean()
    loss.backward()
    xm.optimizer_step(optimizer)
