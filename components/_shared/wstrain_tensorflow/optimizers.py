"""Optimizers by name, with hyper-parameters that mean the same as in ``wstrain_torch.optimizers``.

Keras' own differ: its momentum holds the rate within the velocity, its epsilon stands before the bias
correction, and its weight decay acts on all variables. TensorFlow's kernels, one for each variable, do the
arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from wstrain.settings import OptimizerOptions

_SLOTS = {"sgd": ("momentum",), "adam": ("first", "second"), "adamw": ("first", "second")}
AVERAGE = "ema"


class Optimizer:
    """Updates the variables of a strategy.

    Args:
        options: which optimizer, with its settings.
        variables: that are trained.
        strategy: owns the variables, and the optimizer's state.
        ema_decay: of a moving average of the variables in one step, which is the slot ``ema``; 0 for none.
    """

    def __init__(
        self, options: OptimizerOptions, variables: Sequence[Any], strategy: Any, ema_decay: float = 0.0
    ) -> None:
        self._options, self._variables, self._strategy = options, list(variables), strategy
        self._ema_decay = ema_decay
        names = (*_SLOTS[options.name], *((AVERAGE,) if ema_decay else ()))
        self.slots: dict[str, list[Any]] = {name: [] for name in names}
        with strategy.scope():
            for name, slot in self.slots.items():
                for variable in variables:
                    zeros = tf.zeros(variable.shape, variable.dtype)
                    slot.append(tf.Variable(zeros, trainable=False, name=name))

    def apply(self, gradients: Sequence[Any], learning_rate: Any, count: Any) -> None:
        """Update the variables; called in the strategy's cross-replica context.

        Args:
            gradients: one a variable, dense, the same in every replica.
            learning_rate: 0-d float32.
            count: number of this update, from 1; 0-d float32.
        """
        slots = zip(*(self.slots[name] for name in _SLOTS[self._options.name]), strict=True)
        for variable, gradient, state in zip(self._variables, gradients, slots, strict=True):
            self._strategy.extended.update(
                variable,
                partial(_sgd if self._options.name == "sgd" else _adam, self._options),
                args=(gradient, learning_rate, count, *state),
                group=False,
            )
        for variable, average in zip(self._variables, self.slots.get(AVERAGE, ()), strict=False):
            update = partial(_average, self._ema_decay)
            self._strategy.extended.update(variable, update, args=(average, count), group=False)


def _average(decay: float, variable: Any, average: Any, count: Any) -> Any:
    # With the warm-up of wstrain_torch.weight_average, so that the first average is the first weights.
    decay = tf.minimum(decay, (count - 1.0) / (count + 8.0))
    return average.assign(decay * average.read_value() + (1.0 - decay) * variable.read_value())


def clip_gradients(gradients: Sequence[Any], max_norm: float) -> list[Any]:
    """Scale gradients down so that together they are at most ``max_norm`` long (Pascanu et al. 2013)."""
    if not max_norm:
        return list(gradients)
    factor = tf.minimum(max_norm / (tf.linalg.global_norm(gradients) + 1e-6), 1.0)
    return [gradient * factor for gradient in gradients]


def _decay(variable: Any, options: OptimizerOptions) -> float:
    # On weights of two or more dimensions only, as in wstrain_torch.optimizers.
    return options.weight_decay if variable.shape.rank >= 2 else 0.0


def _sgd(options: OptimizerOptions, variable: Any, gradient: Any, rate: Any, count: Any, *slots: Any) -> Any:
    del count
    # v = μ·v + g and w = w − η·v, as PyTorch has it (Sutskever et al. 2013 with the rate outside).
    if decay := _decay(variable, options):
        gradient = gradient + decay * variable.read_value()
    return tf.raw_ops.ResourceApplyMomentum(
        var=variable.handle,
        accum=slots[0].handle,
        lr=rate,
        grad=gradient,
        momentum=tf.constant(options.momentum, gradient.dtype),
        use_locking=True,
    )


def _adam(
    options: OptimizerOptions, variable: Any, gradient: Any, rate: Any, count: Any, *moments: Any
) -> Any:
    first, second = moments
    # Kingma and Ba 2015, algorithm 1. The kernel computes w − η·√(1−β₂ᵗ)/(1−β₁ᵗ)·m/(√v + ε̂), which is
    # algorithm 1 with ε̂ = ε·√(1−β₂ᵗ).
    if decay := _decay(variable, options):
        if options.name == "adamw":  # decoupled (Loshchilov and Hutter 2019)
            variable.assign_sub(rate * decay * variable.read_value(), use_locking=True)
        else:
            gradient = gradient + decay * variable.read_value()
    power1, power2 = tf.pow(options.beta1, count), tf.pow(options.beta2, count)
    return tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=first.handle,
        v=second.handle,
        beta1_power=power1,
        beta2_power=power2,
        lr=rate,
        beta1=tf.constant(options.beta1, gradient.dtype),
        beta2=tf.constant(options.beta2, gradient.dtype),
        epsilon=options.epsilon * tf.sqrt(1.0 - power2),
        grad=gradient,
        use_locking=True,
    )
