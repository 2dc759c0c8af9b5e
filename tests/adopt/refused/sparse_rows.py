import torch
from torch.utils.data import DataLoader, TensorDataset

words = torch.nn.Embedding(1000, 16, sparse=True)
optimizer = torch.optim.SparseAdam(words.parameters(), lr=0.01)
for epoch in range(3):
    for (batch,) in DataLoader(TensorDataset(torch.randint(0, 1000, (256, 4))), batch_size=16, shuffle=True):
        loss = words(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
