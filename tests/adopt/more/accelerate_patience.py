"""Accelerate with early stopping by a sum over batches, a logger of its own, and a schedule not prepared."""

import argparse

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logger = get_logger(__name__)


def train_epoch(accelerator, model, loader, optimizer):
    model.train()
    total, seen = 0.0, 0
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        total += loss.item() * len(inputs)
        seen += len(inputs)
    return total / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--output", default="out")
    args = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator()
    rows = TensorDataset(torch.randn(320, 8), torch.randint(0, 2, (320,)))
    loader = DataLoader(rows, batch_size=args.batch_size, shuffle=True)
    held = DataLoader(rows, batch_size=64)
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    model, optimizer, loader, held = accelerator.prepare(model, optimizer, loader, held)
    best, waited = float("inf"), 0
    for epoch in range(args.epochs):
        loss = train_epoch(accelerator, model, loader, optimizer)
        scheduler.step()
        val_loss = 0.0
        with torch.no_grad():
            for inputs, labels in held:
                val_loss += nn.functional.cross_entropy(model(inputs), labels).item()
        val_loss /= len(held)
        logger.info("epoch %d: %.4f and %.4f", epoch, loss, val_loss, main_process_only=True)
        if val_loss < best:
            best, waited = val_loss, 0
            accelerator.save_state(f"{args.output}/best")
        else:
            waited += 1
            if waited > 1:
                break


if __name__ == "__main__":
    main()
