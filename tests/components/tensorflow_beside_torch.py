"""Our Keras models and optimizers beside PyTorch's, in one process: prints how far they are apart."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import Any

os.environ["KERAS_BACKEND"], os.environ["CUDA_VISIBLE_DEVICES"] = "tensorflow", ""

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import torch  # noqa: E402

from wsshards import manifest as m  # noqa: E402
from wsshards import terms  # noqa: E402
from wstrain.data.sample_spec import SampleSpec  # noqa: E402
from wstrain.settings import OptimizerOptions  # noqa: E402
from wstrain_tensorflow import task  # noqa: E402
from wstrain_tensorflow.data import prepare_rows  # noqa: E402
from wstrain_tensorflow.models import Models  # noqa: E402
from wstrain_tensorflow.optimizers import Optimizer, clip_gradients  # noqa: E402
from wstrain_torch import models as torch_models  # noqa: E402
from wstrain_torch import optimizers  # noqa: E402
from wstrain_torch.data import make_task  # noqa: E402

SIZES = {"gpt_layers": 2, "gpt_heads": 2, "gpt_width": 16}
SETTINGS = {"sync_batch_norm": False, "initial_model": None, "freeze": ""}


def copied(theirs: torch.nn.Module, ours: Any) -> None:
    """Give the Keras model the weights of the PyTorch model; both list them in one order."""
    values = [value.detach().numpy() for value in theirs.parameters() if value.requires_grad]
    assert len(values) == len(ours.trainable_variables), (len(values), len(ours.trainable_variables))
    left = list(ours.trainable_variables)
    for value in values:
        # A convolution's, else a linear layer's, else any other.
        forms = [value.transpose(2, 3, 1, 0)] if value.ndim == 4 else [value.T, value]
        variable = next(each for each in left if any(tuple(each.shape) == form.shape for form in forms))
        variable.assign(next(form for form in forms if form.shape == tuple(variable.shape)))
        left = [each for each in left if each is not variable]


def model(name: str, shape: tuple[int, ...], kind: str) -> float:
    """The largest difference of scores."""
    torch.manual_seed(1)
    generator = np.random.default_rng(0)
    text = kind == "language_model"
    rows = generator.integers(0, 256, (4, *shape)) if text else generator.normal(size=(4, *shape))
    its = make_task(kind, (shape[0] + 1,) if text else shape, "uint8" if text else "float32", 10)
    options = torch_models.ModelOptions(**SIZES)
    sample = None if text else generator.normal(2, 3, (50, *shape)).astype(np.float32)
    theirs = torch_models.build_model(name, its, options, sample=None if text else torch.from_numpy(sample))
    settings: Any = SimpleNamespace(model=name, seed=0, **SETTINGS, **SIZES)
    samples = SampleSpec(its.name, its.input_shape, its.input_dtype, its.outputs, its.tokenizer)
    ours = Models(settings, samples, sample).make()
    copied(theirs, ours)
    given = rows.astype(np.int64 if text else np.float32)
    with torch.no_grad():
        expected = theirs.eval()(torch.from_numpy(given)).numpy()
    return float(np.abs(ours(tf.constant(given), training=False).numpy() - expected).max())


def optimizer(name: str, decay: float) -> float:
    """The largest difference of weights after some steps with clipping and a changing rate."""
    generator = np.random.default_rng(0)
    start = [generator.normal(size=(3, 4)).astype(np.float32), generator.normal(size=4).astype(np.float32)]
    module = torch.nn.ParameterList([torch.nn.Parameter(torch.from_numpy(each.copy())) for each in start])
    theirs = optimizers.build_optimizer(module, OptimizerOptions(name, weight_decay=decay), learning_rate=0.1)
    strategy = tf.distribute.get_strategy()
    variables = [tf.Variable(each) for each in start]
    ours = Optimizer(OptimizerOptions(name, weight_decay=decay), variables, strategy)

    @tf.function
    def step(gradients: list[Any], rate: Any, count: Any) -> None:
        ours.apply(clip_gradients(gradients, 2.0), rate, count)

    for count in range(1, 8):
        gradients = [generator.normal(size=each.shape).astype(np.float32) for each in start]
        for parameter, gradient in zip(module, gradients, strict=True):
            parameter.grad = torch.from_numpy(gradient)
        torch.nn.utils.clip_grad_norm_(module.parameters(), 2.0)
        theirs.param_groups[0]["lr"] = theirs.param_groups[1]["lr"] = 0.1 / count
        theirs.step()
        step([tf.constant(each) for each in gradients], tf.constant(0.1 / count), tf.constant(float(count)))
    pairs = zip(module, variables, strict=True)
    return max(float(np.abs(one.detach().numpy() - other.numpy()).max()) for one, other in pairs)


COLUMNS = (
    m.Column("size", mean=(2.0,), optional=True),
    m.Column("new", "boolean"),
    m.Column("town", "category", ("Bergen", "Oslo", "Voss"), optional=True),
    m.Column("sold", "date", mean=(18_500.0, 40_000.0), optional=True),
)
ROWS = [
    [0.5, 1, 2, 18_262, 0],
    [np.nan, 0, -1, 18_999, 86_399],
    [3e4, 1, np.nan, np.nan, np.nan],
    [-1.5, 0, 0, 0, 43_200],
]


def table() -> float:
    """The largest difference of encoded rows."""
    its = make_task(terms.REGRESSION, (5,), "float32", 1, columns=COLUMNS)
    rows = np.array(ROWS, np.float32)
    ours = task.encode_inputs(its, rows).numpy()
    assert ours.shape == (4, *its.input_shape)
    return float(np.abs(ours - its.inputs(rows).numpy()).max())


def losses(name: str) -> float:
    """The largest difference of the loss and of predictions, as a share of their size."""
    generator = np.random.default_rng(0)
    more: dict[str, Any] = {"target_mean": (5.0, 1e3, 0.0), "target_deviation": (2.0, 1e2, 1.0)}
    shape, labels = (4,), generator.normal(size=(6, 3)) * 50
    features = generator.normal(size=(6, 4)).astype(np.float32)
    if name == terms.LANGUAGE_MODEL:
        more = {"tokenizer": m.Tokenizer("bpe", 3, padding=0)}
        features = generator.integers(0, 3, (6, 4)).astype(np.int32)
    elif name != terms.REGRESSION:
        more = {}
        labels = generator.integers(0, 2, (6, 3), dtype=np.uint8)
    its = make_task(name, shape, str(features.dtype), 3, **more)
    scores = generator.normal(size=(6, 3, 3) if name == terms.LANGUAGE_MODEL else (6, 3)).astype(np.float32)
    _, wanted = its.prepare(features, labels)
    _, targets = prepare_rows(its, features, labels)
    theirs = [its.loss(torch.from_numpy(scores), wanted), its.predictions(torch.from_numpy(scores))]
    ours = [task.compute_loss(its, scores, targets), task.make_predictions(its, scores)]
    return max(
        float(np.abs(one.numpy() / other.numpy() - 1).max()) for one, other in zip(theirs, ours, strict=True)
    )


def text_classifier() -> float:
    """The largest difference of scores of texts of different lengths."""
    torch.manual_seed(1)
    tokens = np.random.default_rng(0).integers(1, 9, (3, 8)).astype(np.int32)
    tokens[0, 5:] = tokens[1, 2:] = 0
    its = make_task(terms.CLASSIFICATION, (8,), "int32", 4, tokenizer=m.Tokenizer("bpe", 9, padding=0))
    theirs = torch_models.build_model("gpt", its, torch_models.ModelOptions(**SIZES), sample=None)
    ours = Models(SimpleNamespace(model="gpt", seed=0, **SETTINGS, **SIZES), its, None).make()
    copied(theirs, ours)
    with torch.no_grad():
        expected = theirs.eval()(its.inputs(tokens)).numpy()
    return float(np.abs(ours(task.encode_inputs(its, tokens), training=False).numpy() - expected).max())


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    found = {
        "mlp": model("mlp", (7,), "classification"),
        "mlp of numbers": model("mlp", (7,), "regression"),
        "cnn of digits": model("cnn", (1, 8, 8), "classification"),
        "cnn of uneven pictures": model("cnn", (3, 13, 21), "classification"),
        "gpt": model("gpt", (12,), "language_model"),
        "text classifier": text_classifier(),
        "columns of a table": table(),
        **{
            f"loss of {name}": losses(name)
            for name in (terms.REGRESSION, terms.MULTI_LABEL, terms.LANGUAGE_MODEL)
        },
        **{
            f"{name} {decay}": optimizer(name, decay)
            for name in ("sgd", "adam", "adamw")
            for decay in (0.0, 0.3)
        },
    }
    print(json.dumps(found))
