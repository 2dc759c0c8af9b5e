import torch
from beside.rows import get_loaders
from torch import nn

EPOCHS = 3
BATCH_SIZE = 16

torch.manual_seed(0)
train_loader, val_loader = get_loaders(BATCH_SIZE)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(EPOCHS):
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(epoch, sum(nn.functional.mse_loss(model(x), y).item() for x, y in val_loader) / len(val_loader))
