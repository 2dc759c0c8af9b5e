"""The error of an input that says how data is read, and what to write instead of a misspelt name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from wsshards.errors import UserError, clip_text

_COMPARED = 10_000  # names that a misspelt name is compared with


class InputError(UserError):
    """A fault of the data, or of the input that says how it is read.

    Attributes:
        slug: the rule of the checker that reports it.
        blamed: the input to correct; empty for the data.
    """

    def __init__(self, error: UserError, slug: str, blamed: str) -> None:
        super().__init__(error.message, error.help)
        self.slug, self.blamed = slug, blamed


@contextmanager
def blame_input(slug: str, blamed: str = "") -> Iterator[None]:
    """Raise an error of the block as :class:`InputError`, unless it is one already."""
    try:
        yield
    except InputError:
        raise
    except UserError as error:
        raise InputError(error, slug, blamed) from None


def suggest(word: str, known: Iterable[str]) -> str:
    """Return `did you mean …` for a misspelt word, else the list of options."""
    import difflib  # only a misspelt word needs it

    names = list(islice(known, _COMPARED))
    close = difflib.get_close_matches(clip_text(word), [name for name in names if len(name) <= 100], n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    shown = ", ".join(f"`{clip_text(name)}`" for name in names[:12])
    return f"choose from {shown}{' and more' if len(names) > 12 else ''}" if names else "there is none"
