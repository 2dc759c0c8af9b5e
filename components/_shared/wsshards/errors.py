"""How a component fails or warns: one sentence about the user's error, never a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import NoReturn

# What gloo, NCCL, the TCP store and Horovod say when the process at the other end has gone.
_PEER_GONE = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection refused",
    "Broken pipe",
    "Socket Timeout",
    "Timed out waiting",
    "NCCL communicator was aborted",
    "remote process exited",
    "Horovod has been shut down",
)

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, quota, file-size limit

_LONGEST = 1000  # characters of a message: what is longer is a user's text, not a sentence

# The exit status of a process that was asked to stop and has saved its state: start it again to resume. It is
# EX_TEMPFAIL of sysexits.h, "temporary failure, the user is invited to retry".
RESUME_EXIT_STATUS = 75


class Interrupted(Exception):  # noqa: N818  it is not an error
    """The training was asked to stop, and has saved its state; the text says which."""


class UserError(Exception):
    """An error of the input, the plan or the machine, which the user can correct.

    Args:
        message: what is wrong, with the user's own words in back-ticks; lower-case, no full stop.
        help: the concrete remedy, or None.
    """

    def __init__(self, message: str, help: str | None = None) -> None:  # noqa: A002
        super().__init__(message)
        self.message = message
        self.help = help


def print_warning(sentence: str) -> None:
    """Print what the user should know although the work goes on."""
    print(f"warning: {sentence}", file=sys.stderr, flush=True)


def escape_controls(text: str) -> str:
    r"""Return the text as one line without control characters.

    A user's names and values may hold control characters, which move the cursor, ring, or change the
    window's title, marks that turn the direction of writing, and bytes that are not UTF-8. Each becomes its
    escape, such as `\x1b`.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    # A byte of a file name that is not UTF-8 is a lone surrogate in Python.
    byte = ord(character) - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else character.encode("unicode_escape").decode()


def clip_text(text: str, limit: int = 60) -> str:
    """Return the text, cut to `limit` characters, as a name or value in a message may be very long."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def describe_error(error: BaseException, limit: int = 120) -> str:
    """Return the cause of another library's error as part of a sentence.

    Args:
        error: of the system: its reason; of a library: the first line of its message, or its class.
        limit: characters to keep.
    """
    if isinstance(error, OSError) and error.strerror:
        reason = os.strerror(error.errno) if error.errno else ""
        text = reason if reason and reason in error.strerror else error.strerror  # pyarrow adds its own words
        return text[:1].lower() + text[1:]  # the rest may hold a user's name
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:limit].rstrip(". ")


def run_main(main: Callable[[], None]) -> NoReturn:
    """Run the body of an entry script and exit with its status.

    0 is success, 2 a :class:`UserError` (one line ``error: …``, perhaps ``help: …``, on stderr), 1 the loss
    of another rank, 75 an :class:`Interrupted` training, which can be started again. Anything else is a
    bug and keeps its traceback.
    """
    try:
        main()
    except Interrupted as stopped:
        print(
            f"stopped: {escape_controls(str(stopped))}; start it again to resume from there", file=sys.stderr
        )
        end_process(RESUME_EXIT_STATUS)
    except UserError as error:
        _stop(error, 2)
    except MemoryError:
        _stop(UserError("out of memory on this machine", "lower `batch_size_per_device`"), 2)
    except Exception as error:
        known = _translate(error)
        if known is not None:
            _stop(*known)
        sys.excepthook(*sys.exc_info())  # a bug; torch's hook names the rank
        end_process(1)
    end_process(0)


def _stop(error: UserError, status: int) -> NoReturn:
    print(f"error: {clip_text(escape_controls(error.message), _LONGEST)}", file=sys.stderr)
    if error.help:
        print(f"help: {clip_text(escape_controls(error.help), _LONGEST)}", file=sys.stderr)
    end_process(status)


def end_process(status: int) -> NoReturn:
    """End this process at once, without the interpreter's cleanup.

    A process group that is torn down may abort, or wait for ranks that have gone: a model that was trained
    and saved would then count as failed, or the job would never end.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _translate(error: Exception) -> tuple[UserError, int] | None:
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        file = f"cannot write `{error.filename}`" if error.filename else "cannot write"
        return UserError(f"{file}: {os.strerror(error.errno).lower()}", "free space for it and run again"), 2
    text = str(error)
    if isinstance(error, (OSError, RuntimeError)) and os.strerror(errno.EMFILE) in text:
        import resource  # POSIX only

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return UserError(f"too many open files: a process may have {limit} here", "raise `ulimit -n`"), 2
    if not isinstance(error, RuntimeError):
        return None
    if type(error).__name__ == "OutOfMemoryError":  # torch's, by name, as this module does not import torch
        first = text.split(". ", 1)[0]
        advice = "lower `batch_size_per_device`; more `gradient_accumulation_steps` keep the global batch"
        return UserError(f"the device is out of memory: {first}", advice), 2
    if any(sign in text for sign in _PEER_GONE):
        return UserError("another rank has gone, so this one stops", "its own log says why"), 1
    return None
