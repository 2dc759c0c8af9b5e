"""The strategy ``parameter_server`` without a parameter server.

The weights live on parameter servers; `parameter_server_count` of the step says how many are started beside
the workers.

Why: Every worker stops when it has read ``TF_CONFIG``, after the cluster has started.

Bad::

    with: {strategy: parameter_server}

Good::

    parameter_server_count: 1
    with: {strategy: parameter_server}

Fix: Write ``parameter_server_count: 1``.

Source: TensorFlow, Parameter server training guide; ``components/train_tensorflow/README.md``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS240",
    "parameter-servers-missing",
    "error",
    since="0.1.0",
    summary="a strategy of parameter servers without one",
)
