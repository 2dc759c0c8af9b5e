import argparse

import ray.train
import torch
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model


def train_model(config):
    model = prepare_model(torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    loader = prepare_data_loader(torch.utils.data.DataLoader(config["rows"], batch_size=32))
    for rows, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(rows), labels)
        loss.backward()
        optimizer.step()
    ray.train.report({"loss": loss.item()})


parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=4)
arguments = parser.parse_args()
scaling = ScalingConfig(num_workers=arguments.num_workers, use_gpu=True)
trainer = TorchTrainer(train_model, train_loop_config={"lr": 0.1}, scaling_config=scaling)
trainer.fit()
