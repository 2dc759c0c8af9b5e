import torch
from torch.utils.data import DataLoader, TensorDataset

weights = torch.zeros(4, requires_grad=True)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64)), batch_size=16, shuffle=True)
for x, y in loader:
    loss = ((x @ weights - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        weights -= 0.1 * weights.grad
        weights.grad.zero_()
