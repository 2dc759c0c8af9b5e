"""An average of the weights, statements that share a line, and a path of several parts."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0); device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.randn(512, 20)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=64, shuffle=True)
model = nn.Linear(20, 1).to(device)
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for epoch in range(4):
    model.train(); total = 0
    for a, b in loader:
        a, b = a.to(device), b.to(device)
        loss = nn.functional.mse_loss(model(a), b)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        with torch.no_grad():
            for p, q in zip(model.parameters(), average.parameters()):
                q.mul_(0.99).add_(p, alpha=0.01)
        total += loss.item()
    print(epoch, total / len(loader))
    torch.save(average.state_dict(), "average_" + str(epoch) + ".pt")
