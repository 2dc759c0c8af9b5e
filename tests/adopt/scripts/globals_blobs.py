# Classifying blobs: everything at the top of the file, no functions.
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH_SIZE = 32
LR = 0.1
EPOCHS = 3

torch.manual_seed(42)
device = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')

centers = torch.randn(4, 16) * 2
y = torch.randint(0, 4, (256,))
x = centers[y] + torch.randn(256, 16)
train_ds = TensorDataset(x, y)
train_dl = DataLoader(train_ds, batch_size=BATCH_SIZE, shuffle=True)

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
model.to(device)
loss_fn = nn.CrossEntropyLoss()
opt = torch.optim.SGD(model.parameters(), lr=LR)

for epoch in range(EPOCHS):
    total = 0.0
    for xb, yb in train_dl:
        xb, yb = xb.to(device), yb.to(device)
        pred = model(xb)
        loss = loss_fn(pred, yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(xb)
    print(f'epoch {epoch}: loss {total / len(train_ds):.4f}')

torch.save(model.state_dict(), 'blobs.pth')
print('saved')
