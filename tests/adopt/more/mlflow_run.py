"""A run of MLflow around the training, and a look at the first batch and at a table in a notebook."""

# In[1]:

import mlflow
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rows = TensorDataset(torch.randn(256, 4), torch.randn(256, 1))
loader = DataLoader(rows, batch_size=32, shuffle=True)
display(next(iter(loader)))

# In[2]:

mlflow.set_tracking_uri("http://127.0.0.1:5000")
mlflow.set_experiment("lines")
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with mlflow.start_run(run_name="line"):
    mlflow.log_param("rows", len(rows))
    for epoch in range(3):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        mlflow.log_metric("loss", total / len(loader), step=epoch)
    mlflow.pytorch.log_model(model, name="line")
