"""Starts a program on a node: ``enter.py TABLE NODE PROGRAM [ARGUMENT …]``, or as ``ssh`` would.

This file is a separate program that becomes the other one; it imports the standard library only. TABLE is a
JSON file with ``namespaces`` (paths) and ``env`` (variables that the machine sets), by name and by address of
each node. The working folder does not change.

``enter.py --shell TABLE NODE WORD …`` passes the words to a shell in one line, as ``ssh`` does, so that
``mpirun`` can use it instead of ``ssh``.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from typing import NoReturn

KINDS = {"net": 0x40000000, "uts": 0x04000000, "mnt": 0x00020000}  # linux/sched.h; mnt, last, hides paths
DEFAULTS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT)  # Python ignores or handles these; exec keeps that


def main(words: list[str]) -> NoReturn:
    """Become the program."""
    as_shell = words[0] == "--shell"
    table, node, *argv = words[1:] if as_shell else words
    if as_shell:
        argv = ["/bin/sh", "-c", " ".join(argv)]
    try:
        with open(table, encoding="utf-8") as file:  # noqa: PTH123 - starts faster
            entry = json.load(file)[node]
        enter(entry["namespaces"])
        for number in DEFAULTS:
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], argv, {**os.environ, **entry["env"]})  # noqa: S606
    except KeyError:
        fail(f"cannot start `{argv[0]}`: there is no node `{node}`")
    except OSError as error:
        fail(f"cannot start `{argv[0]}` on {node}: {error.strerror}")


def enter(paths: dict[str, str]) -> None:
    """Move this process into namespaces.

    Raises:
        OSError: They do not exist any more, or are not namespaces.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.getcwd()  # noqa: PTH109 - starts faster
    descriptors = {kind: os.open(paths[kind], os.O_RDONLY) for kind in KINDS if kind in paths}
    for kind, descriptor in descriptors.items():
        if libc.setns(descriptor, KINDS[kind]):
            number = ctypes.get_errno()
            raise OSError(number, f"its namespace is gone ({os.strerror(number).lower()})")
        os.close(descriptor)
    os.chdir(here)


def fail(message: str) -> NoReturn:
    """Exit like a shell that cannot find a program."""
    with contextlib.suppress(OSError):
        os.write(2, f"{message}\n".encode())
    os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
