"""The VM size is not in the catalogue.

The number of GPUs comes from the VM size. The catalogue is looked up without regard to case.

Why: nothing about GPUs, retirement or InfiniBand can be checked for it; a misspelt size fails when
the cluster is made.

Bad::

    instance_type: Standard_NC96ads_A100_v5

Good::

    instance_type: Standard_NC96ads_A100_v4

Fix: correct the name; the help offers the nearest one.

Source: the catalogue of VM sizes, ``compiler/worldsize/facts/vm_sizes.csv``, each row with its
source.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS201", "vm-size-unknown", "warning", since="0.1.0", summary="a VM size that the catalogue does not know"
)
