"""Models by name: the built-in ones in Keras 3, and the user's own, of Keras 3 or ``tf-keras``."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from wsshards.errors import UserError
from wsshards.terms import LANGUAGE_MODEL
from wstrain import user_code
from wstrain.data.sample_spec import SampleSpec
from wstrain.settings import Settings
from wstrain_tensorflow.fine_tuning import FineTuning
from wstrain_tensorflow.model_weights import is_legacy
from wstrain_tensorflow.models import cnn, gpt, mlp
from wstrain_tensorflow.models.layers import Standardise
from wstrain_tensorflow.task import Task, hook_inputs

BUILT_IN: dict[str, Callable[[SampleSpec, Any, Any], Any]] = {
    "mlp": mlp.build_model,
    "cnn": cnn.build_model,
    "gpt": gpt.build_model,
}


class Models:
    """Makes the model that ``settings`` name, any number of times and always with the same weights.

    Args:
        settings: the component's inputs.
        samples: inputs and outputs of the model.
        sample: training rows as the model gets them, for its input scale; None for tokens.

    Raises:
        UserError: there is no such model, or the user's file has no such function, or `initial_model` cannot
            be read.
    """

    def __init__(self, settings: Settings, samples: Task, sample: np.ndarray[Any, Any] | None) -> None:
        self._settings, self._samples, self._sample = settings, samples, sample
        self.tuning = FineTuning(settings)
        self._function: Callable[..., Any] | None = None
        if user_code.is_reference(settings.model):
            self._function = user_code.load_function(settings.model)
        elif settings.model not in BUILT_IN:
            raise user_code.unknown_model_error(settings.model, BUILT_IN)

    def make(self, policy: str = "float32") -> Any:
        """Return a model whose layers compute with a dtype policy of Keras.

        Raises:
            UserError: the model does not fit the shards or `initial_model`, or the user's function fails.
        """
        _restart_names()
        # The same initial weights in every process, at any number of them.
        keras.utils.set_random_seed(self._settings.seed % 2**32)
        keras.config.set_dtype_policy(policy)
        legacy = sys.modules.get("tf_keras")
        if legacy is not None:
            legacy.mixed_precision.set_global_policy(policy)
        model = self._own() if self._function else self._built_in()
        if self._settings.sync_batch_norm:
            for layer in _batch_norms(model):
                layer.synchronized = True
        self.tuning.apply(model)
        return model

    def warn(self, model: Any) -> None:
        """Warn if the loss of this model depends on the number of replicas."""
        if not self._settings.sync_batch_norm and any(True for _ in _batch_norms(model)):
            warnings.warn(
                "the model has batch normalisation: its statistics are of one replica, so the"
                " loss depends on the world size; use group or layer norms, or `sync_batch_norm: true`",
                stacklevel=2,
            )

    def _built_in(self) -> Any:
        samples, name = self._samples, self._settings.model
        if samples.reads_tokens and name != "gpt":
            raise UserError(f"model `{name}` takes numbers, and the shards hold tokens of text", "use `gpt`")
        shape = (None,) if samples.name == LANGUAGE_MODEL else samples.input_shape
        inputs = keras.Input(shape, dtype="int32" if samples.reads_tokens else "float32")
        x = inputs
        if self._sample is not None:
            x = Standardise(self._sample, samples.encoding.scaled if samples.encoding else ())(inputs)
        scores = BUILT_IN[name](samples, x, self._settings)
        return keras.Model(inputs, scores)

    def _own(self) -> Any:
        samples, reference = self._samples, self._settings.model
        assert self._function is not None
        model = user_code.call_for_model(self._function, samples, reference)
        if not isinstance(model, keras.Model) and not is_legacy(model):
            raise UserError(f"`{reference}` returned `{type(model).__name__}`, not a Keras model")
        # Fails now rather than in the first step of every worker; also creates the variables of a lazy model.
        dtype = tf.int32 if samples.reads_tokens else tf.float32
        zeros = hook_inputs(samples, tf.zeros([2, *samples.input_shape], dtype))
        user_code.expect_outputs(lambda: model(zeros, training=False), samples, reference)
        return model


def _restart_names() -> None:
    """Let the next model have the names of the first one: Keras counts layers over the whole process."""
    if not tf.distribute.has_strategy():
        keras.backend.clear_session(free_memory=False)
    legacy = sys.modules.get("tf_keras")
    if legacy is not None:
        legacy.backend.reset_uids()


def _batch_norms(model: Any) -> Any:
    layers = getattr(model, "_flatten_layers", None)
    every = layers() if layers else model.layers
    return (layer for layer in every if type(layer).__name__.startswith("BatchNormalization"))
