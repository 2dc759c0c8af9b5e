import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

encoder, decoder = nn.Linear(16, 4), nn.Linear(4, 16)
optimizer = torch.optim.Adam(list(encoder.parameters()) + list(decoder.parameters()), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(64, 16)), batch_size=16, shuffle=True)
for epoch in range(2):
    for (rows,) in loader:
        loss = ((decoder(encoder(rows)) - rows) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
