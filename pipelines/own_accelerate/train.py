"""Train a digit classifier in a loop of your own with Accelerate, in as many processes as are started."""

import argparse
from pathlib import Path

import mlflow
import numpy as np
import pyarrow as pa
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from mlflow.models import infer_signature
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=Path, required=True, help="folder with train/*.arrow")
    parser.add_argument("--output", type=Path, required=True, help="folder for the MLflow model")
    parser.add_argument("--batch_size", type=int, default=32, help="rows a process takes at a time")
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--warmup_steps", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=20)
    return parser.parse_args()


def load_rows(folder: Path, global_batch_size: int) -> TensorDataset:
    """The training rows in whole global batches: images [n, 1, 8, 8] and labels [n].

    Accelerate would fill an incomplete batch with rows of the first one.
    """
    paths = sorted((folder / "train").glob("*.arrow"))
    table = pa.concat_tables([pa.ipc.open_file(path).read_all() for path in paths])
    table = table.slice(0, len(table) // global_batch_size * global_batch_size).combine_chunks()
    pixels = np.stack(table["features"].to_numpy()).reshape(-1, 1, 8, 8)
    return TensorDataset(torch.from_numpy(pixels), torch.from_numpy(table["label"].to_numpy().copy()))


def build_network() -> nn.Sequential:
    """Logits of ten classes from images of shape [n, 1, 8, 8]."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 8 * 8, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def train(arguments: argparse.Namespace, accelerator: Accelerator, rows: TensorDataset) -> nn.Module:
    """Train and return the network; the first process logs the loss of every optimizer step."""
    loader = DataLoader(rows, arguments.batch_size, shuffle=True)
    network = build_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=arguments.learning_rate, momentum=0.9)
    network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    total = arguments.epochs * len(loader) // arguments.gradient_accumulation_steps
    warmup = arguments.warmup_steps
    # One that Accelerate has prepared is stepped once for every process; this one counts optimizer steps.
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer.optimizer, lambda step: min((step + 1) / max(warmup, 1), (total - step) / (total - warmup))
    )
    step, losses = 0, []
    for epoch in range(arguments.epochs):
        loader.set_epoch(epoch)
        for images, labels in loader:
            with accelerator.accumulate(network):
                loss = nn.functional.cross_entropy(network(images), labels)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.detach())
            if accelerator.sync_gradients:
                scheduler.step()
                mean = accelerator.reduce(torch.stack(losses).mean(), "mean").item()
                if accelerator.is_main_process:
                    mlflow.log_metric("loss", mean, step=step)
                step, losses = step + 1, []
    accelerator.print(f"loss {mean:.4f} after {step} steps")
    return accelerator.unwrap_model(network)


def main() -> None:
    """Train, and save the model from the first process."""
    arguments = parse()
    set_seed(0)  # the same weights in every process
    steps = arguments.gradient_accumulation_steps
    # Without `cpu` processes that see no GPU would each train alone.
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        gradient_accumulation_steps=steps,
        # One order for any number of processes; by default it depends on what each has drawn before.
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=0),
    )
    rows = load_rows(arguments.shards, arguments.batch_size * steps * accelerator.num_processes)
    network = train(arguments, accelerator, rows).cpu().eval()
    if accelerator.is_main_process:
        example = rows.tensors[0][:2].numpy()
        signature = infer_signature(example, network(torch.from_numpy(example)).detach().numpy())
        mlflow.pytorch.save_model(network, arguments.output, signature=signature, input_example=example)
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
