import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class TwoGpus(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8).to("cuda:0")
        self.second = nn.Linear(8, 2).to("cuda:1")

    def forward(self, x):
        return self.second(self.first(x.to("cuda:0")).to("cuda:1"))


model = TwoGpus()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.randn(64, 8), torch.zeros(64).long()), batch_size=16):
    loss = nn.functional.cross_entropy(model(x), y.to("cuda:1"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
