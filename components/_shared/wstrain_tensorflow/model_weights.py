"""The weights of a model of Keras 3 or ``tf-keras``, by names that every copy of the model has."""

from __future__ import annotations

from typing import Any


def is_legacy(model: Any) -> bool:
    """Whether a model was made by ``tf-keras``."""
    return any(kind.__module__.split(".")[0] == "tf_keras" for kind in type(model).__mro__)


def name_weights(model: Any) -> dict[str, Any]:
    """Return all weights of a model of Keras 3 or ``tf-keras`` by name, such as ``dense_1/kernel``.

    The name of the model itself is left out. If two weights have one name, the second gets `#2`.
    """
    named: dict[str, Any] = {}
    own = f"{model.name}/"
    for variable in model.weights:
        path = getattr(variable, "path", None) or variable.name.partition(":")[0]
        base = name = path.removeprefix(own)
        number = 1
        while name in named:
            number += 1
            name = f"{base}#{number}"
        named[name] = variable
    return named


def name_state(model: Any) -> dict[str, list[str]]:
    """Return the names of a model's weights in the order of a checkpoint: ``model`` trained, ``kept`` not."""
    names = {id(variable): name for name, variable in name_weights(model).items()}
    groups = {"model": model.trainable_variables, "kept": model.non_trainable_weights}
    return {kind: [names[id(variable)] for variable in group] for kind, group in groups.items()}
