import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(64, 8)
        self.decoder = nn.Linear(4, 64)

    def forward(self, x):
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.decoder(z)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = nn.functional.binary_cross_entropy(recon_x, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


torch.manual_seed(1)
rows = TensorDataset(torch.rand(256, 64))
loader = DataLoader(rows, batch_size=32, shuffle=True)
model = Autoencoder()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for epoch in range(2):
    train_loss = 0
    for (x,) in loader:
        optimizer.zero_grad()
        recon, mu, logvar = model(x)
        loss = loss_function(recon, x, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print(f"epoch {epoch}: {train_loss / len(loader.dataset):.4f}")
