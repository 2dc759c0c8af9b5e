"""How a parallel step stands: what succeeded, what failed, and when that is too much."""

from __future__ import annotations

from dataclasses import dataclass, field

from .settings import Settings


@dataclass
class Tally:
    """Counts of mini-batches and items.

    A mini-batch fails when ``run`` raises, hangs or takes its process along, more often than it is tried
    again; then all its items have failed. Items that ``run`` returns nothing for have failed too, but not
    their mini-batch: a ``run`` that keeps its results to itself returns an empty list.
    """

    batches: int
    items: int
    succeeded: int = 0
    failed: int = 0
    processed_items: int = 0
    failed_items: int = 0
    retried: int = 0
    texts: dict[int, tuple[str, str]] = field(default_factory=dict)  # by mini-batch

    @property
    def done(self) -> int:
        """Mini-batches that are over."""
        return self.succeeded + self.failed

    def succeed(self, index: int, items: int, returned: int, text: tuple[str, str] | None) -> None:
        """A mini-batch came back."""
        self.succeeded += 1
        self.processed_items += min(items, returned)
        self.failed_items += max(0, items - returned)
        if text is not None:
            self.texts[index] = text

    def fail(self, items: int) -> None:
        """A mini-batch failed for good."""
        self.failed += 1
        self.failed_items += items

    def exceeded(self, settings: Settings) -> str | None:
        """The threshold that has been passed, in words."""
        if 0 <= settings.error_threshold < self.failed_items:
            return f"{self.failed_items} items failed, and `error_threshold` is {settings.error_threshold}"
        limit = settings.mini_batch_error_threshold
        if 0 <= limit < self.failed:
            return f"{self.failed} mini-batches failed, and `mini_batch_error_threshold` is {limit}"
        percent = settings.allowed_failed_percent
        if self.failed * 100 > percent * self.batches:
            many = f"{self.failed} of {self.batches} mini-batches failed"
            return f"{many}, and `allowed_failed_percent` is {percent:g}"
        return None

    def aggregated(self, *, header: bool) -> str:
        """What all mini-batches returned, in their order."""
        lines = [self.texts[index][0] for index in sorted(self.texts)]
        first = next((self.texts[index][1] for index in sorted(self.texts)), "") if header else ""
        return "".join([first, *lines])

    def __str__(self) -> str:
        return (
            f"{self.batches} mini-batches: {self.succeeded} succeeded, {self.failed} failed,"
            f" {self.retried} tried again; {self.items} items: {self.processed_items} processed,"
            f" {self.failed_items} failed"
        )
