"""Accelerate with an evaluation that each process makes of its share, and files of the first process."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator()
torch.manual_seed(0)
x = torch.randn(640, 8)
rows = TensorDataset(x, (x[:, 0] > 0).long())
train_loader = DataLoader(rows, batch_size=32, shuffle=True)
eval_loader = DataLoader(rows, batch_size=64)
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
    model, optimizer, train_loader, eval_loader, scheduler
)
for epoch in range(2):
    for inputs, labels in train_loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    correct = 0
    for inputs, labels in eval_loader:
        with torch.no_grad():
            correct += (model(inputs).argmax(1) == labels).sum().item()
    accelerator.print(epoch, correct / len(rows))
if accelerator.is_main_process:
    accelerator.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
