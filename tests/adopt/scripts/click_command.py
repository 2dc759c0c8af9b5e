import click
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@click.command()
@click.option("--epochs", default=2, show_default=True, help="Passes over the rows.")
@click.option("--batch-size", default=32, show_default=True)
@click.option("--lr", default=0.02, show_default=True)
@click.option("--seed", default=0)
def main(epochs, batch_size, lr, seed):
    """Train an autoencoder on generated rows."""
    torch.manual_seed(seed)
    basis = torch.randn(4, 24)
    rows = torch.randn(320, 4) @ basis
    loader = DataLoader(TensorDataset(rows), batch_size=batch_size, shuffle=True)
    model = nn.Sequential(nn.Linear(24, 4), nn.Linear(4, 24))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        for (batch,) in loader:
            loss = nn.functional.mse_loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        click.echo(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
