"""Exchange the states of metrics between workers, whose connections carry JSON of a limited size."""

from __future__ import annotations

import base64
import io
import pickle
import sys
from typing import Any, ClassVar

from wstrain_tensorflow.launch.rendezvous import MAX_MESSAGE_BYTES, Rendezvous


def gather_states(rendezvous: Rendezvous, state: Any) -> list[Any]:
    """Return the states of metrics of all workers; called by all."""
    text = base64.b64encode(pickle.dumps(state)).decode()
    lengths = rendezvous.gather(len(text))
    size = MAX_MESSAGE_BYTES // 2 // len(lengths)
    texts = [""] * len(lengths)
    for start in range(0, max(lengths), size):
        parts = rendezvous.gather(text[start : start + size])
        texts = [so_far + part for so_far, part in zip(texts, parts, strict=True)]
    return [read_state(base64.b64decode(text)) for text in texts]


def read_state(data: bytes) -> Any:
    """Return the state of metrics that was pickled.

    Raises:
        pickle.UnpicklingError: it names anything else.
    """
    return _StateReader(io.BytesIO(data)).load()


class _StateReader(pickle.Unpickler):
    """Reads states of metrics and nothing else, as they come over the network."""

    _ARRAYS: ClassVar = frozenset({"_reconstruct", "_frombuffer", "ndarray", "dtype", "scalar"})

    def find_class(self, module: str, name: str) -> Any:
        """Return a class or function of ``wsmetrics``, or what makes an array."""
        top = module.partition(".")[0]
        if top == "wsmetrics" and "." not in name:
            found = getattr(sys.modules.get(module), name, None)
            if getattr(found, "__module__", None) == module:
                return found
        if top == "numpy" and name in self._ARRAYS:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"`{module}.{name}` is not part of the state of metrics")
