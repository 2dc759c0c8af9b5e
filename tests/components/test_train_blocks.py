"""Blocks of a model: how they are named, and what computing them again saves."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.smoke]

from torch import nn  # noqa: E402

from wsshards.errors import UserError  # noqa: E402
from wstrain.launch.environment import Launch  # noqa: E402
from wstrain.settings import OptimizerOptions  # noqa: E402
from wstrain_ddp import fsdp  # noqa: E402
from wstrain_torch import export, models  # noqa: E402
from wstrain_torch.data import make_task  # noqa: E402
from wstrain_torch.launch.process_group import Group  # noqa: E402
from wstrain_torch.models.layers import find_blocks, recompute_blocks  # noqa: E402
from wstrain_torch.precision import Precision  # noqa: E402
from wstrain_torch.strategies import MicroBatches, Objective, UpdateSettings  # noqa: E402

TEXT = make_task("language_model", (65,), "uint8", 0)
PICTURES = make_task("classification", (1, 8, 8), "float32", 10)


def built(name: str) -> Any:
    torch.manual_seed(0)
    task = TEXT if name == "gpt" else PICTURES
    sample = None if name == "gpt" else torch.randn(16, 1, 8, 8)
    return models.build_model(name, task, models.ModelOptions(2, 2, 32), sample=sample)


@pytest.mark.parametrize(("name", "count"), [("gpt", 2), ("cnn", 2), ("mlp", 3)])
def test_built_in_models_name_most_of_their_parameters(name: str, count: int) -> None:
    model = built(name)
    found = find_blocks(model, "it")
    assert len(found) == count
    inside = sum(parameter.numel() for block in found for parameter in block.parameters())
    assert inside > 0.5 * sum(parameter.numel() for parameter in model.parameters())
    assert not [key for key in model.state_dict() if key.startswith("blocks") and name != "gpt"]


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda _: None, "it works block by block, but the model has none in `blocks`"),
        (lambda _: [], "it works block by block, but the model has none in `blocks`"),
        (lambda _: [nn.Linear(2, 2)], "`blocks[0]` of the model, a `Linear`, is not one of its submodules"),
        (lambda model: [model[0], "one"], "`blocks[1]` of the model, a `str`, is not one of its submodules"),
        (lambda model: [model], "`blocks[0]` of the model, a `Sequential`, is not one of its submodules"),
        (lambda model: [model[0], model[0]], "a block of the model is in `blocks` twice"),
        (lambda model: [model[1], model[1][0]], "a block of the model is in `blocks` twice, or within"),
    ],
)
def test_blocks_that_are_none(give: Any, message: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
    model.blocks = give(model)
    with pytest.raises(UserError, match=re.escape(message)) as refused:
        find_blocks(model, "it")
    assert "model.blocks = list(model.layers)" in str(refused.value.help)


def kept(model: nn.Module, inputs: Any) -> tuple[Any, int]:
    """The loss, and the bytes that its graph keeps for the backward pass (of weights, too)."""
    seen: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        seen[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(inputs).square().mean()
    return loss, sum(seen.values())


def test_recomputing_keeps_less_and_changes_no_gradient_and_no_name() -> None:
    plain, again = built("gpt"), built("gpt")
    recompute_blocks(again)
    inputs = torch.randint(0, 256, (16, 64))
    (loss, bytes_), (same, fewer) = kept(plain, inputs), kept(again, inputs)
    assert same == loss
    assert fewer < 0.5 * bytes_
    loss.backward()
    same.backward()
    assert plain.state_dict().keys() == again.state_dict().keys()
    for one, other in zip(plain.parameters(), again.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_a_copy_computes_its_own_blocks_again() -> None:
    model = built("gpt")
    recompute_blocks(model)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    inputs = torch.randint(0, 256, (2, 64))
    assert twin.train()(inputs).abs().max() == 0
    assert model.train()(inputs).abs().max() > 0


def test_dropout_draws_the_same_numbers_twice() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), nn.Linear(8, 1))
    again = copy.deepcopy(model)
    for one in (model, again):
        one.blocks = [one[0]]
    recompute_blocks(again)
    inputs = torch.randn(4, 8)
    for one in (model, again):
        torch.manual_seed(1)
        one(inputs).sum().backward()
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_an_exported_program_has_no_trace_of_it() -> None:
    model = built("gpt")
    recompute_blocks(model)
    assert "checkpoint" not in str(export.export_program(model, TEXT).graph)


class Reaching(nn.Module):
    """A model that uses its block's weights without calling the block."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(64, 64), nn.Linear(64, 10)
        self.blocks = [self.inner]

    def forward(self, x: Any) -> Any:
        return self.outer(nn.functional.linear(x.flatten(1), self.inner.weight, self.inner.bias))


class Scaled(nn.Module):
    """A model with a parameter that has no dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.scale = nn.Linear(64, 10), nn.Parameter(torch.ones(()))
        self.blocks = [self.inner]


def sharded(model: Any) -> Any:
    group = Group(Launch(rank=0, local_rank=0, world_size=1))
    updates = UpdateSettings(OptimizerOptions("sgd"), Precision("fp32", torch.device("cpu")))
    return fsdp.build_strategy(model, updates, group)


def test_weights_of_a_block_are_there_only_within_it(group_of_one: Any) -> None:
    strategy = sharded(Reaching())
    objective = Objective(PICTURES, Precision("fp32", torch.device("cpu")))
    batch = (torch.zeros(2, 1, 8, 8), torch.zeros(2, dtype=torch.long))
    with pytest.raises(UserError, match="the model uses the weights of a block outside its forward pass"):
        strategy.gradients(MicroBatches(1, iter([batch]), seed=lambda _: None), objective)


def test_a_parameter_without_dimensions_cannot_be_sharded(group_of_one: Any) -> None:
    with pytest.raises(UserError, match=r"`fsdp` cannot shard the model: .*scale"):
        sharded(Scaled())
