import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x = torch.rand(512, 1)
loader = DataLoader(TensorDataset(x, torch.sin(x)), batch_size=128, shuffle=True)
model = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5)

for epoch in range(5):
    for xb, yb in loader:

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(xb), yb)
            loss.backward()
            return loss

        optimizer.step(closure)
