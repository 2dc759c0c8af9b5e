"""Reports errors that no command handles, in one line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from worldsize.base.untrusted import UnreadableError
from worldsize.base.wording import MACHINE_ERRORS, shorten

VARIABLE = "WORLDSIZE_TRACEBACK"
LONGEST = 200


def report_crash(error: BaseException) -> int:
    """Report an unhandled error in one line; with ``WORLDSIZE_TRACEBACK`` set, print its traceback first.

    Returns:
        The exit status: 130 after Ctrl-C, 1 for an error of this machine or a closed pipe, 3 for our own.
    """
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, BrokenPipeError):
        _discard_output()
        return 1
    if os.environ.get(VARIABLE):
        import traceback  # only who asks for it pays for it

        _write_error("".join(traceback.format_exception(error)))
    if isinstance(error, UnreadableError):
        _write_error(f"error: {error}\n")
        return 1
    if isinstance(error, OSError) and error.errno in MACHINE_ERRORS:
        about = f"`{error.filename}`" if error.filename is not None else "output could not be written"
        _write_error(f"error: {about}: {(error.strerror or str(error)).lower()}\n")
        if error.filename is None:
            _discard_output()
        return 1
    if isinstance(error, FileNotFoundError) and not _working_folder_exists():
        _write_error("error: the working folder was removed\n  = help: change to a folder that exists\n")
        return 1
    _write_error(f"internal error: {_summarise_error(error)}\n")
    if not os.environ.get(VARIABLE):
        _write_error(
            f"  = help: this is an error in worldsize; please report it with the output of {VARIABLE}=1\n"
        )
    return 3


def _working_folder_exists() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _summarise_error(error: BaseException) -> str:
    """The error and the line it came from, as one line."""
    text = shorten(f"{type(error).__name__}: {error}".rstrip().removesuffix(":"), LONGEST)
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return text
    file = "/".join(Path(step.tb_frame.f_code.co_filename).parts[-2:])
    return f"{text} ({file}:{step.tb_lineno})"


def _write_error(text: str) -> None:
    """Write to standard error in its encoding; if it is closed too, nothing can be reported."""
    try:
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def _discard_output() -> None:
    """Discard buffered output, because the interpreter would fail again when it flushes at its end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass
