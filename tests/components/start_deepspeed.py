"""Shows configurations to the real DeepSpeed, on one CPU: JSON from standard input, its words to a file.

Each case is ``{"config": …, "world": 8, "optimizer": null, "start": false}``. Without ``start`` DeepSpeed
only reads the configuration, for any number of processes; with it ``deepspeed.initialize`` is run, for one.
``{"precision": "fp16"}`` asks what the device has.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[2]}

import deepspeed  # the variables above count when it is imported
import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.ops import __compatible_ops__
from deepspeed.runtime.config import DeepSpeedConfig


class Processes:
    """The number of processes, as DeepSpeed asks a user's grid of processes for it."""

    def __init__(self, count: int) -> None:
        self.count = count

    def get_data_parallel_world_size(self) -> int:
        return self.count


def read(case: dict[str, Any]) -> None:
    DeepSpeedConfig(case["config"], mpu=Processes(case["world"]))


def start(case: dict[str, Any]) -> None:
    model = torch.nn.Linear(4, 2)
    given: dict[str, Any] = {"model_parameters": model.parameters()}
    if case["optimizer"] is not None:
        given = {"optimizer": getattr(torch.optim, case["optimizer"])(model.parameters(), lr=0.1)}
    engine, *_ = deepspeed.initialize(model=model, config=case["config"], **given)
    engine.destroy()


def compute(case: dict[str, Any]) -> None:
    dtype = {"fp32": torch.float, "bf16": torch.bfloat16, "fp16": torch.half}[case["precision"]]
    if dtype not in get_accelerator().supported_dtypes():
        raise ValueError(f"{case['precision']} is not supported")


def answer(case: dict[str, Any]) -> str | None:
    """What DeepSpeed stopped with, or None."""
    try:
        (compute if "precision" in case else start if case["start"] else read)(case)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


# One process exchanges nothing, and DeepSpeed compiles its exchange through shared memory for a minute.
__compatible_ops__["deepspeed_shm_comm"] = False
deepspeed.init_distributed("gloo", verbose=False)
Path(sys.argv[1]).write_text(json.dumps([answer(case) for case in json.load(sys.stdin)]), encoding="utf-8")
deepspeed.comm.destroy_process_group()
