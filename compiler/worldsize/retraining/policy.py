"""What the ``retrain:`` block of a spec asks for, with a careful default for each key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from worldsize.spec.model import Retrain

Topic = Literal["failed", "not_promoted", "stopped", "stale"]
When = Literal["new_data", "always"]
Overlap = Literal["skip", "queue", "replace"]

RETRIES, STALE_AFTER = 3, 3
TELL_ON: frozenset[Topic] = frozenset({"failed", "stopped", "stale"})  # what somebody has to look into
FILE_NAME, MODIFICATION_TIME = "file_name", "modification_time"  # values of `by` that are no key


class DataPolicy(Struct, frozen=True):
    """How much of one input is read, and how much must be new."""

    window: float | None = None  # seconds before the look
    by: str | None = None  # what tells the time of a file, or of a row
    place: str = ""  # of `by` in the spec
    minimum_new_rows: int = 0


class Policy(Struct, frozen=True):
    """When to train, and what to do when a training fails or still runs."""

    data: Mapping[str, DataPolicy] = field(default_factory=dict)
    when: When = "new_data"
    overlap: Overlap = "skip"
    retries: int = RETRIES
    stale_after: int = STALE_AFTER  # firings without a success
    metric: str | None = None  # that decides on promotion; None for what `evaluate` shows first
    from_champion: bool = False  # whether training starts from the champion's weights
    models: int | None = None  # versions that are kept, beside champions; None keeps all
    webhook: str | None = None  # the name of the secret with its address
    tell_on: frozenset[Topic] = TELL_ON  # what is sent there


def read_policy(block: Retrain) -> Policy:
    """The policy of a block that has no faults."""
    data = {
        name: DataPolicy(
            window=None if entry.window is None else parse_window(entry.window.value),
            by=None if entry.by is None else entry.by.value,
            place="" if entry.by is None else str(entry.by.span),
            minimum_new_rows=0 if entry.minimum_new_rows is None else entry.minimum_new_rows.value,
        )
        for name, entry in block.data.items()
    }
    return Policy(
        data,
        "new_data" if block.when is None else block.when.value,
        "skip" if block.overlap is None else block.overlap.value,
        RETRIES if block.retries is None else block.retries.value,
        STALE_AFTER if block.stale_after is None else block.stale_after.value,
        None if block.promote is None or block.promote.metric is None else block.promote.metric.value,
        block.start_from is not None and block.start_from.value == "champion",
        None if block.keep is None else block.keep.models.value,
        None if block.tell is None else block.tell.webhook.value.strip("${} ").partition(".")[2],
        TELL_ON if block.tell is None or block.tell.on is None else frozenset(block.tell.on.value),
    )


_SECONDS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def parse_window(text: str) -> float:
    """The seconds of a window such as ``365d``, whose form the schema holds."""
    return int(text[:-1]) * _SECONDS[text[-1]]
