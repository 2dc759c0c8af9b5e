import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, train_data, optimizer, gpu_id, save_every):
        self.gpu_id = gpu_id
        self.model = model.to(gpu_id)
        self.train_data = train_data
        self.optimizer = optimizer
        self.save_every = save_every

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(source), targets)
        loss.backward()
        self.optimizer.step()

    def _run_epoch(self, epoch):
        print(f"[{self.gpu_id}] epoch {epoch}, {len(self.train_data)} steps")
        for source, targets in self.train_data:
            self._run_batch(source.to(self.gpu_id), targets.to(self.gpu_id))

    def save(self, epoch):
        path = f"checkpoint_{epoch}.pt"
        torch.save(self.model.state_dict(), path)
        print(f"epoch {epoch} saved at {path}")

    def train(self, max_epochs):
        for epoch in range(max_epochs):
            self._run_epoch(epoch)
            if epoch % self.save_every == 0:
                self.save(epoch)


def load_objects():
    rows = TensorDataset(torch.rand(256, 20), torch.rand(256, 1))
    model = nn.Linear(20, 1)
    return rows, model, torch.optim.SGD(model.parameters(), lr=1e-3)


def main(device, total_epochs, save_every, batch_size):
    rows, model, optimizer = load_objects()
    train_data = DataLoader(rows, batch_size=batch_size, shuffle=True)
    trainer = Trainer(model, train_data, optimizer, device, save_every)
    trainer.train(total_epochs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--total_epochs", type=int, default=3)
    parser.add_argument("--save_every", type=int, default=1)
    parser.add_argument("--batch_size", default=32, type=int)
    args = parser.parse_args()
    main("cpu", args.total_epochs, args.save_every, args.batch_size)
