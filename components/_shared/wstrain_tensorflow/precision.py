"""Mixed precision, after a check that the device has it, and the loss scale of fp16."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from wsshards.errors import UserError

_POLICIES = {"fp32": "float32", "bf16": "mixed_bfloat16", "fp16": "mixed_float16"}
# As torch.amp.GradScaler: halved when a gradient overflows, doubled after this many steps without.
_START, _GROWTH_STEPS = 65536.0, 2000


def set_precision(precision: str, gpus: Sequence[Any]) -> None:
    """Check that the device has a precision, and set up its arithmetic.

    Args:
        precision: ``fp32``, ``bf16`` or ``fp16``.
        gpus: the GPUs of this machine.

    Raises:
        UserError: the device has no such arithmetic.
    """
    if precision == "fp16" and not gpus:
        raise UserError(
            "precision `fp16` needs a GPU: TensorFlow has no fast half precision on CPUs",
            "use `fp32` or `bf16`; `worldsize run --set STEP.precision=fp32` does so for one run",
        )
    if precision == "bf16" and gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        if details.get("compute_capability", (8, 0)) < (8, 0):
            name = details.get("device_name", "this GPU")
            raise UserError(
                f"precision `bf16` needs compute capability 8.0, more than `{name}` has",
                "use `fp16` or `fp32`",
            )
    # No TF32 in fp32: the loss must equal that of one process to 1e-4.
    tf.config.experimental.enable_tensor_float_32_execution(precision != "fp32")


def dtype_policy(precision: str) -> str:
    """Return the name of Keras' dtype policy: what layers compute in; weights and their updates stay fp32."""
    return _POLICIES[precision]


class LossScale:
    """A scale that follows the gradients of fp16, which would vanish (Micikevicius et al. 2018).

    With another precision it is 1, and nothing is checked.

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
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])
        return [gradient / self.value() for gradient in gradients], finite

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
