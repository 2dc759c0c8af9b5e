#!/usr/bin/env python
# coding: utf-8

# # Regression on generated data
#
# Exported from a notebook.

# In[1]:


import numpy as np
import torch
import torch.nn as nn


# In[2]:


np.random.seed(7)
torch.manual_seed(7)

X = np.random.rand(320, 8).astype(np.float32)
w = np.arange(8, dtype=np.float32)
Y = (X @ w)[:, None] + 0.1 * np.random.randn(320, 1).astype(np.float32)


# In[3]:


from torch.utils.data import TensorDataset, DataLoader

dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
loader = DataLoader(dataset, batch_size=32, shuffle=True)


# In[4]:


class LinearRegression(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 1)

    def forward(self, x):
        return self.lin(x)


net = LinearRegression()
if torch.cuda.is_available():
    net = net.cuda()
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)


# In[5]:


history = []
for epoch in range(3):
    for i, (inputs, targets) in enumerate(loader):
        if torch.cuda.is_available():
            inputs, targets = inputs.cuda(), targets.cuda()
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
        if i % 5 == 0:
            print(f"[{epoch}, {i}] loss: {loss.item():.3f}")


# In[6]:


net.eval()
with torch.no_grad():
    print(net(torch.ones(1, 8)))
