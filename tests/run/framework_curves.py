"""Trains the scripts of the shipped pipelines at several world sizes and prints their losses as JSON.

python framework_curves.py FOLDER

The libraries are imported once, which takes longer than all trainings together; every rank is a fork. What
a script logs is recorded, and its model is not saved.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))
from ports import find_free_port

PIPELINES = Path(__file__).parents[2] / "pipelines"
WORLD_SIZES = (1, 2, 4)
MICRO_BATCH, MICRO_BATCHES = 8, 4  # of a global batch of 32
ROWS, EPOCHS = 150, 3  # four whole global batches and a rest, three times


def write_rows(folder: Path) -> None:
    """Write the digits and some source text as shards of one file."""
    import pyarrow as pa
    from sklearn.datasets import load_digits

    digits = load_digits(return_X_y=True)
    pixels = pa.array((digits[0][:ROWS] / 16).astype("float32").ravel())
    text = Path(runpy.__file__).read_bytes()[: ROWS * 17]
    tables = {
        "digits": {
            "features": pa.FixedSizeListArray.from_arrays(pixels, 64),
            "label": pa.array(digits[1][:ROWS].astype("int64")),
        },
        "text": {"tokens": pa.FixedSizeListArray.from_arrays(pa.array(list(text), pa.uint8()), 17)},
    }
    for name, columns in tables.items():
        (folder / name / "train").mkdir(parents=True)
        table = pa.table(columns)
        with pa.ipc.new_file(str(folder / name / "train" / "shard-00000.arrow"), table.schema) as file:
            file.write_table(table)


def arguments(framework: str, folder: Path, world: int) -> list[str]:
    """The command line of a script, with the values of a plan for so many processes."""
    accumulation, steps = MICRO_BATCHES // world, ROWS // (MICRO_BATCH * MICRO_BATCHES)
    common: dict[str, Any] = {"shards": folder / "digits", "output": folder / "model", "learning_rate": 0.05}
    if framework == "own_transformers":
        common |= {
            "shards": folder / "text", "per_device_train_batch_size": MICRO_BATCH, "learning_rate": 0.01,
            "gradient_accumulation_steps": accumulation, "num_train_epochs": EPOCHS, "warmup_steps": 2,
            "output_dir": folder / "trainer", "report_to": "none", "save_strategy": "no", "logging_steps": 1,
            "disable_tqdm": True,
        }  # fmt: skip
    elif framework == "own_lightning":
        common |= {
            "devices": world, "batch_size": MICRO_BATCH, "accumulate_grad_batches": accumulation,
            "steps_per_epoch": steps, "max_epochs": EPOCHS, "warmup_steps": 2,
        }  # fmt: skip
    else:
        common |= {
            "batch_size": MICRO_BATCH, "gradient_accumulation_steps": accumulation, "epochs": EPOCHS,
            "warmup_steps": 2,
        }  # fmt: skip
    return [word for name, value in common.items() for word in (f"--{name}", str(value))]


def record_losses(framework: str) -> list[float]:
    """The list that the losses of this process will be in."""
    import mlflow.pytorch

    losses: list[float] = []
    mlflow.pytorch.save_model = lambda *_, **__: None
    if framework == "own_transformers":
        from transformers import Trainer

        log = Trainer.log

        def record(self: Any, logs: dict[str, float], *more: Any) -> None:
            losses.extend([logs["loss"]] if "loss" in logs else [])
            log(self, logs, *more)

        Trainer.log = record
    elif framework == "own_lightning":
        import lightning

        def on_train_epoch_end(self: Any) -> None:
            losses.append(self.trainer.callback_metrics["loss"].item())

        # The metrics of an epoch are complete when the next one starts, and when the training ends.
        lightning.LightningModule.on_train_end = on_train_epoch_end
        lightning.LightningModule.on_train_epoch_start = lambda self: (
            on_train_epoch_end(self) if self.current_epoch else None
        )
    else:
        mlflow.log_metric = lambda _name, value, **_: losses.append(value)
    return losses


def train(framework: str, folder: Path, world: int, rank: int, port: int) -> None:
    """Be one rank."""
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "NODE_RANK": 0, "MASTER_PORT": port}
    # What `worldsize run` sets; a single process has no ranks.
    os.environ.update({name: str(value) for name, value in ranks.items()} if world > 1 else {})
    os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo", ACCELERATE_USE_CPU="true")
    losses = record_losses(framework)
    sys.argv = ["train.py", *arguments(framework, folder, world)]
    runpy.run_path(str(PIPELINES / framework / "train.py"), run_name="__main__")
    if rank == 0:
        (folder / f"{framework}-{world}.json").write_text(json.dumps(losses))


def fork_rank(*work: Any) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            train(*work)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid


def main(folder: Path) -> None:
    import mlflow.pytorch  # noqa: F401
    from transformers import Trainer  # noqa: F401

    write_rows(folder)
    curves: dict[str, dict[int, list[float]]] = {}
    for framework in ("own_transformers", "own_lightning", "own_accelerate"):
        for world in WORLD_SIZES:
            port = find_free_port()
            pids = [fork_rank(framework, folder, world, rank, port) for rank in range(world)]
            ended = [os.waitpid(pid, 0)[1] for pid in pids]
            if any(ended):
                raise SystemExit(f"{framework} with {world} processes: {ended}")
            curves.setdefault(framework, {})[world] = json.loads(
                (folder / f"{framework}-{world}.json").read_text()
            )
    (folder / "curves.json").write_text(json.dumps(curves))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
