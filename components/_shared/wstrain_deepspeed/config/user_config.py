"""A user's ``ds_config``: read, checked against the plan, and completed from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wstrain_deepspeed.config.builder import Plan
from wstrain_deepspeed.config.findings import ADVICE, Finding, Known
from wstrain_deepspeed.config.verification import MICRO, STEPS, TRAIN, verify


class ConfigError(ValueError):
    """A configuration that DeepSpeed must not be started with; one line a finding."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = tuple(findings)


class _Twice(Exception):  # noqa: N818 - never leaves this module
    """A key is there twice."""


def read_config(path: Path) -> dict[str, Any]:
    """Read a file of JSON.

    Raises:
        ValueError: It is not JSON, has a key twice, or is not a block; the text says where.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_once)
    except _Twice as error:
        raise ValueError(f"{path.name}: {error}") from None
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        raise ValueError(f"{path.name}:{error.lineno}:{error.colno}: not JSON: {reason}") from None
    except RecursionError:
        raise ValueError(f"{path.name} nests deeper than any configuration") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path.name} holds a {type(config).__name__}, not a block `{{…}}`")  # noqa: TRY004
    return config


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a block; like DeepSpeed, refuse one that has a key twice."""
    block = dict(pairs)
    if len(block) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Twice(f"the key `{twice}` is there twice in one block")
    return block


def complete_config(
    config: Mapping[str, Any], plan: Plan, exists: Callable[[str], bool] | None = None
) -> tuple[dict[str, Any], list[Finding]]:
    """Complete the user's configuration with the batch sizes of the plan, and check it.

    The file decides on stage and offload, and on clipping if the plan has none. Precision must agree, as the
    training casts its inputs to the plan's. What the file leaves out is filled in from the plan.

    Returns:
        The configuration for ``deepspeed.initialize``, and findings that do not keep DeepSpeed from starting.

    Raises:
        ConfigError: DeepSpeed would stop, or not train as planned.
    """
    completed = dict(config)
    for name, value in (
        (TRAIN, plan.global_batch),
        (MICRO, plan.micro_batch),
        (STEPS, plan.accumulation),
        ("gradient_clipping", float(plan.max_gradient_norm)),  # DeepSpeed's own default is 1
    ):
        if completed.get(name) is None:
            completed[name] = value
    known = Known.from_plan(plan, exists)._replace(
        stage=None, max_gradient_norm=plan.max_gradient_norm or None
    )
    findings = verify(completed, known)
    refused = [finding for finding in findings if finding.kind not in ADVICE]
    if refused:
        raise ConfigError(refused)
    return completed, findings
