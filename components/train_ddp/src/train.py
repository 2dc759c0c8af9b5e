"""Entry of the component ``train_ddp``: who am I, is the plan true, then train.

Nothing here loads torch before the launch is known to be the planned one: a wrong world size is reported in a
fraction of a second.
"""

from __future__ import annotations

import os
import sys

from wstrain.errors import entry
from wstrain.launch import expect_global_batch, expect_world_size, read_launch
from wstrain.settings import parse

STRATEGIES = ("ddp",)


def main() -> None:
    """Check the launch against the plan, then hand over."""
    settings = parse(sys.argv[1:], strategies=STRATEGIES)
    launch = read_launch(os.environ)
    expect_world_size(launch, settings.world_size)
    expect_global_batch(
        launch,
        per_device=settings.batch_size_per_device,
        accumulation=settings.gradient_accumulation_steps,
        global_batch=settings.global_batch_size,
    )
    from training import train  # noqa: PLC0415  seconds of imports, which a wrong launch should not wait for

    train(settings, launch)


if __name__ == "__main__":
    entry(main)
