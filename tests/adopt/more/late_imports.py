#!/usr/bin/env python
# coding: utf-8

# # A notebook
# Its cells import what they need where they need it.

# In[1]:


from sklearn.datasets import load_digits

digits = load_digits()
print(digits.images.shape)


# In[2]:


import torch
from torch.utils.data import DataLoader, TensorDataset

batch_size = 32
rows = TensorDataset(torch.tensor(digits.data / 16).float(), torch.tensor(digits.target))
loader = DataLoader(rows, batch_size=batch_size, shuffle=True)


# In[3]:


import torch.nn as nn
from torch import optim

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(64, 10).to(device)
optimizer = optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
