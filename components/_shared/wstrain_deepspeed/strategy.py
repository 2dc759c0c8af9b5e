"""DeepSpeed's ZeRO: data parallel, with optimizer state (stage 1), gradients (2) and weights (3) sharded.

The engine starts inside the processes that Azure ML's PyTorch distribution started, on their process group:
no hostfile, no second launcher. Its configuration follows from the plan, see :mod:`wstrain_deepspeed.config`;
the learning rate stays with our schedule.
"""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from wsshards.errors import UserError, describe_error, print_warning
from wstrain_deepspeed import config as deepspeed_config
from wstrain_deepspeed import stale_locks
from wstrain_torch import optimizers
from wstrain_torch.launch.process_group import Group
from wstrain_torch.precision import Precision
from wstrain_torch.strategies import (
    MicroBatches,
    Objective,
    UpdateSettings,
    accumulate_gradients,
    copy_without_weights,
    evaluation_mode,
    return_freed_memory,
)

GATHERING_STAGE = 3  # of ZeRO: weights are gathered before each layer
CONFIG_FILE = Path("outputs") / "ds_config.json"  # Azure ML keeps ./outputs with the job


class ZeroParallel:
    """The strategy ``deepspeed``.

    Raises:
        UserError: the settings contradict each other, or DeepSpeed is not installed.
    """

    sharded = False

    def __init__(self, model: nn.Module, updates: UpdateSettings, group: Group) -> None:
        config = _config(updates, group)
        deepspeed = _load_deepspeed(group)
        self._main = group.is_main
        if updates.options["zero_stage"] == GATHERING_STAGE and group.device.type == "cpu":
            return_freed_memory()
        self._skeleton = copy_without_weights(model)
        optimizer = optimizers.build_optimizer(model, updates.optimizer, learning_rate=0.0)
        parameters = [list(part["params"]) for part in optimizer.param_groups]
        self.model, self._optimizer, _, _ = deepspeed.initialize(
            model=model, optimizer=optimizer, config=config, dist_init_required=False
        )
        self._dtype = next(model.parameters()).dtype  # the engine may have made it half as wide
        # The engine has its own arithmetic, and switches off an autocast around it.
        self._precision = Precision("fp32", group.device)
        zero_state = importlib.import_module("wstrain_deepspeed.zero_state")  # imports DeepSpeed
        stage = self.model.zero_optimization_stage()
        self._state = zero_state.ZeroState(model, parameters, self._optimizer, stage)

    def gradients(self, micro_batches: MicroBatches, objective: Objective) -> Tensor:
        """Add gradients up; the engine averages them over ranks, from stage 2 on after each micro-batch."""
        return accumulate_gradients(
            micro_batches,
            replace(objective, precision=self._precision),
            self._forward,
            backward=self._backward,
            exchange=self._exchange,
        )

    def update(self, learning_rate: float) -> None:
        """Let the engine step at ``learning_rate``; it clips and unscales by its configuration."""
        optimizers.set_learning_rate(self._optimizer, learning_rate)
        self.model.step()

    def predict(self, inputs: Tensor) -> Tensor | None:
        """Run the engine forward, which gathers weights at stage 3."""
        return self._forward(inputs).float()

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Put the engine into evaluation mode, without gradients."""
        with evaluation_mode(self.model):
            yield

    def state(self) -> dict[str, Any]:
        """Weights and optimizer state, gathered on rank 0, as strategies without sharding save them."""
        return {
            "model": self._state.model(keep=self._main),
            "optimizer": self._state.optimizer(keep=self._main),
            "scaler": {},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Load this rank's slices of a whole state."""
        self._state.load(state["model"], state["optimizer"])

    def whole_model(self) -> nn.Module:
        """Put the fp32 weights into a module that DeepSpeed has never seen."""
        weights = self._state.model(keep=self._main)
        if self._main:
            self._skeleton.load_state_dict(weights, assign=True)
        return self._skeleton

    def _forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.model(inputs.to(self._dtype) if inputs.is_floating_point() else inputs)
        return outputs

    def _backward(self, loss: Tensor) -> None:
        self.model.backward(loss, scale_wrt_gas=False)  # it was divided already

    @contextmanager
    def _exchange(self, last: bool) -> Iterator[None]:
        yield
        if not last:
            self.model.step()  # counts the micro-batch; the last one's step is the optimizer's


def build_strategy(model: nn.Module, updates: UpdateSettings, group: Group) -> ZeroParallel:
    """Return the strategy around ``model``."""
    return ZeroParallel(model.to(group.device), updates, group)


def _config(updates: UpdateSettings, group: Group) -> dict[str, Any]:
    options = updates.options
    plan = deepspeed_config.Plan(
        micro_batch=updates.micro_batch,
        accumulation=updates.accumulation,
        world_size=group.launch.world_size,
        zero_stage=options["zero_stage"],
        precision=updates.precision.name,
        loss_scale=options["loss_scale"],
        max_gradient_norm=updates.max_gradient_norm,
        optimizer=updates.optimizer.name,
        offload_optimizer=options["offload_optimizer"],
        offload_parameters=options["offload_parameters"],
        offload_path=options["offload_path"],
    )
    with group.together():
        config = (
            _read_user_config(options["ds_config"], plan, group)
            if options["ds_config"]
            else _build_config(plan)
        )
        if group.is_main:
            _write(deepspeed_config.to_json(config))
    return config


def _build_config(plan: deepspeed_config.Plan) -> dict[str, Any]:
    try:
        return deepspeed_config.build_config(plan)
    except ValueError as error:
        raise UserError(str(error)) from error


def _read_user_config(path: Path, plan: deepspeed_config.Plan, group: Group) -> dict[str, Any]:
    try:
        user_config = deepspeed_config.read_config(path)
        config, warnings_ = deepspeed_config.complete_config(
            user_config, plan, lambda folder: Path(folder).is_dir()
        )
    except ValueError as error:
        raise UserError(f"`ds_config` cannot be used: {error}", "correct it, or leave it out") from error
    if group.is_main:
        for finding in warnings_:
            print_warning(f"{path.name}: {finding}")
    return config


def _write(text: str) -> None:
    try:
        CONFIG_FILE.parent.mkdir(exist_ok=True)
        CONFIG_FILE.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write `{CONFIG_FILE}`: {describe_error(error)}") from error


def _load_deepspeed(group: Group) -> Any:
    if group.device.type == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # read when DeepSpeed is imported
    # It calls functions that torch 2.13 has renamed, at every step.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    try:
        deepspeed = importlib.import_module("deepspeed")
    except ImportError as error:
        raise UserError(f"DeepSpeed cannot be loaded: {error}", "pip install deepspeed") from error
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    if group.device.type == "cpu":
        # It would build an exchange through shared memory for a minute or more, which only inference uses.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    # DeepSpeed builds other extensions when it needs them.
    stale_locks.remove_stale_locks(stale_locks.choose_root(torch.__version__))
    if not dist.is_initialized():  # a single process needs a group too
        backend = "nccl" if group.device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    return deepspeed
