"""Hooks and training options in real process groups: the same curve at any world size and after resuming."""

from __future__ import annotations

import importlib.util
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wsshards.errors import UserError
from wsshards.reader import ShardReader

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.timeout(400)]

FOLDER = Path(__file__).parent
write_blobs = runpy.run_path(str(FOLDER / "shard_folders.py"))["write_blobs"]
VALIDATION = runpy.run_path(str(FOLDER / "test_train_validation.py"))
validations, predict = VALIDATION["validations"], VALIDATION["predict"]
Training = Callable[..., Any]
PLAN = {"batch_size_per_device": 8, "global_batch_size": 32, "epochs": 4}


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("blobs") / "shards"
    write_blobs(folder)
    return folder


EVERYTHING = {"model": "mlp", "optimizer": "lamb", "learning_rate": 0.05, "weight_decay": 0.01}
EVERYTHING |= {"ema_decay": 0.7, "mixup_alpha": 0.4, "label_smoothing": 0.1, "max_gradient_norm": 1.0}
EVERYTHING |= {"lr_schedule": "warmup_stable_decay", "lr_decay_fraction": 0.5, "export": "last"}


@pytest.mark.smoke
def test_all_options_together_walk_the_same_curve_and_resume_exactly(training: Training, blobs: Path) -> None:
    pytest.importorskip("pytorch_optimizer")
    common = PLAN | EVERYTHING | {"shards": blobs}
    alone = training(1, gradient_accumulation_steps=4, **common)
    assert alone.ok, alone.errors
    horovod = {"component": "train_horovod"} if importlib.util.find_spec("horovod") else {}
    first = training(2, gradient_accumulation_steps=2, stop_after_steps=6, **horovod, **common)
    assert first.ok, first.errors
    more = {"resume_from": first.folder / "checkpoints"}
    resumed = training(2, gradient_accumulation_steps=2, **common, **more)
    assert resumed.ok, resumed.errors
    assert sorted(first.losses | resumed.losses) == list(range(1, 17))
    assert first.losses | resumed.losses == pytest.approx(alone.losses, rel=1e-5)
    assert min(resumed.losses.values()) < first.losses[1]
    measured, expected = validations(resumed)[16], validations(alone)[16]
    assert measured == pytest.approx(expected, rel=1e-4)
    # What is exported is what was validated: the average, not the weights of the last step.
    reader = ShardReader(blobs, "validation")
    rows, labels = reader.gather(np.arange(len(reader)))
    for run in (alone, resumed):
        answers = predict(run, rows)
        loss = -np.log(answers[np.arange(len(rows)), labels]).mean()
        assert loss == pytest.approx(measured["validation_loss"], rel=1e-4)
        state = torch.load(run.folder / "checkpoints" / "step-00000016" / "state.pt", weights_only=True)
        slots = state["optimizer"]["state"][0]
        assert slots["ema_updates"] == 16
        assert not torch.allclose(slots["ema"], next(iter(state["model"].values())), rtol=1e-3)


NET = """
import torch
from torch import nn
from torch.nn import functional

calls = []

def build(input_shape, classes):
    layers = [nn.Linear(input_shape[0], 16), nn.Tanh(), nn.Linear(16, classes)]
    model = nn.Sequential(*layers)
    model.blocks = [layers[0]]
    return model

def prepare(inputs, generator):
    inputs = inputs * 2
    if generator is not None:
        inputs = inputs + 0.1 * torch.randn(inputs.shape, generator=generator)
    return inputs

def loss(outputs, targets):
    return functional.cross_entropy(outputs, targets) + 0.01 * outputs.square().mean()

def metrics(outputs, targets):
    assert outputs.shape == (37, 3) and targets.shape == (37,)
    second = outputs.argsort(1)[:, 1]
    return {"second_best": (second == targets).mean()}
"""


def own_code(snapshots: Callable[[str], Path], component: str, folder: Path, source: str = NET) -> Path:
    code = folder / component
    shutil.copytree(snapshots(component), code)
    (code / "mine").mkdir()
    (code / "mine" / "net.py").write_text(source)
    return code


OWN = {"model": "mine/net.py:build", "optimizer": "adamw", "learning_rate": 0.02, "ema_decay": 0.5}
OWN |= {"best_metric": "second_best", "best_metric_goal": "minimize"}


@pytest.mark.smoke
def test_hooks_are_part_of_training_validation_and_export(
    training: Training, blobs: Path, snapshots: Callable[[str], Path], tmp_path: Path
) -> None:
    code = own_code(snapshots, "train_ddp", tmp_path)
    common = PLAN | OWN | {"shards": blobs, "code": code}
    alone = training(1, gradient_accumulation_steps=4, **common)
    assert alone.ok, alone.errors
    group = training(2, gradient_accumulation_steps=2, strategy="fsdp", **common)
    assert group.ok, group.errors
    assert group.losses == pytest.approx(alone.losses, rel=1e-5)
    first, second = validations(alone), validations(group)
    assert sorted(first) == sorted(second) == [4, 8, 12, 16]
    for step, metrics in first.items():
        assert second[step] == pytest.approx(metrics, rel=1e-4), step
    best = min(first, key=lambda step: first[step]["validation_second_best"])
    said = f"exporting the weights of step {best}, the best: validation_second_best"
    assert said in alone.ranks[0].stdout
    reader = ShardReader(blobs, "validation")
    rows, labels = reader.gather(np.arange(len(reader)))
    for run in (alone, group):
        answers = predict(run, rows)
        share = (answers.argsort(1)[:, 1] == labels).mean()
        assert share == pytest.approx(first[best]["validation_second_best"])
    # The user's loss is what is validated, without the noise of `prepare`.
    logits = np.log(answers) - np.log(answers).mean(1, keepdims=True)
    plain = -np.log(answers[np.arange(37), labels]).mean()
    assert second[best]["validation_loss"] > plain + 0.009 * (logits**2).mean()


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("old", "new", "message", "help_"),
    [
        (
            "def loss(outputs, targets):",
            "def loss(outputs):",
            "`loss` in `mine/net.py` cannot be called as `loss(outputs, targets)`",
            "its parameters are `(outputs)`; rename it if it is not meant as a hook",
        ),
        (
            "outputs.square().mean()",
            "outputs.square()",
            "`loss` in `mine/net.py` returned [4, 3], not the mean loss as a tensor without dimensions",
            "end it with `.mean()`",
        ),
        (
            "inputs = inputs * 2",
            "inputs = inputs[:2] * 2",
            "`prepare` in `mine/net.py` returned [2, 6] for 4 samples",
            "its first dimension must be that of the samples",
        ),
        (
            "inputs = inputs * 2",
            "inputs = inputs.nothing",
            "`prepare` in `mine/net.py` raised AttributeError: 'Tensor' object has no attribute 'nothing'",
            "look at net.py, line 15",
        ),
    ],
)
def test_a_wrong_hook_is_refused_at_the_start(
    training: Training,
    blobs: Path,
    snapshots: Callable[[str], Path],
    tmp_path: Path,
    *,
    old: str,
    new: str,
    message: str,
    help_: str,
) -> None:
    code = own_code(snapshots, "train_ddp", tmp_path, NET.replace(old, new))
    run = training(1, shards=blobs, code=code, gradient_accumulation_steps=4, **PLAN, **OWN)
    assert run.ranks[0].status == 2, run.errors
    assert run.ranks[0].stderr.splitlines() == [f"error: {message}", f"help: {help_}"]


def test_compiled_it_walks_the_same_curve(training: Training, blobs: Path) -> None:
    if not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        pytest.skip("there is no C++ compiler")
    common = PLAN | {"shards": blobs, "model": "mlp", "epochs": 1, "learning_rate": 0.05}
    plain = training(1, gradient_accumulation_steps=4, **common)
    env = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCH_LOGS": "recompiles"}
    compiled = training(2, compile=True, gradient_accumulation_steps=2, env=env, **common)
    assert compiled.ok, compiled.errors
    # Rows are left over in an epoch, and it is validated.
    assert not [line for rank in compiled.ranks for line in rank.stderr.splitlines() if "ecompil" in line]
    assert compiled.losses == pytest.approx(plain.losses, rel=1e-5)
    weights, others = (
        torch.load(run.folder / "checkpoints" / "step-00000004" / "state.pt", weights_only=True)["model"]
        for run in (plain, compiled)
    )
    assert list(weights) == list(others)


@pytest.mark.smoke
def test_without_a_compiler_the_model_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    from wstrain_torch.compilation import expect_compiler

    monkeypatch.setenv("CXX", "no-compiler")
    with pytest.raises(
        UserError, match="`compile` needs a C\\+\\+ compiler, and there is none: `no-compiler`"
    ):
        expect_compiler(torch.device("cpu"))


@pytest.mark.smoke
def test_where_it_pays_on_a_gpu_the_model_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    from wstrain.settings import add_automatic_precision, add_compile, parse_settings
    from wstrain_torch.compilation import choose_compile
    from wstrain_torch.precision import choose_precision

    def chosen(device: str, **values: Any) -> bool:
        given = {"shards": "s", "checkpoints": "c", "trained_model": "m", "global_batch_size": 32} | values
        arguments = [part for name, value in given.items() for part in (f"--{name}", str(value))]
        settings = parse_settings(
            arguments, started=1, strategies=("ddp", "pipeline_parallel"),
            options=[add_compile, add_automatic_precision],
        )  # fmt: skip
        assert settings.precision == "auto"
        assert choose_precision(settings.precision, torch.device("cpu")) == "fp32"
        return choose_compile(settings, 1000, torch.device(device))

    monkeypatch.setenv("CC", sys.executable)  # a GPU's compiler
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    slow = {"predicted_samples_per_second": 32 * 1000 / 900}  # a quarter of an hour
    assert chosen("cuda", **slow)
    assert not chosen("cuda", **slow, compile=False)
    assert not chosen("cuda", predicted_samples_per_second=32 * 1000 / 300)
    assert not chosen("cuda", **slow, strategy="pipeline_parallel")
    assert not chosen("cuda", **slow, model="mine/net.py:make")
    assert not chosen("cuda")
    assert not chosen("cpu", **slow)
    assert chosen("cpu", compile=True)
    monkeypatch.setenv("CC", "no-compiler")
    assert not chosen("cuda", **slow)


@pytest.mark.smoke
def test_the_allocator_of_gpus_gets_its_option_by_the_name_that_works() -> None:
    from wstrain_torch.launch.start import let_segments_grow

    old, new, grow = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "expandable_segments:True"
    for version, name in (("2.4.1", old), ("2.9.1+cu128", old), ("2.11.0+cu130", new), ("2.13.0", new)):
        env: dict[str, str] = {}
        let_segments_grow(env, version)
        assert env == {name: grow}
    for name in (old, new):
        env = {name: "max_split_size_mb:128"}
        let_segments_grow(env, "2.13.0")
        assert env == {name: "max_split_size_mb:128"}


@pytest.mark.smoke
def test_lars_and_lamb_scale_the_step_of_a_layer_by_its_weights() -> None:
    pytest.importorskip("pytorch_optimizer")
    from wstrain.settings import OptimizerOptions
    from wstrain_torch.optimizers import build_optimizer

    for name, share in (("lars", 0.001), ("lamb", 1.0)):
        layer = torch.nn.Linear(3, 2)
        optimizer = build_optimizer(layer, OptimizerOptions(name), learning_rate=0.1)
        before = layer.weight.detach().clone()
        (100 * layer(torch.ones(1, 3)).sum()).backward()
        optimizer.step()
        moved = (layer.weight.detach() - before).norm() / before.norm()
        assert moved.item() == pytest.approx(0.1 * share, rel=1e-3)


@pytest.mark.smoke
def test_the_average_of_weights_warms_up_and_can_be_put_in_their_place() -> None:
    from wstrain_torch.weight_average import WeightAverage

    weight = torch.nn.Parameter(torch.tensor([1.0]))
    never = torch.nn.Parameter(torch.tensor([5.0]))
    optimizer = torch.optim.Adam([weight, never])
    average, expected = WeightAverage(optimizer, 0.5), 0.0
    for step in range(1, 20):
        weight.grad = torch.ones(1)
        optimizer.step()
        weight.data.fill_(float(step))
        average.update()
        decay = min(0.5, (step - 1) / (step + 8))
        expected = decay * expected + (1 - decay) * step
    with average.in_place():
        assert weight.item() == pytest.approx(expected)
        assert never.item() == 5.0
    assert weight.item() == 19.0
    assert not optimizer.state[never]  # Adam makes a state only where there is none
