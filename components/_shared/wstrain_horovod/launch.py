"""Checks of a Horovod training before torch or Horovod is loaded: the reduction, and the installed Horovod.

Horovod is compiled against one version of torch. With another it stops with an undefined symbol, or worse.
"""

from __future__ import annotations

import json
import re
from importlib import metadata

from wsshards.errors import UserError

ADASUM = "adasum"
REBUILD = (
    "run `python build_horovod.py` of train_horovod's environment, which builds it for what is installed"
)


def expect_horovod() -> None:
    """Check that Horovod is installed, for PyTorch, and for the torch that is installed.

    Raises:
        UserError: it is not; the message has both versions where they differ.
    """
    card = _read_package_file("horovod", "horovod/metadata.json")
    if card is None:
        raise UserError(
            "Horovod is not installed, and `train_horovod` cannot exchange gradients without it", REBUILD
        )
    try:
        built_for = json.loads(card).get("pytorch")
    except ValueError:
        built_for = None
    if built_for is None:
        raise UserError("the installed Horovod was built without PyTorch", REBUILD)
    version = re.search(
        r"^__version__ = '([^']+)'", _read_package_file("torch", "torch/version.py") or "", re.MULTILINE
    )
    if version and version[1] != built_for:
        raise UserError(
            f"Horovod was built for torch {built_for} but torch {version[1]} is installed", REBUILD
        )


def _read_package_file(package: str, file: str) -> str | None:
    try:
        path = metadata.distribution(package).locate_file(file)
        with open(str(path), encoding="utf-8") as opened:  # noqa: PTH123  a path of importlib's own type
            return opened.read()
    except (metadata.PackageNotFoundError, OSError):
        return None


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
