"""A configuration judged value by value against what else is known: ``verify`` runs every check.

The checks of ``"auto"`` and of batch sizes are here; keys, ZeRO, precision and the optimizer have modules of
their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path as FilePath
from typing import Any

from wstrain_deepspeed.config.builder import Plan
from wstrain_deepspeed.config.findings import ADVICE, Finding, Known, Path, as_integer, is_on, value_at
from wstrain_deepspeed.config.optimizer import check_optimizer
from wstrain_deepspeed.config.precision import check_precision
from wstrain_deepspeed.config.schema import check_keys
from wstrain_deepspeed.config.zero import check_zero

TRAIN, MICRO, STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
_LABELS = {MICRO: "micro-batch", STEPS: "accumulation"}
_MAX_FINDINGS = 500  # of one check; more would not be read
_LITERAL_AUTO = {
    ("data_types", "keep_in_fp32_modules"),
    ("hybrid_engine", "replace_method"),
}  # DeepSpeed's own


def check_auto(config: Mapping[str, Any], known: Known) -> Iterator[Finding]:
    """Hugging Face's integration fills in ``"auto"``, DeepSpeed does not: one finding for all."""
    if known.fills_auto is not False or is_on(value_at(config, "autotuning", "enabled")):
        return
    places = [place for place in _places(config, ()) if place not in _LITERAL_AUTO and place[0] != "pipeline"]
    if not places:
        return
    rest = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    message = f'`{places[0][-1]}` is "auto"{rest}, but only Hugging Face\'s trainers fill that in'
    related = tuple((place, "another") for place in places[1:4])
    yield Finding("auto", places[0], message, "write the value, or remove the key", related=related)


def _places(value: Any, path: Path) -> Iterator[Path]:
    if value == "auto":
        yield path
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _places(inner, (*path, position))


def check_batch(config: Mapping[str, Any], known: Known) -> Iterator[Finding]:
    """The three batch sizes against the processes and the plan, as DeepSpeed's ``_batch_assertion`` would.

    It works out those that are left out, so one of the first two is enough.
    """
    batch_sizes = {name: config[name] for name in (TRAIN, MICRO, STEPS) if config.get(name) is not None}
    numbers = {name: as_integer(value) for name, value in batch_sizes.items()}
    filled_in = known.pinned and known.micro_batch is not None  # by `own`, from the plan
    if TRAIN not in batch_sizes and MICRO not in batch_sizes and not filled_in:
        message = "the configuration has no batch size, but DeepSpeed cannot start without one"
        yield Finding("batch-missing", (), message, f"add `{MICRO}`, or `{TRAIN}` for all processes together")
    if any(value is None or value < 1 for value in numbers.values()):
        return  # `auto`, a text, or a number below 1; other checks report them
    contradictions = list(_identity(numbers, known.world)) if known.world is not None else []
    yield from contradictions or _plan(numbers, known)


def _identity(numbers: Mapping[str, int | None], world: int) -> Iterator[Finding]:
    train = numbers.get(TRAIN)
    parts = {name: number for name in (MICRO, STEPS) if (number := numbers.get(name)) is not None}
    if train is None:
        return
    product = world
    for number in parts.values():
        product *= number
    factors = " × ".join([*map(str, parts.values()), f"{world} process{'es' * (world != 1)}"])
    related = tuple(((name,), _LABELS[name]) for name in parts)
    if len(parts) == 2 and train != product:
        message = f"`{TRAIN}` is {train}, but {factors} = {product}"
        yield Finding("batch", (TRAIN,), message, _help(train, product, world), related=related)
    elif len(parts) < 2 and train % product:
        message = f"`{TRAIN}` is {train}, which is not a multiple of {factors}"
        message += f" = {product}" if parts else ""
        near = max(train // product, 1) * product
        yield Finding(
            "batch", (TRAIN,), message, f"write a multiple of {product}, such as {near}", related=related
        )


def _help(train: int, product: int, world: int) -> str:
    """Where the numbers fit another count of processes, the launch may be what is wrong."""
    fitting, rest = divmod(train * world, product)
    if rest or fitting < 1:
        return f"write {product}"
    return f"write {product}, or start {fitting} process{'es' * (fitting != 1)}, for which the numbers fit"


def _plan(numbers: Mapping[str, int | None], known: Known) -> Iterator[Finding]:
    """The numbers against those of the plan; the total only where its parts say nothing."""
    wanted = {MICRO: known.micro_batch, STEPS: known.accumulation}
    differs = False
    for name, value in wanted.items():
        number = numbers.get(name)
        if number is not None and value is not None and number != value:
            differs = True
            message = f"`{name}` is {number}, but the plan's {_LABELS[name]} is {value}"
            yield Finding("plan", (name,), message, f"write {value}, or leave it out")
    train = numbers.get(TRAIN)
    if differs or train is None or None in (known.micro_batch, known.accumulation, known.world):
        return
    product = (known.micro_batch or 1) * (known.accumulation or 1) * (known.world or 1)
    if train != product:
        message = f"`{TRAIN}` is {train}, but the plan's global batch is {product}"
        yield Finding("plan", (TRAIN,), message, f"write {product}, or leave it out")


_CHECKS = (check_keys, check_auto, check_batch, check_zero, check_precision, check_optimizer)


def verify(config: Mapping[str, Any], known: Known | None = None) -> list[Finding]:
    """Return what is wrong with a configuration, one finding for each cause.

    Args:
        config: The configuration, as ``json.load`` gives it.
        known: The processes, the plan and the program; what is not known is not checked.

    Returns:
        The findings, by kind and place in the order of the checks; none for what DeepSpeed starts with and
        does as it reads. Findings of the kinds in ``ADVICE`` do not keep DeepSpeed from starting.
    """
    findings: dict[tuple[str | int, ...], Finding] = {}
    for check in _CHECKS:
        for finding in islice(check(config, known or Known()), _MAX_FINDINGS):
            findings.setdefault(finding.path, finding)  # a value of the wrong type is not also out of range
    return list(findings.values())


class ConfigError(ValueError):
    """A configuration that DeepSpeed must not be started with; one line a finding."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = tuple(findings)


class _Twice(Exception):  # noqa: N818 - never leaves this module
    """A key is there twice."""


def read_config(path: FilePath) -> dict[str, Any]:
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
