"""An option that another strategy has: with the one of the step it changes nothing.

The ``fsdp_…`` options are those of ``strategy: fsdp``, ``pipeline_schedule`` is that of
``pipeline_parallel``. With ``ds_config`` the configuration says what is offloaded. ``offload_path`` is for
``nvme`` only.

Why: Memory is planned that is never saved, and the job meets its limit on paid GPUs.

Bad::

    with: {strategy: ddp, fsdp_cpu_offload: true}

Good::

    with: {strategy: fsdp, fsdp_cpu_offload: true}

Fix: Name the strategy, or remove the option.

Source: ``components/train_ddp/README.md``; ``components/train_deepspeed/README.md``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS242",
    "option-without-effect",
    "warning",
    since="0.1.0",
    summary="an option that the strategy never looks at",
)
