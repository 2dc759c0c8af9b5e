"""The command ``worldsize``, which is also ``python -m worldsize``."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line.

    ``worldsize check PATH...`` is what editors and hooks run at every save. Without options there is
    nothing to parse, and the parser's import would be a fifth of its time.
    """
    paths = sys.argv[2:]
    if sys.argv[1:2] == ["check"] and paths and all(map(_is_path, paths)):
        from worldsize.checking import console  # noqa: PLC0415 - one way or the other, not both

        raise SystemExit(console.check(paths))
    from worldsize.cli import main as parse  # noqa: PLC0415

    parse(prog_name="worldsize")


def _is_path(word: str) -> bool:
    return not word.startswith("-") and os.path.lexists(word)


if __name__ == "__main__":
    main()
