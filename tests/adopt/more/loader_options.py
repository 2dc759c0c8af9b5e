import argparse

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def train(args, model, device, loader, optimizer, epoch):
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if step % args.log_interval == 0:
            print(epoch, step, loss.item())


def main(args):
    use_cuda = torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    torch.manual_seed(args.seed)
    train_kwargs = {"batch_size": args.bs}
    if use_cuda:
        train_kwargs.update({"num_workers": 1, "pin_memory": True, "shuffle": True})
    rows = TensorDataset(torch.randn(640, 64), torch.randint(0, 10, (640,)))
    loader = DataLoader(rows, **train_kwargs)
    model = nn.Linear(64, 10).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=30)
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, loader, optimizer, epoch)
        scheduler.step()
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bs", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-interval", type=int, default=10)
    main(parser.parse_args())
