"""An app of typer: its parameters stand on lines of their own, and a function gets the log under another name."""

from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

cli = typer.Typer()


def train_epoch(model, loader, optimizer, scheduler, log, epoch):
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        log.add_scalar("loss", loss.item(), epoch * len(loader) + step)


@cli.command()
def train(
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 4,
    batch_size: int = 64,
    peak: Annotated[float, typer.Option("--lr")] = 0.002,
    out: Path = Path("model.pt"),
):
    torch.manual_seed(0)
    x = torch.randn(512, 4)
    rows = TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(rows, batch_size=batch_size, shuffle=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak)
    scheduler = OneCycleLR(optimizer, max_lr=peak * 10, epochs=epochs, steps_per_epoch=len(loader))
    writer = SummaryWriter("runs")
    for epoch in range(epochs):
        train_epoch(model, loader, optimizer, scheduler, writer, epoch)
    writer.close()
    torch.save(model.state_dict(), out)


@cli.command()
def show(path: Path):
    typer.echo(torch.load(path))


if __name__ == "__main__":
    cli()
