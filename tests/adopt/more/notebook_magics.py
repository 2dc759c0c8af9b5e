#!/usr/bin/env python
# coding: utf-8

# In[1]:


get_ipython().run_line_magic('matplotlib', 'inline')
get_ipython().system('pip install -q torch')
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


# In[2]:


get_ipython().system('mkdir -p out logs')
get_ipython().system('ls -l *.py | head -3')
torch.manual_seed(0)
x = torch.randn(320, 3)
loader = DataLoader(TensorDataset(x, x @ torch.ones(3, 1)), batch_size=32, shuffle=True)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


# In[3]:


for epoch in range(3):
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(a), b)
        loss.backward()
        opt.step()
    torch.save(net.state_dict(), f"out/net{epoch}.pt")
    print(epoch, loss.item())
