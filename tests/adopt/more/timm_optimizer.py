"""An optimizer that timm makes of the model, and its table of results."""

import torch
from timm.optim import create_optimizer_v2
from timm.utils import update_summary
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8, shuffle=True)
model = torch.nn.Linear(4, 1).to(device)
optimizer = create_optimizer_v2(model, opt="sgd", lr=0.1, weight_decay=1e-4)
for epoch in range(3):
    for (x,) in loader:
        loss = model(x.to(device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    update_summary(epoch, {"loss": loss.item()}, {}, filename="summary.csv", write_header=epoch == 0)
