"""The specs that projects start with, as plain values: at most twenty lines each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from worldsize.adopting.project.spec import most_instances
from worldsize.azureml.model import Field
from worldsize.azureml.yaml_dump import Flow
from worldsize.facts import vm_sizes

GPU_CLUSTER, CPU_CLUSTER = "gpu-cluster", "cpu-cluster"
CPU_SIZE = "Standard_D16s_v5"
_SPLIT = "a fifth is held out for validation"
_ADAM = {"optimizer": "adamw"}


class Start(Struct, frozen=True):
    """What a project trains."""

    name: str
    shard: dict[str, Any]  # the inputs of `shard_data`, with comments where a choice was made
    model: str
    train: dict[str, Any] = {}
    epochs: int = 20
    rows: int | None = None  # of the data, where they are known
    said: tuple[str, ...] = ()  # about the data, that is not in the spec


def choose_batch(rows: int | None, world_size: int) -> int:
    """The batch size of one process: usually 32, less where an epoch would have fewer than four steps."""
    batch = 32
    while rows is not None and batch > 1 and batch * world_size * 4 > rows * 4 // 5:
        batch //= 2
    return batch


def describe_start(start: Start, instance_type: str, instance_count: int) -> dict[str, Any]:
    """The spec of a project: shard, train, evaluate, register."""
    most = most_instances(instance_count)
    gpu = Flow(target=f"azureml:{GPU_CLUSTER}", instance_type=instance_type, max_instances=most)
    cpu = Flow(target=f"azureml:{CPU_CLUSTER}", instance_type=CPU_SIZE, max_instances=1)
    count = {"instance_count": instance_count} if instance_count > 1 else {}
    train = Flow(model=start.model, epochs=start.epochs, **_ADAM, **start.train)
    size = vm_sizes.lookup(instance_type)
    world_size = max(1, size.devices if size is not None else 1) * instance_count
    reference = Flow(batch_size=choose_batch(start.rows, world_size), learning_rate=0.001)
    return {
        "name": start.name,
        "compute": {"gpu": gpu, "cpu": cpu},
        "steps": {
            "shard": {
                "uses": "shard_data",
                "compute": "cpu",
                "with": start.shard,
            },
            "train": {
                "uses": "train_ddp",
                "compute": "gpu",
                **count,
                "with": train,
                "scale": Field(Flow(reference=reference), comment="what works on one GPU"),
            },
            "evaluate": Flow(uses="evaluate", compute="cpu"),
            "register": Flow(uses="register", compute="cpu", **{"with": Flow(model_name=start.name)}),
        },
    }


def start_example(name: str) -> Start:
    """A small data set of ours, to be replaced by the user's."""
    why = "1,797 handwritten digits; for a table of your own: `worldsize init --from data.csv`"
    return Start(name, {"source": Field("builtin:digits", comment=why)}, "cnn")


def start_pictures(name: str, path: str, rows: int) -> Start:
    """A folder of pictures, a folder for each class."""
    data = Field(Flow(type="uri_folder", path=path), comment=f"a folder for each class; {_SPLIT}")
    return Start(name, {"data": data}, "cnn", {"augmentation": "light"}, epochs=10, rows=rows)


def start_table(
    name: str, path: str, label: str, why: str, settings: Mapping[str, Field[str]], *, rows: int
) -> Start:
    """A table with a label; ``settings`` are further inputs of ``shard_data``."""
    shard: dict[str, Any] = {
        "data": Field(Flow(type="uri_file", path=path), comment=_SPLIT),
        "label": Field(label, comment=why),
    }
    shard |= settings
    if "text" in settings:
        return Start(name, shard, "gpt", rows=rows)
    return Start(name, shard, "mlp", {"early_stopping_patience": 5}, rows=rows)
