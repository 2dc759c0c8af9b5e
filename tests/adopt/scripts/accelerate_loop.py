import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm


def training_function(config, args):
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    lr = config["lr"]
    num_epochs = int(config["num_epochs"])
    batch_size = int(config["batch_size"])
    set_seed(int(config["seed"]))

    x = torch.randn(256, 12)
    y = x[:, :4].sum(1, keepdim=True)
    train_dataloader = DataLoader(TensorDataset(x, y), shuffle=True, batch_size=batch_size)
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(params=model.parameters(), lr=lr, momentum=0.9)
    model, optimizer, train_dataloader = accelerator.prepare(model, optimizer, train_dataloader)

    for epoch in range(num_epochs):
        model.train()
        for inputs, targets in tqdm(train_dataloader):
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        print(f"epoch {epoch}: {loss.item():.4f}")
    torch.save(model.state_dict(), "accelerated.pt")


def main():
    parser = argparse.ArgumentParser(description="Simple example of a training script.")
    parser.add_argument("--mixed_precision", type=str, default="no", choices=["no", "fp16", "bf16"])
    args = parser.parse_args()
    config = {"lr": 0.02, "num_epochs": 2, "seed": 42, "batch_size": 32}
    training_function(config, args)


if __name__ == "__main__":
    main()
