"""What a component says when the person using it can put something right: one sentence, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable


class UserError(Exception):
    """A fault in the input, said in one sentence.

    Attributes:
        message: what is wrong, with the user's own words in back-ticks.
        help: the concrete thing to do, or empty.
    """

    def __init__(self, message: str, help: str = "") -> None:  # noqa: A002  the name users see
        super().__init__(message)
        self.message = message
        self.help = help


def entry(main: Callable[[], int | None]) -> None:
    """Run a component's `main` and leave the process with its status.

    A :class:`UserError` becomes `error: …` and `help: …` on stderr and exit status 2.
    """
    try:
        status = main() or 0
    except UserError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.help:
            print(f"help: {error.help}", file=sys.stderr)
        status = 2
    sys.exit(status)
