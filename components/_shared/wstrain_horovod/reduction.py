"""Which ``reduction`` a training can use, decided from its inputs before torch or Horovod is loaded."""

from __future__ import annotations

from wsshards.errors import UserError

ADASUM = "adasum"


def expect_reduction_possible(reduction: str, *, precision: str, world_size: int) -> None:
    """Check that Adasum can combine the gradients of ``world_size`` ranks.

    Raises:
        UserError: Adasum cannot combine this many ranks, or not in this precision.
    """
    if reduction != ADASUM:
        return
    if world_size & (world_size - 1):
        raise UserError(
            f"`reduction: adasum` combines ranks in pairs, and {world_size} is not a power of 2",
            "change `instance_count` or `process_count_per_instance`, or use `reduction: average`",
        )
    if precision == "fp16":
        # An overflow makes one rank skip its step; the others would wait for it.
        raise UserError(
            "`reduction: adasum` cannot be used with `precision: fp16`, where a rank may skip a step alone",
            "use `bf16` or `fp32`",
        )
