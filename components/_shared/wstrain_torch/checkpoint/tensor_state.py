"""The state of a training as tensors whose names do not depend on how the model is distributed.

``model.<name>`` is an entry of ``state_dict()``, ``optimizer.<name>.<slot>`` what the optimizer keeps for the
parameter ``<name>``, ``scaler.<name>`` a number of the loss scaler. Settings of the optimizer are not part of
the state: a resumed run takes them from its own inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from wsshards.errors import UserError

MODEL, OPTIMIZER, SCALER = "model.", "optimizer.", "scaler."


class StoredTensors(Protocol):
    """A saved state."""

    like: Mapping[str, Tensor]
    """Every tensor of it, whole, on the meta device."""

    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Read into ``tensors``: a ``DTensor`` gets its slice, any other tensor all of it."""


class InMemoryTensors:
    """A state in memory, each tensor whole.

    Args:
        tensors: by name.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self.like = {name: tensor.to("meta") for name, tensor in tensors.items()}

    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy into ``tensors``."""
        for name, target in tensors.items():
            source = self._tensors[name].to(target.device)
            if isinstance(target, DTensor):  # every rank has the whole tensor, so nothing is sent
                source = distribute_tensor(source, target.device_mesh, target.placements, src_data_rank=None)
            with torch.no_grad():
                target.copy_(source)


def collect_tensors(
    model: nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler
) -> dict[str, Tensor]:
    """Return the state by name, not copied.

    Args:
        model: its names are those of the model before it was spread.
        optimizer: of its parameters.
        scaler: of the loss; one that does nothing has no state.
    """
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    state = _tensors(MODEL, model.state_dict())
    for parameter, slots in optimizer.state.items():
        state |= _tensors(f"{OPTIMIZER}{names[parameter]}.", slots)
    return state | _number_tensors(scaler.state_dict())


def restore_tensors(
    stored: StoredTensors, model: nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler
) -> None:
    """Fill the state from a saved one, in place.

    Raises:
        UserError: the saved model has other tensors.
    """
    state = _tensors(MODEL, model.state_dict())
    _expect_same_model(stored, state)
    slots = _slots(stored, dict(model.named_parameters()))
    numbers = {name: torch.zeros_like(like, device="cpu") for name, like in _select(stored, SCALER).items()}
    stored.fill(state | {name: value for name, (_, _, value) in slots.items()} | numbers)
    optimizer.state.clear()
    for parameter, slot, value in slots.values():
        optimizer.state[parameter][slot] = value
    if numbers:
        scaler.load_state_dict(_from_number_tensors(numbers))


def from_state_dicts(state: Mapping[str, Any], order: Sequence[str]) -> InMemoryTensors:
    """Name the tensors of what a strategy whose ranks are all alike saved.

    Args:
        state: ``model``, ``optimizer`` and ``scaler``, in the form of PyTorch's ``state_dict``.
        order: names of the parameters as the optimizer numbers them.
    """
    tensors = _tensors(MODEL, state["model"])
    for number, slots in state["optimizer"]["state"].items():
        tensors |= _tensors(f"{OPTIMIZER}{order[number]}.", slots)
    return InMemoryTensors(tensors | _number_tensors(state.get("scaler") or {}))


def to_state_dicts(stored: StoredTensors, own: dict[str, Any], order: Sequence[str]) -> dict[str, Any]:
    """Give a saved state the form that a strategy whose ranks are all alike loads; read by every rank.

    Args:
        stored: the saved state.
        own: what the strategy's ``state()`` returned; its settings are kept. One that gathers its state
            gives rank 0 the weights, and the other ranks none.
        order: names of the parameters as the optimizer numbers them.

    Raises:
        UserError: the saved model has other tensors.
    """
    _expect_same_model(stored, _tensors(MODEL, own["model"]))
    whole = {name: torch.empty_like(like, device="cpu") for name, like in stored.like.items()}
    stored.fill(whole)
    numbers = {name: value for name, value in whole.items() if name.startswith(SCALER)}
    state = {
        number: {name.rpartition(".")[2]: value for name, value in whole.items() if _is_slot(name, parameter)}
        for number, parameter in enumerate(order)
    }
    names = own["model"] or [name.removeprefix(MODEL) for name in _select(stored, MODEL)]
    return {
        **own,
        "model": {name: whole[f"{MODEL}{name}"] for name in names},
        "optimizer": {**own["optimizer"], "state": {key: slots for key, slots in state.items() if slots}},
        "scaler": _from_number_tensors(numbers) if numbers else own.get("scaler"),
    }


def _tensors(prefix: str, values: Mapping[str, Any]) -> dict[str, Tensor]:
    return {f"{prefix}{name}": value for name, value in values.items() if isinstance(value, Tensor)}


def _number_tensors(values: Mapping[str, Any]) -> dict[str, Tensor]:
    return {f"{SCALER}{name}": torch.tensor(float(value)).double() for name, value in values.items()}


def _from_number_tensors(numbers: Mapping[str, Tensor]) -> dict[str, Any]:
    values = {name.removeprefix(SCALER): value.item() for name, value in numbers.items()}
    return {
        name: int(value) if name.endswith(("interval", "tracker")) else value
        for name, value in values.items()
    }


def _select(stored: StoredTensors, prefix: str) -> dict[str, Tensor]:
    return {name: like for name, like in stored.like.items() if name.startswith(prefix)}


def _is_slot(name: str, parameter: str) -> bool:
    return name.rpartition(".")[0] == f"{OPTIMIZER}{parameter}"


def _slots(
    stored: StoredTensors, parameters: Mapping[str, nn.Parameter]
) -> dict[str, tuple[nn.Parameter, str, Tensor]]:
    """Allocate the optimizer's state: distributed as its parameter is, or a number such as the step."""
    slots: dict[str, tuple[nn.Parameter, str, Tensor]] = {}
    for name, like in _select(stored, OPTIMIZER).items():
        owner, _, slot = name.removeprefix(OPTIMIZER).rpartition(".")
        parameter = parameters.get(owner)
        if parameter is None:
            continue  # it belongs to another pipeline stage
        spread = like.shape == parameter.shape
        value = (
            torch.zeros_like(parameter, dtype=like.dtype, requires_grad=False)
            if spread
            else torch.zeros_like(like, device=parameter.device)
        )
        slots[name] = (parameter, slot, value)
    return slots


def _expect_same_model(stored: StoredTensors, own: Mapping[str, Tensor]) -> None:
    for name, tensor in own.items():
        saved = stored.like.get(name)
        if saved is None or saved.shape != tensor.shape:
            saved_as = "is missing" if saved is None else f"has shape {list(saved.shape)}"
            raise UserError(
                f"`{name.removeprefix(MODEL)}` of the model has shape {list(tensor.shape)},"
                f" but in the checkpoint it {saved_as}",
                "resume with the model, and its sizes, that the checkpoint was trained with",
            )
