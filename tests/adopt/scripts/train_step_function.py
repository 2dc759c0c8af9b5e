"""A variational autoencoder: loss in a helper, one function per step, constants in a class."""
import math

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class CFG:
    seed = 8
    batch_size = 50
    lr = 2e-3
    n_epochs = 2
    latent = 2


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(12, 2 * CFG.latent)
        self.decode = nn.Linear(CFG.latent, 12)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.encode(x).chunk(2, dim=1)
        kl = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return self.decode(mean), kl


def compute_loss(model: nn.Module, x: Tensor) -> Tensor:
    restored, kl = model(x)
    return nn.functional.mse_loss(restored, x) + 0.01 * kl


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> float:
    optimizer.zero_grad()
    loss = compute_loss(model, x)
    loss.backward()
    optimizer.step()
    return loss.item()


def run() -> None:
    torch.manual_seed(CFG.seed)
    rows = torch.sin(torch.linspace(0, 3 * math.pi, 500 * 12)).reshape(500, 12)
    loader = DataLoader(TensorDataset(rows), CFG.batch_size, True)
    model = VAE()
    optimizer = torch.optim.AdamW(model.parameters(), lr=CFG.lr)
    for _ in range(CFG.n_epochs):
        for (x,) in loader:
            loss = train_step(model, optimizer, x)
        print(f"loss {loss:.5f}")
    torch.save(model, "vae.pt")


if __name__ == "__main__":
    run()
