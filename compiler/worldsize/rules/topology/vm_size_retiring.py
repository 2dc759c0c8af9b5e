"""Azure has announced the day on which the VM size is retired.

After that day no instance of it can be had.

Why: a schedule or a cluster that works today stops then.

Bad::

    instance_type: Standard_HB120rs_v2

Good::

    instance_type: Standard_NC96ads_A100_v4

Fix: move to a current size before that day.

Source: the catalogue of VM sizes, ``compiler/worldsize/facts/vm_sizes.csv``, each row with its
source.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS210", "vm-size-retiring", "warning", since="0.1.0", summary="a VM size that Azure is about to retire"
)
