import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

generator, discriminator = nn.Linear(8, 16), nn.Linear(16, 1)
g_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4)
d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
loader = DataLoader(TensorDataset(torch.randn(64, 16)), batch_size=16, shuffle=True)
for epoch in range(2):
    for (real,) in loader:
        d_loss = discriminator(generator(torch.randn(16, 8)).detach()).mean() - discriminator(real).mean()
        d_optimizer.zero_grad()
        d_loss.backward()
        d_optimizer.step()
        g_loss = -discriminator(generator(torch.randn(16, 8))).mean()
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
