"""One of the ranks of ``test_memory_measured.py``: counts the bytes that each strategy holds.

Called with the cases as JSON and the folder for the answers; the launcher's environment says which rank.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wsshards.errors import end_process
from wstrain.health import memory
from wstrain.launch.environment import read_pytorch_environment
from wstrain.launch.mesh import Mesh
from wstrain.settings import OptimizerOptions
from wstrain_torch import data as tasks
from wstrain_torch import models, strategies
from wstrain_torch.launch.process_group import Group
from wstrain_torch.models.layers import ModelOptions
from wstrain_torch.precision import Precision
from wstrain_torch.strategies import MicroBatches, Objective, UpdateSettings

MODULES = {"deepspeed": "wstrain_deepspeed.strategy"}  # the others lie in train_ddp's package
OPTIONS = {
    "pipeline_schedule": "gpipe",
    "zero_stage": 0,
    "loss_scale": 0.0,
    "offload_optimizer": "none",
    "offload_parameters": "none",
    "offload_path": "",
    "ds_config": None,
}


def main() -> None:
    """Count each case in turn, in one process group."""
    cases, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
    warnings.simplefilter("ignore")
    os.chdir(folder)
    launch = read_pytorch_environment(os.environ)
    group = Group(launch, mesh=Mesh(launch.world_size))
    found = {name: _measure(case, group) for name, case in cases.items()}
    (folder / f"{launch.rank}.json").write_text(json.dumps(found), encoding="utf-8")
    group.leave()


def _measure(case: dict[str, Any], group: Group) -> dict[str, int]:
    gc.collect()
    used = memory.peak_bytes()
    before = {storage for storage, _ in _storages(_alive())}
    group.mesh = Mesh(case["data"], case["tensor"], case["pipeline"])
    task = tasks.make_task("language_model", (case["tokens"] + 1,), "uint8", 0)
    model = models.build_model("gpt", task, ModelOptions(*case["sizes"]), sample=None)
    precision = Precision(case["precision"], group.device)
    updates = UpdateSettings(
        OptimizerOptions(case["optimizer"], momentum=case["momentum"]),
        precision,
        micro_batch=case["micro_batch"],
        accumulation=case["accumulation"],
        options={**OPTIONS, "zero_stage": case["stage"]},
    )
    strategy: Any = strategies.build_strategy(
        MODULES.get(case["strategy"], f"wstrain_ddp.{case['strategy']}"), model, updates, group
    )
    objective = Objective(task, precision)
    for step in range(2):
        strategy.gradients(_batches(case), objective)
        if step == 0 or case["updates"] > 1:
            strategy.update(1e-4)
    del model
    gc.collect()
    alive = {storage: size for storage, size in _storages(_alive()) if storage not in before}
    parameters = list(strategy.model.parameters())
    optimizer = getattr(strategy, "_optimizer", None) or strategy._part._optimizer
    state = [value for each in optimizer.state.values() for value in each.values()]
    return {
        "peak": memory.peak_bytes() - used,
        "total": sum(alive.values()),
        "parameters": _size(getattr(p, "ds_tensor", p) for p in parameters),
        "gradients": _size(p.grad for p in parameters if p.grad is not None),
        "optimizer": _size(value for value in state if isinstance(value, Tensor) and value.ndim),
    }


def _batches(case: dict[str, Any]) -> MicroBatches:
    tokens = torch.zeros(case["micro_batch"], case["tokens"], dtype=torch.int64)
    return MicroBatches(
        case["accumulation"], iter([(tokens, tokens)] * case["accumulation"]), seed=lambda _: None
    )


def _alive() -> list[Tensor]:
    # By the type: `isinstance` asks torch's metaclass of parameters, in Python, for each object.
    return [thing for thing in gc.get_objects() if issubclass(type(thing), Tensor)]


def _storages(tensors: Iterable[Tensor]) -> Iterator[tuple[int, int]]:
    for tensor in tensors:
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        try:
            storage = local.untyped_storage()
            yield storage.data_ptr(), storage.nbytes()
        except (RuntimeError, NotImplementedError):  # of another device, or a fake
            continue


def _size(tensors: Iterable[Tensor]) -> int:
    """Bytes of the parts that this rank has."""
    local = [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors]
    return sum(tensor.numel() * tensor.element_size() for tensor in local)


if __name__ == "__main__":
    main()
    end_process(0)
