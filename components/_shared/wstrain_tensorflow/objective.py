"""The loss of a micro-batch and its gradients, in one replica."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from wstrain_tensorflow.network import Network


def loss_and_gradients(
    network: Network, inputs: Any, targets: Any, seed: Any, scale: Any
) -> tuple[Any, list[Any]]:
    """Mean cross-entropy in nats over samples (and tokens), and its gradients times ``scale``.

    Args:
        network: the model.
        inputs: ``[n, …]``.
        targets: ``[n]``, or ``[n, tokens]`` of a language model.
        seed: of this micro-batch's random numbers, ``[2]`` int64.
        scale: what the loss is multiplied by before differentiating, 0-d float32.
    """
    with tf.GradientTape() as tape:
        values = network.values(tape)
        scores, penalty = network.scores(values, inputs, seed)
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, tf.cast(scores, tf.float32))
        loss = tf.reduce_mean(entropy) + penalty
        scaled = loss * scale
    gradients = tape.gradient(scaled, values, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    # Of an embedding they are rows; all variables are exchanged and updated in the same way.
    return loss, [tf.convert_to_tensor(each) for each in gradients]
