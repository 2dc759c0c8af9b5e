"""The VM size was retired: no instance of it can be had.

The message gives the day.

Why: the job waits in the queue for a node that never comes.

Bad::

    instance_type: Standard_NC24s_v3

Good::

    instance_type: Standard_NC96ads_A100_v4

Fix: choose a current size with as many GPUs.

Source: the catalogue of VM sizes, ``compiler/worldsize/facts/vm_sizes.csv``, each row with its
source.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS202", "vm-size-retired", "error", since="0.1.0", summary="a VM size that Azure has retired")
