"""Tensor parallelism: several ranks share every layer; data parallelism over groups of them.

The ranks of one group see the same samples. Each computes its part of the layers that the model's plan names,
and they exchange activations in every layer. Groups are replicas: each takes its part of the global batch,
and gradients are averaged over the groups once a step.

A model names its plan in a method::

    def tensor_parallel_plan(self) -> dict[str, str]:
        return {"blocks.*.attention.split": "colwise", "blocks.*.attention.merge": "rowwise"}

It maps names of linear and embedding layers, in which ``*`` stands for anything, to how their weights are
divided (Shoeybi et al. 2019, "Megatron-LM"):

- ``colwise``: each rank computes a part of the outputs and keeps it;
- ``rowwise``: each rank takes a part of the inputs, as ``colwise`` left them, and all ranks get the sum;
  an embedding is divided by its rows;
- ``colwise_gathered``: as ``colwise``, but every rank gets all outputs;
- or a ``ParallelStyle`` of ``torch.distributed.tensor.parallel``.

Layers that no pattern names stay whole on every rank. Between ``colwise`` and ``rowwise`` the model sees only
its part, so it must count its heads and not store their number.

Random numbers drawn between two divided layers are the same on all ranks of a group, but for different
features. A dropout there differs from that of one process. Elsewhere all ranks draw what one process would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)

from wsshards.errors import UserError
from wstrain_ddp import ddp
from wstrain_ddp.model_part import TENSOR, ModelPart, make_device_mesh
from wstrain_torch.launch.process_group import Group
from wstrain_torch.strategies import (
    MicroBatches,
    Objective,
    Strategy,
    UpdateSettings,
    copy_without_weights,
)

METHOD = "tensor_parallel_plan"
NAMES = ("colwise", "rowwise", "colwise_gathered")

# Beginnings of PyTorch's messages about sizes that do not fit.
_MISFITS = ("shape '", "mat1 and mat2 shapes", "The size of tensor", "unflatten", "must match the size")

Plan = dict[str, ParallelStyle]


def read_plan(model: nn.Module, degree: int) -> Plan:
    """Return how each layer that the model's plan names is divided.

    Args:
        model: the whole model.
        degree: ranks that share a layer.

    Raises:
        UserError: the model names no plan, or the plan names layers that are not there or cannot be divided.
    """
    method = getattr(model, METHOD, None)
    if not callable(method):
        raise UserError(
            f"the model has no method `{METHOD}`, so its layers cannot be divided over ranks",
            'let it return for example {"blocks.*.grow": "colwise", "blocks.*.shrink": "rowwise"}',
        )
    plan: Plan = {}
    for pattern, style in _checked(method()).items():
        layers = {name: layer for name, layer in model.named_modules() if fnmatchcase(name, pattern)}
        if not layers:
            raise UserError(
                f"`{METHOD}` names `{pattern}`, but the model has no such layer", _some_names(model)
            )
        for name, layer in layers.items():
            plan[name] = _style(name, layer, style, degree) if isinstance(style, str) else style
    return plan


def split_tensors(module: nn.Module, mesh: DeviceMesh, plan: Plan | None = None) -> nn.Module:
    """Divide the layers of ``module`` over the ranks of ``mesh``, in place, without communication.

    The weights must be the same on all ranks of the mesh, as they are when built from one seed. Those of the
    divided layers move to the mesh's device and become ``DTensor``; the others stay as they are.

    Args:
        module: the model, or a stage of it with the model's names.
        mesh: one dimension.
        plan: from :func:`read_plan`, where ``module`` is no longer whole; left out, the module's own.

    Returns:
        The module.

    Raises:
        UserError: see :func:`read_plan`.
    """
    plan = read_plan(module, mesh.size()) if plan is None else plan
    here = dict(module.named_modules())
    for name, style in plan.items():
        if name in here:
            parallelize_module(here[name], mesh, style, src_data_rank=None)
    return module


@contextmanager
def report_misfits() -> Iterator[None]:
    """Report a forward pass that expects all outputs of a divided layer.

    Raises:
        UserError: sizes do not fit; every rank that shares the layer finds the same.
    """
    try:
        yield
    except RuntimeError as error:
        first = (str(error).splitlines() or [""])[0]
        if not any(sign in first for sign in _MISFITS):
            raise
        raise UserError(
            f"the model fails once it is divided: {first[:110]}",
            "after `colwise` a rank has some of the features: count heads by `-1`, or use `colwise_gathered`",
        ) from error


def _checked(plan: object) -> Mapping[str, str | ParallelStyle]:
    if not isinstance(plan, Mapping) or not plan:
        raise UserError(f"`{METHOD}` returned {plan!r:.60}, not a dictionary of layers")
    for pattern, style in plan.items():
        if style not in NAMES and not isinstance(style, ParallelStyle):
            known = ", ".join(f"`{name}`" for name in NAMES)
            raise UserError(f"`{METHOD}` divides `{pattern}` by `{style}`", f"known: {known}")
    return plan


def _style(name: str, layer: nn.Module, style: str, degree: int) -> ParallelStyle:
    if not isinstance(layer, nn.Linear | nn.Embedding):
        raise UserError(
            f"`{METHOD}` divides `{name}`, which is a `{type(layer).__name__}`",
            "only nn.Linear and nn.Embedding can be divided",
        )
    if isinstance(layer, nn.Linear) and style != "colwise_gathered":
        kind, size = ("inputs", layer.in_features) if style == "rowwise" else ("outputs", layer.out_features)
        if size % degree:
            raise UserError(
                f"layer `{name}` has {size} {kind}, not a multiple of `tensor_parallel_size` {degree}"
            )
    if style == "colwise":
        return ColwiseParallel()
    if style == "colwise_gathered":
        return ColwiseParallel(output_layouts=Replicate())
    # What goes into an embedding are numbers of its rows, which every rank has.
    return (
        RowwiseParallel(input_layouts=Replicate()) if isinstance(layer, nn.Embedding) else RowwiseParallel()
    )


def _some_names(model: nn.Module) -> str:
    names = [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear | nn.Embedding)]
    shown = ", ".join(f"`{name}`" for name in names[:6])
    return f"its layers: {shown}{', …' if len(names) > 6 else ''}" if names else "it has no linear layers"


class TensorParallel(ModelPart):
    """The strategy ``tensor_parallel``.

    Raises:
        UserError: the model names no plan, or one that does not fit it.
    """

    def __init__(self, model: nn.Module, updates: UpdateSettings, group: Group) -> None:
        mesh = make_device_mesh(group)
        whole = copy_without_weights(model)
        super().__init__(split_tensors(model, mesh[TENSOR]).to(group.device), whole, updates, mesh)

    def gradients(self, micro_batches: MicroBatches, objective: Objective) -> Tensor:
        """Accumulate the gradients of the micro-batches, then average them over replicas."""
        with report_misfits():
            loss = super().gradients(micro_batches, objective)
        self._average_gradients()
        return loss


def build_strategy(model: nn.Module, updates: UpdateSettings, group: Group) -> Strategy:
    """Return the strategy around ``model``; a single process has nothing to divide."""
    if group.launch.world_size == 1:
        return ddp.build_strategy(model, updates, group)
    return TensorParallel(model, updates, group)
