"""One function runs an epoch of training or of evaluation."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def run_epoch(model, loader, criterion, optimizer=None):
    training = optimizer is not None
    model.train(training)
    total, right = 0.0, 0
    for x, y in loader:
        x, y = x.to(DEVICE), y.to(DEVICE)
        with torch.set_grad_enabled(training):
            output = model(x)
            loss = criterion(output, y)
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item() * len(y)
        right += (output.argmax(1) == y).sum().item()
    return total / len(loader.dataset), right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(0)
    y = torch.randint(0, 3, (320,))
    x = torch.randn(320, 8) + y.unsqueeze(1)
    train_loader = DataLoader(TensorDataset(x[:256], y[:256]), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(TensorDataset(x[256:], y[256:]), batch_size=args.batch_size)
    model = nn.Linear(8, 3).to(DEVICE)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        loss, accuracy = run_epoch(model, train_loader, criterion, optimizer)
        test_loss, test_accuracy = run_epoch(model, test_loader, criterion)
        print(f"{epoch}: {loss:.3f} {accuracy:.3f} {test_loss:.3f} {test_accuracy:.3f}")


if __name__ == "__main__":
    main()
