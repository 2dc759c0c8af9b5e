"""A scheduler that is stepped now and then, and a table that is written and read again."""

import csv

import torch
from torch.utils.data import DataLoader, TensorDataset

rows = torch.randn(512, 4)
with open("rows.csv", "w", newline="") as file:
    csv.writer(file).writerows(rows.tolist())
with open("rows.csv") as file:
    table = torch.tensor([[float(value) for value in row] for row in csv.reader(file)])

model = torch.nn.Linear(4, 1)
if torch.cuda.is_available():
    model = model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
loader = DataLoader(TensorDataset(table), batch_size=32, shuffle=True)
for epoch in range(4):
    for index, (batch,) in enumerate(loader):
        if torch.cuda.is_available():
            batch = batch.cuda()
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (index + 1) % 8 == 0:
            scheduler.step()
            print("rate", scheduler.get_last_lr()[0])
