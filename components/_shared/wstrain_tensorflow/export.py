"""The trained model as an MLflow model that loads with TensorFlow alone.

The network becomes a SavedModel: weights and operations, no reference to Python classes, to Keras or to a
strategy. The leader makes it from a copy of the model outside the strategy, so only the leader writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from wsshards.errors import UserError, describe_error
from wsshards.terms import LANGUAGE_MODEL
from wstrain.data.sample_spec import SampleSpec
from wstrain_tensorflow.model_weights import is_legacy, name_weights
from wstrain_tensorflow.task import Task, encode_inputs, make_predictions

LOADING_CODE = Path(__file__).with_name("pyfunc_model.py")


class Program(tf.Module):  # type: ignore[misc]
    """The network with the stored type coming in, and what a caller wants coming out.

    Raises:
        UserError: the model cannot be traced for batches of any size.
    """

    def __init__(self, model: Any, samples: Task) -> None:
        super().__init__()
        shape = [None, None] if samples.name == LANGUAGE_MODEL else [None, *samples.row_shape]

        def answer(x: Any) -> dict[str, Any]:
            scores = model(encode_inputs(samples, x), training=False)
            return {"answers": make_predictions(samples, scores)}

        spec = tf.TensorSpec(shape, samples.input_dtype, name="rows")
        self.answer = tf.function(answer, input_signature=[spec])
        try:
            # Held directly, so that the SavedModel has the variables and nothing of Keras.
            used = self.answer.get_concrete_function().graph.variables
        except Exception as error:
            raise UserError(
                f"the model cannot be traced by TensorFlow: {describe_error(error, 110)}",
                "its call must be plain tensor operations for any batch size",
            ) from error
        # By name, for a training that starts from them.
        self.weights = {
            name: variable if is_legacy(model) else variable.value
            for name, variable in name_weights(model).items()
        }
        known = {id(variable) for variable in self.weights.values()}
        self.others = [variable for variable in used if id(variable) not in known]


def save_model(
    program: Program,
    samples: SampleSpec,
    folder: Path,
    facts: Mapping[str, Any],
    shards: Path | None = None,
) -> None:
    """Write the MLflow model into ``folder``.

    Args:
        program: the trained network.
        samples: what it was trained on.
        folder: the ``model`` output; files of an earlier attempt in it are replaced.
        facts: plan and final metrics, kept as ``metadata: {worldsize: …}``.
        shards: the folder that has the tokenizer of texts.

    Raises:
        UserError: the folder cannot be written.
    """

    def write(path: Path) -> None:
        try:
            tf.saved_model.save(program, str(path), signatures={"serving_default": program.answer})
        except tf.errors.OpError as error:  # a full disk, among others
            raise OSError(str(error.message).splitlines()[0]) from error

    from wstrain import export  # MLflow takes seconds to import, and one worker saves

    export.save_mlflow_model(
        write,
        LOADING_CODE,
        samples,
        folder,
        artefact="program",
        requirements=[f"tensorflow=={tf.__version__}"],
        facts=facts,
        shards=shards,
    )
