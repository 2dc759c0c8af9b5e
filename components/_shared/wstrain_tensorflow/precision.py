"""Loss scaling for fp16, whose small gradients would vanish (Micikevicius et al. 2018)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

# As torch.amp.GradScaler: halved when a gradient overflows, doubled after so many steps without.
_START, _GROWTH_STEPS = 65536.0, 2000


class LossScale:
    """A scale that follows the gradients; without fp16 it is 1 and nothing is checked.

    Args:
        enabled: whether forward passes are in fp16.
        strategy: owns the variables.
    """

    def __init__(self, enabled: bool, strategy: Any) -> None:
        self._enabled = enabled
        with strategy.scope():
            self._scale = tf.Variable(_START if enabled else 1.0, trainable=False, name="loss_scale")
            self._good = tf.Variable(0.0, trainable=False, name="good_steps")
            self._updates = tf.Variable(0.0, trainable=False, name="updates")

    @property
    def variables(self) -> list[Any]:
        """The variables that a checkpoint saves."""
        return [self._scale, self._good, self._updates]

    def value(self) -> Any:
        """The scale, 0-d float32."""
        return tf.convert_to_tensor(self._scale) if self._enabled else tf.constant(1.0)

    def unscale(self, gradients: Sequence[Any]) -> tuple[list[Any], Any]:
        """Divide exchanged gradients by the scale; also whether none overflowed, 0-d bool."""
        if not self._enabled:
            return list(gradients), tf.constant(True)
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(each)) for each in gradients])
        return [each / self.value() for each in gradients], finite

    def update(self, finite: Any, apply: Callable[[Any], None]) -> None:
        """Update the variables unless gradients overflowed; called in the cross-replica context.

        Args:
            finite: from :meth:`unscale`.
            apply: gets the number of this update, from 1.
        """

        def good() -> Any:
            self._updates.assign_add(1.0)
            apply(tf.convert_to_tensor(self._updates))
            if self._enabled:
                steps = tf.convert_to_tensor(self._good) + 1.0
                grown = steps >= _GROWTH_STEPS
                self._good.assign(tf.where(grown, 0.0, steps))
                self._scale.assign(self.value() * tf.where(grown, 2.0, 1.0))
            return tf.constant(True)

        def overflowed() -> Any:
            self._good.assign(0.0)
            self._scale.assign(self.value() * 0.5)
            return tf.constant(False)

        if self._enabled:
            tf.cond(finite, good, overflowed)
        else:
            good()
