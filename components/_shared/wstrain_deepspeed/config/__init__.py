"""DeepSpeed's configuration: built from a plan, or a user's own checked against it.

Nothing here needs torch or DeepSpeed, so the compiler and the trainer check a file by the same function.
``keys.json`` holds what DeepSpeed 0.19.8 knows.
"""

from __future__ import annotations

from wstrain_deepspeed.config.builder import DEVICES, PRECISIONS, Plan, build_config, to_json
from wstrain_deepspeed.config.findings import ADVICE, KINDS, Finding, Known, Path, read_stage
from wstrain_deepspeed.config.verification import ConfigError, complete_config, read_config, verify

__all__ = [
    "ADVICE",
    "DEVICES",
    "KINDS",
    "PRECISIONS",
    "ConfigError",
    "Finding",
    "Known",
    "Path",
    "Plan",
    "build_config",
    "complete_config",
    "read_config",
    "read_stage",
    "to_json",
    "verify",
]
