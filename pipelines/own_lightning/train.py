"""Train a digit classifier with Lightning, in as many processes as are started."""

import argparse
import os
from pathlib import Path

import lightning
import mlflow
import numpy as np
import pyarrow as pa
import torch
from lightning.pytorch.loggers import MLFlowLogger
from lightning.pytorch.plugins.environments import LightningEnvironment
from mlflow.models import infer_signature
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class DigitClassifier(lightning.LightningModule):
    """Logits of ten classes from images of shape [n, 1, 8, 8]."""

    def __init__(self, learning_rate: float, warmup_steps: int, total_steps: int) -> None:
        super().__init__()
        self.learning_rate, self.warmup_steps, self.total_steps = learning_rate, warmup_steps, total_steps
        self.network = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.ReLU(), nn.Flatten(),
            nn.Linear(32 * 8 * 8, 64), nn.ReLU(), nn.Linear(64, 10),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        """Logits, [n, 10]."""
        return self.network(images)

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """The loss of this process's share of a batch."""
        images, labels = batch
        loss = nn.functional.cross_entropy(self(images), labels)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True, prog_bar=True)
        return loss

    def configure_optimizers(self) -> dict:
        """SGD with momentum; a straight climb, then a straight descent."""
        optimizer = torch.optim.SGD(self.parameters(), lr=self.learning_rate, momentum=0.9)

        def share(step: int) -> float:
            climb = (step + 1) / max(self.warmup_steps, 1)
            return min(climb, (self.total_steps - step) / (self.total_steps - self.warmup_steps))

        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=Path, required=True, help="folder with train/*.arrow")
    parser.add_argument("--output", type=Path, required=True, help="folder for the MLflow model")
    parser.add_argument("--devices", type=int, default=1, help="processes on each instance")
    parser.add_argument("--num_nodes", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=32, help="rows a process takes at a time")
    parser.add_argument("--accumulate_grad_batches", type=int, default=1)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--warmup_steps", type=int, default=0)
    parser.add_argument("--steps_per_epoch", type=int, required=True)
    parser.add_argument("--max_epochs", type=int, default=20)
    return parser.parse_args()


def load_rows(folder: Path) -> TensorDataset:
    """The training rows: images [n, 1, 8, 8] and labels [n]."""
    paths = sorted((folder / "train").glob("*.arrow"))
    table = pa.concat_tables([pa.ipc.open_file(path).read_all() for path in paths])
    pixels = table["features"].combine_chunks().flatten().to_numpy().reshape(-1, 1, 8, 8)
    return TensorDataset(torch.from_numpy(pixels.copy()), torch.from_numpy(table["label"].to_numpy().copy()))


def main() -> None:
    """Train, and save the model from the first process."""
    arguments = parse()
    lightning.seed_everything(0)  # the same weights in every process
    model = DigitClassifier(
        arguments.learning_rate, arguments.warmup_steps, arguments.max_epochs * arguments.steps_per_epoch
    )
    uri, run = os.environ.get("MLFLOW_TRACKING_URI"), os.environ.get("MLFLOW_RUN_ID")
    trainer = lightning.Trainer(
        devices=arguments.devices,
        num_nodes=arguments.num_nodes,
        strategy="ddp" if arguments.devices * arguments.num_nodes > 1 else "auto",
        plugins=[LightningEnvironment()],  # reads the ranks that Azure ML sets
        accumulate_grad_batches=arguments.accumulate_grad_batches,
        max_epochs=arguments.max_epochs,
        # Whole global batches only: an incomplete one would be an optimizer step of its own.
        limit_train_batches=arguments.steps_per_epoch * arguments.accumulate_grad_batches,
        use_distributed_sampler=False,  # there is none in one process, whose order would be another
        logger=MLFlowLogger(tracking_uri=uri, run_id=run) if uri else False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    rows = load_rows(arguments.shards)
    sampler = DistributedSampler(rows, trainer.world_size, trainer.global_rank, drop_last=True)
    trainer.fit(model, DataLoader(rows, arguments.batch_size, sampler=sampler, drop_last=True))
    if trainer.is_global_zero:
        print(f"loss {trainer.callback_metrics['loss']:.4f} after {trainer.global_step} steps")
        example = rows.tensors[0][:2].numpy().astype(np.float32)
        network = model.network.cpu().eval()
        signature = infer_signature(example, network(torch.from_numpy(example)).detach().numpy())
        mlflow.pytorch.save_model(network, arguments.output, signature=signature, input_example=example)
    trainer.strategy.barrier()


if __name__ == "__main__":
    main()
