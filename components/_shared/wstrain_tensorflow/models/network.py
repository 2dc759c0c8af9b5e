"""A Keras model for the training loop: the strategy's variables, and scores as a function of them.

A Keras 3 model stays a template outside the strategy: ``stateless_call`` takes all its variables as
tensors, so the strategy's variables are ours, and the states of its random generators are inputs. So dropout
can depend on a sample's position in the global batch and not on the replica that computes it. A ``tf-keras``
model has no such call: it is made within the strategy and used directly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import tensorflow as tf

from wstrain_tensorflow.model_weights import name_weights
from wstrain_tensorflow.task import Task, compute_loss, encode_inputs

ModelFactory = Callable[[], Any]
_STEP = 0x9E3779B9  # between the seeds of two generators of one model


class Network(Protocol):
    """A model in training."""

    trained: list[Any]
    """Variables that gradients are taken for."""

    kept: list[Any]
    """Variables that the forward pass itself changes, such as moving averages, each replica its own."""

    def values(self, tape: Any) -> list[Any]:
        """The trained values in this replica, watched by ``tape``."""

    def scores(self, values: Sequence[Any], inputs: Any, seed: Any) -> tuple[Any, Any]:
        """Scores ``[n, …, outputs]`` and the sum of the model's own penalties, in training."""


class FunctionalNetwork:
    """A Keras 3 model.

    Args:
        model: built outside the strategy.
        strategy: owns the variables.
        frozen: names of weights that nothing changes.
    """

    def __init__(self, model: Any, strategy: Any, frozen: Collection[str] = ()) -> None:
        self._model = model
        named = name_weights(model)
        constant = {id(named[name]) for name in frozen}
        weights = {id(variable) for variable in model.non_trainable_weights}
        self._is_seed = [id(variable) not in weights for variable in model.non_trainable_variables]
        with strategy.scope():
            self.trained = [
                _variable(variable.numpy(), variable.path) for variable in model.trainable_variables
            ]
            self.kept = [
                # The mean of copies, which a local one reads as, may round.
                _variable(variable.numpy(), variable.path, trainable=False)
                if id(variable) in constant
                else local_copy(variable.numpy(), variable.path)
                for variable in model.non_trainable_weights
            ]

    def values(self, tape: Any) -> list[Any]:
        """Read the variables."""
        read = [tf.convert_to_tensor(variable) for variable in self.trained]
        tape.watch(read)
        return read

    def scores(self, values: Sequence[Any], inputs: Any, seed: Any) -> tuple[Any, Any]:
        """Call the model on them; ``seed`` is ``[2]`` int64."""
        fixed, kept = [], iter([tf.convert_to_tensor(variable) for variable in self.kept])
        for number, is_seed in enumerate(self._is_seed):
            fixed.append(self._seed(number, seed) if is_seed else next(kept))
        scores, after, penalties = self._model.stateless_call(
            list(values), fixed, inputs, training=True, return_losses=True
        )
        changed = zip(self._is_seed, fixed, after, strict=True)
        for variable, (old, new) in zip(
            self.kept, [(old, new) for is_seed, old, new in changed if not is_seed], strict=True
        ):
            if new is not old:
                variable.assign(new)
        return scores, _sum(penalties)

    def _seed(self, number: int, seed: Any) -> Any:
        dtype = self._model.non_trainable_variables[number].dtype
        return tf.cast(tf.math.floormod(seed + number * _STEP, 1 << 31), dtype)


class LegacyNetwork:
    """A ``tf-keras`` model, made within the strategy."""

    def __init__(self, make: ModelFactory, strategy: Any) -> None:
        with strategy.scope():
            self._model = make()
        self.trained = list(self._model.trainable_variables)
        self.kept = list(self._model.non_trainable_variables)

    def values(self, tape: Any) -> list[Any]:
        """The variables themselves, which a tape watches when they are read."""
        del tape
        return self.trained

    def scores(self, values: Sequence[Any], inputs: Any, seed: Any) -> tuple[Any, Any]:
        """Call the model."""
        del values, seed
        scores = self._model(inputs, training=True)
        return scores, _sum(self._model.losses)


def local_copy(value: Any, name: str = "kept") -> Any:
    """Return a variable with a value in every replica; outside of replicas it reads as their mean."""
    is_integer = not tf.as_dtype(value.dtype).is_floating
    mean = tf.VariableAggregation.ONLY_FIRST_REPLICA if is_integer else tf.VariableAggregation.MEAN
    return tf.Variable(
        value,
        trainable=False,
        name=_name(name),
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=mean,
    )


def _variable(value: Any, name: str, *, trainable: bool = True) -> Any:
    return tf.Variable(value, trainable=trainable, name=_name(name))


def _name(path: str) -> str:
    return path.replace("/", "_").replace(":", "_")


def _sum(penalties: Sequence[Any]) -> Any:
    return tf.add_n([tf.cast(term, tf.float32) for term in penalties]) if penalties else tf.constant(0.0)


def loss_and_gradients(
    network: Network, samples: Task, inputs: Any, targets: Any, seed: Any, *, scale: Any
) -> tuple[Any, list[Any]]:
    """Return the mean loss over samples (and tokens), and its gradients times ``scale``.

    Args:
        network: the model.
        samples: inputs and outputs of the model.
        inputs: as stored, ``[n, …]``.
        targets: from :func:`wstrain_tensorflow.data.prepare_rows`.
        seed: of this micro-batch's random numbers, ``[2]`` int64.
        scale: what the loss is multiplied by before differentiating, 0-d float32.
    """
    with tf.GradientTape() as tape:
        values = network.values(tape)
        scores, penalty = network.scores(values, encode_inputs(samples, inputs, seed), seed)
        loss = compute_loss(samples, scores, targets) + penalty
        scaled = loss * scale
    gradients = tape.gradient(scaled, values, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    # Of an embedding they are rows; all variables are exchanged and updated in the same way.
    return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]
