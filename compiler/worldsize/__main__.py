"""The command ``worldsize``, which is also ``python -m worldsize``."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line; whatever goes wrong ends in one line and an exit status, never a traceback."""
    _open_standard_streams()
    try:
        _dispatch()
    except (Exception, KeyboardInterrupt) as error:
        from worldsize.cli import crash

        raise SystemExit(crash.report_crash(error)) from None


def _dispatch() -> None:
    """Run the command of the command line.

    ``worldsize check PATH...`` is what editors and hooks run at every save. Without options there is
    nothing to parse, and importing the parser would take a third of the time.
    """
    paths = sys.argv[2:]
    _import_msgspec()
    if sys.argv[1:2] in (["check"], ["compile"], ["plan"]):
        gc.disable()  # the search for cycles takes a third of the time on large files, and finds none
    if sys.argv[1:2] == ["check"] and paths and all(map(_is_path, paths)):
        from worldsize.checking import checker  # one way or the other, not both

        status = checker.print_check(paths)
        os._exit(status)  # freeing all that was read takes a tenth of the time; the output is flushed
    from worldsize.cli import main as parse

    parse(prog_name="worldsize")


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions, which only an older Python needs.

    It imports inspect, ast and tokenize: a fifth of the time that a check takes.
    """
    name = "typing_extensions"
    if sys.version_info < (3, 11) or name in sys.modules:
        return
    sys.modules[name] = None
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules[name]


def _open_standard_streams() -> None:
    """Point standard streams that the caller closed at nothing.

    Otherwise the next file opened takes such a stream's number, and what is meant for the terminal is
    written into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _is_path(word: str) -> bool:
    return not word.startswith("-") and not word.endswith(".py") and os.path.lexists(word)


if __name__ == "__main__":
    main()
