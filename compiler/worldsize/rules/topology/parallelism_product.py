"""The degrees of `parallelism` do not multiply to the world size.

Every process has one place in the mesh data × tensor × pipeline.

Why: The process group cannot be cut into that mesh, and every rank stops at its first collective.

Bad::

    parallelism: {data: 2, tensor: 2}

Good::

    parallelism: {data: 4, tensor: 2}

Fix: Write the data degree of the help, or leave ``data`` out: it is derived.

Source: PyTorch, ``torch.distributed.device_mesh.init_device_mesh``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS230",
    "parallelism-product",
    "error",
    since="0.1.0",
    summary="degrees that do not multiply to the world size",
)
