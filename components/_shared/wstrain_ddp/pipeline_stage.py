"""One stage of a model that was cut into a sequence of blocks.

A model names the sequence in a method::

    def pipeline_blocks(self) -> list[str]:
        return ["tokens", "blocks.0", "blocks.1", "norm", "head"]

the submodules that its forward pass calls one after the other, each with what the one before returned, a
single tensor, and with nothing between them. For an ``nn.Sequential`` these are its layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage

from wsshards.errors import UserError
from wstrain.launch import mesh

METHOD = "pipeline_blocks"


def find_sequence(model: nn.Module) -> list[str]:
    """Return the names of the blocks that ``model`` is a sequence of.

    Raises:
        UserError: the model names none, or names that are not there, or has weights outside of them.
    """
    method = getattr(model, METHOD, None)
    if callable(method):
        names = list(method())
    elif isinstance(model, nn.Sequential):
        names = [name for name, _ in model.named_children()]
    else:
        raise UserError(
            f"the model has no method `{METHOD}`, so it cannot be cut into stages",
            'let it return for example ["tokens", "blocks.0", "blocks.1", "head"], or use nn.Sequential',
        )
    known = dict(model.named_modules())
    for name in names:
        if name not in known:
            raise UserError(f"`{METHOD}` names `{name}`, but the model has no such part")
    inside = tuple(f"{name}." for name in names)
    for name, _ in [*model.named_parameters(), *model.named_buffers()]:
        if not name.startswith(inside):
            raise UserError(
                f"`{name}` of the model is in none of the blocks of `{METHOD}`",
                "name every part that has weights, in the order of the forward pass",
            )
    return names


def partition_model(model: nn.Module, count: int) -> list[list[str]]:
    """Return the blocks of each of ``count`` stages, cut so that the heaviest stage is as light as possible.

    Raises:
        UserError: see :func:`find_sequence`; or there are fewer blocks to train than stages, or weights are
            shared by several of them.
    """
    names = find_sequence(model)
    blocks = [model.get_submodule(name) for name in names]
    weights = [sum(p.numel() for p in block.parameters() if p.requires_grad) for block in blocks]
    parts = mesh.partition_blocks(weights, count)
    if not parts:
        trained = sum(weight > 0 for weight in weights)
        raise UserError(
            f"the model has {trained} blocks with weights to train, but `pipeline_parallel_size` is {count}",
            "every stage takes at least one of them",
        )
    cut = [[names[number] for number in part] for part in parts]
    _expect_untied(model, cut)
    return cut


def keep_stage(model: nn.Module, cut: Sequence[Sequence[str]], index: int) -> nn.Module:
    """Remove the blocks of all stages but one from ``model``, in place; names stay what they were.

    Args:
        model: the whole model, which cannot be called any more.
        cut: names of the blocks of every stage.
        index: the stage that is left.
    """
    for stage, names in enumerate(cut):
        for name in names:
            parent, _, child = name.rpartition(".")
            if stage != index:
                delattr(model.get_submodule(parent), child)
    return model


class Stage(nn.Module):
    """The blocks ``names`` of ``part``, one after the other."""

    def __init__(
        self, part: nn.Module, names: Sequence[str], autocast: Callable[[], AbstractContextManager[object]]
    ) -> None:
        super().__init__()
        self.part = part
        self._blocks = [part.get_submodule(name) for name in names]
        self._autocast = autocast

    def forward(self, x: Tensor) -> Tensor:
        """Map the input of the first block to the output of the last one."""
        with self._autocast():
            for block in self._blocks:
                x = block(x)
        return x


class SeededStage(PipelineStage):
    """A stage that sets the random numbers before the forward pass of each micro-batch."""

    seed: Callable[[int], None]

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        """Run micro-batch number ``fwd_chunk_id``."""
        self.seed(fwd_chunk_id)
        # The blocks of later stages would draw from further on; another stage takes another sequence.
        if self.stage_index:
            torch.manual_seed((torch.initial_seed() + self.stage_index * 0x9E3779B97F4A7C15) % 2**63)
        return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)


def _expect_untied(model: nn.Module, cut: Sequence[Sequence[str]]) -> None:
    owner: dict[int, int] = {}
    for stage, names in enumerate(cut):
        for name in names:
            for within, parameter in model.get_submodule(name).named_parameters():
                if owner.setdefault(id(parameter), stage) != stage:
                    raise UserError(
                        f"`{name}.{within}` is shared by blocks of two stages, where it would drift apart",
                        "give the blocks weights of their own, or use `tensor_parallel` or `fsdp`",
                    )
