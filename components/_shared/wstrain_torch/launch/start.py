"""How every PyTorch training component starts: check the launch against the plan, then train.

torch is loaded after these checks, so a wrong world size or a missing GPU is reported in a fraction of a
second.
"""

from __future__ import annotations

from wstrain.health import out_of_memory
from wstrain.launch import gpus
from wstrain.launch.environment import Launch, expect_global_batch, expect_world_size
from wstrain.launch.mesh import make_mesh
from wstrain.settings import Settings
from wstrain_torch.launch.parallelism import expect_parallelism


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
    from wstrain_torch.training import train  # imports torch

    with out_of_memory.explain_out_of_memory(settings):
        train(settings, launch, mesh, communication=communication, strategy=strategy)
