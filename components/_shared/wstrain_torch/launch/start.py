"""How every PyTorch training component starts: check the launch against the plan, then train.

torch is loaded after these checks, so a wrong world size or a missing GPU is reported in a fraction of a
second.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from importlib import metadata

from wsshards.errors import UserError
from wstrain.fine_tuning import expect_fine_tuning
from wstrain.health import memory
from wstrain.launch import gpus
from wstrain.launch.environment import Launch, expect_global_batch, expect_world_size
from wstrain.launch.mesh import make_mesh
from wstrain.settings import Settings


def start_training(settings: Settings, launch: Launch, *, communication: str, strategy: str) -> None:
    """Check the launch against the plan, then train.

    Args:
        settings: the component's inputs.
        launch: which process this is.
        communication: full name of the module that connects the ranks.
        strategy: full name of the strategy's module.

    Raises:
        UserError: the plan is for other processes or GPUs than there are, or contradicts itself.
    """
    expect_world_size(launch, settings.world_size)
    expect_fine_tuning(settings)
    expect_parallelism(settings)
    mesh = make_mesh(
        launch.world_size, tensor=settings.tensor_parallel_size, pipeline=settings.pipeline_parallel_size
    )
    expect_global_batch(
        mesh,
        per_device=settings.batch_size_per_device,
        accumulation=settings.gradient_accumulation_steps,
        global_batch=settings.global_batch_size,
    )
    gpus.expect_gpus_before_import(gpus.planned_gpus(settings), "torch", launch.local_rank)
    let_segments_grow(os.environ, metadata.version("torch"))
    from wstrain_torch.training import Modules, train  # imports torch

    with memory.explain_out_of_memory(settings):
        train(settings, launch, mesh, Modules(communication, strategy))


def let_segments_grow(env: MutableMapping[str, str], version: str) -> None:
    """Let CUDA's allocator map memory to the end of a segment, so that less of it is lost between tensors.

    torch reads the variable when it first uses a GPU. Its new name came in 2.9, where it is ignored
    (pytorch#183387), and works from 2.11 on. What a user has set stays.
    """
    old, new = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
    if old in env or new in env:
        return
    major, minor = (int(part) for part in version.split(".")[:2])
    env[new if (major, minor) >= (2, 11) else old] = "expandable_segments:True"


# The dimensions of the mesh that a strategy divides a model over.
_DIVIDES = {
    "ddp": (),
    "fsdp": ("tensor",),
    "tensor_parallel": ("tensor",),
    "pipeline_parallel": ("pipeline", "tensor"),
}
_OWN = {"tensor_parallel": "tensor", "pipeline_parallel": "pipeline"}
_UNDIVIDED = ("mlp", "cnn")


def expect_parallelism(settings: Settings) -> None:
    """Check that the strategy uses the given degrees, and that the built-in model divides by them.

    A single process divides nothing, so it accepts any strategy.

    Raises:
        UserError: they contradict each other.
    """
    degrees = {"tensor": settings.tensor_parallel_size, "pipeline": settings.pipeline_parallel_size}
    if settings.strategy not in _DIVIDES or settings.world_size == 1:
        return
    _expect_strategy(settings.strategy, degrees)
    if degrees["tensor"] * degrees["pipeline"] == 1:
        return
    _expect_model(settings, degrees)
    if settings.strategy == "pipeline_parallel":
        _expect_schedule(settings)
    if settings.precision == "fp16":
        raise UserError(
            "precision `fp16` is not offered for a model that is divided over ranks:"
            " all parts of it would have to agree on the loss scale",
            "use `bf16` or `fp32`",
        )


def _expect_strategy(strategy: str, degrees: dict[str, int]) -> None:
    for name, degree in degrees.items():
        if degree > 1 and name not in _DIVIDES[strategy]:
            fitting = "pipeline_parallel" if degrees["pipeline"] > 1 else "tensor_parallel"
            raise UserError(
                f"`{name}_parallel_size` is {degree}, but strategy `{strategy}` cannot divide a model so",
                f"use strategy `{fitting}`, or set `{name}_parallel_size` to 1",
            )
    dimension = _OWN.get(strategy)
    if dimension is not None and degrees[dimension] == 1:
        raise UserError(
            f"strategy `{strategy}` has nothing to divide over: `{dimension}_parallel_size` is 1",
            f"set `{dimension}_parallel_size` to 2 or more, or use strategy `ddp`",
        )


def _expect_model(settings: Settings, degrees: dict[str, int]) -> None:
    if settings.model in _UNDIVIDED:
        name = "tensor" if degrees["tensor"] > 1 else "pipeline"
        raise UserError(
            f"model `{settings.model}` cannot be divided, but `{name}_parallel_size` is {degrees[name]}",
            "use `gpt`, or a model of your own that names its plan; `fsdp` shards any model",
        )
    if settings.model != "gpt":
        return
    tensor, stages = degrees["tensor"], degrees["pipeline"]
    if settings.gpt_heads % tensor:
        raise UserError(
            f"`gpt_heads` is {settings.gpt_heads}, not a multiple of `tensor_parallel_size` {tensor}",
            "every rank takes as many attention heads as any other",
        )
    if settings.gpt_layers < stages:
        raise UserError(
            f"`gpt_layers` is {settings.gpt_layers}, fewer than `pipeline_parallel_size` {stages}",
            "every stage takes at least one block",
        )


def _expect_schedule(settings: Settings) -> None:
    stages, micro_batches = settings.pipeline_parallel_size, settings.gradient_accumulation_steps
    if settings.options.get("pipeline_schedule") == "1f1b" and micro_batches < stages:
        raise UserError(
            f"`pipeline_schedule` `1f1b` needs a micro-batch for each of {stages} stages,"
            f" but `gradient_accumulation_steps` is {micro_batches}",
            f"accumulate over {stages} or more micro-batches, or use `gpipe`",
        )
    if settings.sync_batch_norm:
        raise UserError(
            "`sync_batch_norm` is on, but with `pipeline_parallel` no layer is on all ranks",
            "turn it off, or use group or layer normalisation",
        )
