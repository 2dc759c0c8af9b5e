"""Closed forms against the modules that train: shapes, what autograd keeps, DeepSpeed's own sums."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest

from worldsize.planning.memory import built_in, estimate, states
from worldsize.planning.memory.network import Network, Setup
from worldsize.planning.memory.workload import Samples
from worldsize.resolving.imported_model import ModelImportError, import_model

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.smoke]

DIGITS = ((1, 8, 8), 10)
PICTURES = [DIGITS, ((3, 33, 17), 4), ((3, 32, 32), 100), ((1, 28, 28), 2), ((4, 5, 64), 3)]
GPTS = [(128, 4, 4, 128), (16, 1, 2, 36), (64, 3, 8, 64)]  # tokens, layers, heads, width
CASES: list[tuple[str, Any]] = [
    *(("cnn", case) for case in PICTURES),
    *(("mlp", case) for case in [DIGITS, ((7,), 3), ((2, 3), 2)]),
    *(("mlp", ((7,), outputs, task)) for outputs, task in ((1, "regression"), (3, "multi_label"))),
    *(("gpt", case) for case in GPTS),
]


def made(kind: str, case: Any) -> tuple[Network, Any, Any]:
    """The closed form, the real module, and its task."""
    from wstrain_torch import data as tasks
    from wstrain_torch import models

    if kind == "gpt":
        tokens, layers, heads, width = case
        task = tasks.make_task("language_model", (tokens + 1,), "uint8", 0)
        options = models.ModelOptions(layers, heads, width)
        return built_in.gpt(*case), models.build_model("gpt", task, options, sample=None), task
    shape, classes, name = case if len(case) == 3 else (*case, "classification")
    task = tasks.make_task(name, shape, "float32", classes)
    model = models.build_model(kind, task, models.ModelOptions(), sample=torch.randn(9, *shape))
    closed = getattr(built_in, kind)(shape, classes)
    assert closed is not None
    return closed, model, task


@pytest.mark.parametrize(("kind", "case"), CASES, ids=str)
def test_every_weight_has_its_name_and_shape(kind: str, case: Any) -> None:
    closed, model, _ = made(kind, case)
    expected = {name: (tuple(p.shape), p.requires_grad) for name, p in model.named_parameters()}
    assert {w.name: (w.shape, w.trained) for part in closed.parts for w in part.weights} == expected
    assert closed.trained == sum(p.numel() for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("kind", "case"), CASES, ids=str)
def test_every_byte_that_autograd_keeps_is_known(kind: str, case: Any, precision: str) -> None:
    closed, model, task = made(kind, case)
    samples = 2
    kept = sum(
        estimate._kept_bytes(part, Setup("ddp", gpu=False, precision=precision), samples)
        for part in closed.parts
    )
    dtype = torch.bfloat16 if precision == "bf16" else None
    assert saved(model, task, samples, dtype) == pytest.approx(kept, abs=8)  # the loss itself is 4


def saved(model: Any, task: Any, samples: int, dtype: Any) -> int:
    """Bytes of what a forward pass keeps, without weights and copies of them."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    shapes = {tuple(p.shape) for p in model.parameters() if p.ndim > 1}
    shapes |= {shape[::-1] for shape in shapes if len(shape) == 2}
    sizes: dict[int, int] = {}
    alive: list[Any] = []

    def note(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        cast = tensor.dtype == dtype and tuple(tensor.shape) in shapes and tensor.grad_fn is not None
        if storage.data_ptr() not in weights and not (cast and _is_cast(tensor)):
            sizes[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor)
        return tensor

    shape = task.input_shape if task.name == "language_model" else ()
    targets = torch.zeros(samples, *shape, dtype=torch.int64)
    if task.name in ("regression", "multi_label"):
        targets = torch.zeros(samples, task.outputs)
    context = torch.autocast("cpu", dtype=dtype) if dtype else contextlib.nullcontext()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor), context:
        inputs = task.example(samples)
        loss = task.loss(model(inputs + 1 if inputs.is_floating_point() else inputs), targets)
    assert loss.requires_grad
    return sum(sizes.values())


def _is_cast(tensor: Any) -> bool:
    """Whether a tensor is a leaf in another precision, perhaps transposed."""
    node = tensor.grad_fn
    while node is not None and type(node).__name__ in ("TBackward0", "ToCopyBackward0"):
        node = node.next_functions[0][0]
    return type(node).__name__ == "AccumulateGrad"


USER = """\
from torch import nn

def make(input_shape, classes):
    print("a model that talks")
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Sequential(nn.Linear(32, 32), nn.Tanh()),
                          nn.Linear(32, classes))
    model.blocks = [model[2]]
    return model

def looks(input_shape, classes):
    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, classes)
        def forward(self, x):
            return self.layer(x.flatten(1)) if x.sum() > 0 else x
    return Looks()

def fails():
    raise ValueError("no weights today")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(USER, encoding="utf-8")
    return tmp_path


def test_a_model_of_the_users_own_is_weighed_without_its_weights(folder: Path) -> None:
    network = import_model(folder, "mine.py:make", Samples("classification", *DIGITS))
    assert network.trained == 64 * 32 + 32 + 32 * 32 + 32 + 32 * 10 + 10
    assert [part.block for part in network.parts] == [False, True]
    assert network.parts[1].kept.narrow == 32 + 32  # the input of the linear layer, the result of tanh
    assert network.exact


def test_a_model_that_looks_at_values_has_shapes_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from worldsize.resolving import model_shapes
    from wstrain_torch import data as tasks

    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    task = tasks.make_task("classification", DIGITS[0], "float32", 10)
    described = model_shapes.describe("mine.py:looks", task)
    names = [name for part in described["parts"] for name, _, _ in part["weights"]]
    assert names == ["layer.weight", "layer.bias"]
    assert not described["counted"]


def test_a_model_that_cannot_be_made_says_why(folder: Path) -> None:
    with pytest.raises(ModelImportError, match="no weights today"):
        import_model(folder, "mine.py:fails", Samples("classification", *DIGITS))


def test_deepspeeds_own_estimators_agree() -> None:
    """They count fp32 gradients of the step as states, and for stage 3 no 16-bit gradients."""
    pytest.importorskip("deepspeed")
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    network = built_in.gpt(512, 12, 12, 768)
    count = network.trained
    for ranks in (2, 8, 64):
        found = {}
        for stage in (2, 3):
            setup = Setup("deepspeed", data=ranks, optimizer="adamw", precision="bf16", stage=stage)
            held = states.rank_states(network.parts, setup)
            found[stage] = held.parameters + held.gradients + held.optimizer + 4 * count / ranks
        _, two = estimate_zero2_model_states_mem_needs(count, 1, ranks, cpu_offload=False)
        assert found[2] == pytest.approx(two, rel=1e-4)
        _, three, largest = estimate_zero3_model_states_mem_needs(
            count, 768 * 3072, 1, ranks, cpu_offload=False, cpu_offload_params=False
        )
        assert found[3] == pytest.approx(three - largest + 2 * count / ranks, rel=1e-4)
