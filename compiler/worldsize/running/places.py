"""Where the instances of a step are: all on this machine, unless something gives each a place of its own."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Protocol

from worldsize.running.starting.processes import Call


class Places(Protocol):
    """Gives the instances of a call their places for as long as a group runs."""

    def place(self, call: Call) -> AbstractContextManager[Call]:
        """The call with addresses and argument prefixes of its instances; the places end with the context.

        Raises:
            OSError: a place cannot be made.
        """


class Here:
    """Every instance is this very machine."""

    def place(self, call: Call) -> AbstractContextManager[Call]:
        """The call as it is."""
        return contextlib.nullcontext(call)
