"""Weights of Keras models by name: which match, which are new, and which are not trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wsshards.errors import UserError
from wstrain.checkpoint import checkpoint_folder
from wstrain.checkpoint.checkpoint_folder import Retention
from wstrain_tensorflow.fine_tuning import freeze_weights, load_weights, read_weight_files
from wstrain_tensorflow.model_weights import name_state, name_weights


class Variable:
    def __init__(self, path: str, shape: Sequence[int], trainable: bool = True) -> None:
        self.path, self.shape, self.trainable = path, tuple(shape), trainable
        self.value: Any = None

    def assign(self, value: Any) -> None:
        self.value = value


class Layer:
    def __init__(self, weights: list[Variable]) -> None:
        self.weights = weights

    @property
    def trainable_variables(self) -> list[Variable]:
        return [variable for variable in self.weights if variable.trainable]

    @property
    def non_trainable_weights(self) -> list[Variable]:
        return [variable for variable in self.weights if not variable.trainable]

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "trainable":
            for variable in self.weights:
                variable.trainable = value
        object.__setattr__(self, name, value)


class Model(Layer):
    name = "net"

    def __init__(self, classes: int = 3) -> None:
        self.layers = [
            Layer([Variable("net/dense/kernel", (4, 8)), Variable("net/dense/bias", (8,))]),
            Layer([Variable("net/norm/gamma", (8,)), Variable("net/norm/moving_mean", (8,), False)]),
            Layer([Variable("net/dense_1/kernel", (8, classes)), Variable("net/dense_1/bias", (classes,))]),
        ]
        super().__init__([variable for layer in self.layers for variable in layer.weights])

    def _flatten_layers(self, include_self: bool = True) -> list[Layer]:
        assert not include_self
        return self.layers


def arrays(model: Model) -> dict[str, Any]:
    return {name: np.zeros(variable.shape, np.float32) for name, variable in name_weights(model).items()}


def test_weights_are_named_without_the_model_and_in_the_order_of_a_checkpoint() -> None:
    model = Model()
    model.weights.append(Variable("net/dense/kernel", (1,)))
    assert list(name_weights(model))[::6] == ["dense/kernel", "dense/kernel#2"]
    assert name_state(Model())["kept"] == ["norm/moving_mean"]
    assert name_state(Model())["model"][-1] == "dense_1/bias"


def test_a_last_layer_of_another_width_starts_anew() -> None:
    model = Model(5)
    said = load_weights(model, arrays(Model(3)), "SavedModel program")
    assert said == (
        "initial weights: SavedModel program, but the last layer is new:"
        " dense_1/bias [5] ([3] there), dense_1/kernel [8, 5] ([8, 3] there)"
    )
    filled = [name for name, variable in name_weights(model).items() if variable.value is not None]
    assert filled == ["dense/kernel", "dense/bias", "norm/gamma", "norm/moving_mean"]
    assert load_weights(Model(), arrays(Model()), "x") == "initial weights: all of x"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dense/kernel": np.zeros((6, 8))}, r"`dense/kernel` has shape \[6, 8\] there and \[4, 8\] here"),
        ({"norm/gamma": None}, r"`norm/gamma` \[8\] is missing there"),
        (dict.fromkeys(name_weights(Model())), "no parameter of the model has a name of `initial_model`"),
    ],
)  # fmt: skip
def test_other_differences_are_refused(changes: dict[str, Any], message: str) -> None:
    weights = {**arrays(Model()), **changes, "other": np.zeros(1)}
    weights = {name: array for name, array in weights.items() if array is not None}
    model = Model()
    with pytest.raises(UserError, match=message):
        load_weights(model, weights, "x")
    assert all(variable.value is None for variable in model.weights)


@pytest.mark.parametrize(
    ("patterns", "frozen"),
    [
        (["dense"], {"dense/kernel", "dense/bias"}),
        (["dense/kernel", "norm"], {"dense/kernel", "norm/gamma"}),
        (["*/bias"], {"dense/bias", "dense_1/bias"}),
    ],
)
def test_frozen_weights_are_not_trained(patterns: list[str], frozen: set[str]) -> None:
    model = Model()
    assert freeze_weights(model, patterns) == frozen
    left = {name for name, variable in name_weights(model).items() if variable.trainable}
    assert left == set(name_weights(model)) - frozen - {"norm/moving_mean"}
    assert getattr(model.layers[1], "trainable", True) is ("norm" not in patterns)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("dense_2", "`dense_2` in `freeze` matches no parameter"),
        ("norm/moving_mean", "`norm/moving_mean` in `freeze` matches no parameter"),
        ("*", r"`freeze` leaves nothing to train: `\*` match all 5 tensors"),
    ],
)
def test_patterns_of_nothing_or_all_are_refused(pattern: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        freeze_weights(Model(), [pattern])
    assert "dense_1/kernel" in str(caught.value.help) or pattern == "*" or "norm/gamma" in caught.value.help


def write_checkpoint(folder: Path, step: int, file: str, **about: Any) -> None:
    temporary = checkpoint_folder.begin_checkpoint(folder, step)
    np.savez(temporary / "written.npz", **{"model/0": np.full(2, step), "kept/0": np.full(3, step)})
    (temporary / "written.npz").rename(temporary / file)
    with (temporary / "copy").open("wb") as copy:
        hashed = checkpoint_folder.HashedFile(copy)
        hashed.write((temporary / file).read_bytes())
    (temporary / "copy").unlink()
    card = {"identity": {}, **about}
    checkpoint_folder.finish_checkpoint(
        temporary, {file: hashed.size_and_hash()}, card, keep=Retention(newest=5)
    )


def test_the_best_checkpoint_counts_else_the_newest(tmp_path: Path) -> None:
    names = {"names": {"model": ["dense/kernel"], "kept": ["norm/moving_mean"]}}
    for step in (1, 2):
        write_checkpoint(tmp_path, step, "state.npz", **names)
    weights, source = read_weight_files(tmp_path)
    assert source == "checkpoint step-00000002"
    assert {name: array.tolist() for name, array in weights.items()} == {
        "dense/kernel": [2, 2],
        "norm/moving_mean": [2, 2, 2],
    }
    write_checkpoint(tmp_path, 3, "state.npz", validation={"best_step": 1}, **names)
    assert read_weight_files(tmp_path)[1] == "checkpoint step-00000001"
    assert read_weight_files(tmp_path / "step-00000003")[1] == "checkpoint step-00000003"


def test_what_pytorch_wrote_is_refused_by_its_name(tmp_path: Path) -> None:
    model, checkpoints = tmp_path / "model", tmp_path / "checkpoints"
    (model / "artifacts").mkdir(parents=True)
    (model / "artifacts" / "program.pt2").write_bytes(b"")
    with pytest.raises(UserError, match=r"PyTorch wrote `program.pt2` of `initial_model`"):
        read_weight_files(model)
    write_checkpoint(checkpoints, 4, "state.pt")
    with pytest.raises(UserError, match="PyTorch wrote checkpoint `step-00000004`"):
        read_weight_files(checkpoints)


def test_folders_without_one_set_of_named_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no weights of TensorFlow in it"):
        read_weight_files(tmp_path)
    write_checkpoint(tmp_path / "old", 4, "state.npz")
    assert json.loads((tmp_path / "old" / "step-00000004" / "checkpoint.json").read_text())["step"] == 4
    with pytest.raises(UserError, match="has no names of weights: an earlier version wrote it"):
        read_weight_files(tmp_path / "old")
    for name in "ab":
        (tmp_path / "two" / name).mkdir(parents=True)
        (tmp_path / "two" / name / "saved_model.pb").write_bytes(b"")
    with pytest.raises(UserError, match="`initial_model` has 2 SavedModels: `a`, `b`"):
        read_weight_files(tmp_path / "two")
