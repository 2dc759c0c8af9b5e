"""One worker: imports the entry script, calls ``init`` once, ``run`` for each mini-batch, ``shutdown`` last.

A separate program (``python -m worldsize_parallel.worker FD``). The output of the script goes to this
worker's log. Results are sent over a connection whose ends are both this program.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

PR_SET_PDEATHSIG = 1  # linux/prctl.h
SEPARATOR = " "  # of a DataFrame's columns, as Azure ML appends them


class MiniBatchContext:
    """The second argument of a ``run`` with two parameters."""

    def __init__(self, index: int, key: dict[str, Any] | None, first: int, count: int) -> None:
        self.minibatch_index = str(index)
        self.partition_key_value = key
        self.global_row_index_lower_bound = first
        self.global_row_index_upper_bound = first + count


def main() -> None:
    """Serve the driver until it closes the connection."""
    die_with_the_driver()
    line = Connection(int(sys.argv[1]))
    setup = receive(line)
    if setup is None:
        return
    logging.basicConfig(level=setup["level"], format="%(asctime)s %(levelname)s %(message)s")
    try:
        module = load(Path(setup["script"]), setup["arguments"])
        call(module, "init")
    except BaseException as error:  # also `sys.exit` in the script
        traceback.print_exc()
        send(line, {"broken": described(error)})
        return
    send(line, {"ready": os.getpid()})
    while (task := receive(line)) is not None:
        send(line, {"index": task["index"], **handle(module, task)})
    call(module, "shutdown")


def load(script: Path, arguments: list[str]) -> ModuleType:
    """Import the entry script as Python would run it: its folder first on the path, its name in ``argv``."""
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent.absolute()))
    spec = importlib.util.spec_from_file_location(script.stem, script)
    if spec is None or spec.loader is None:
        raise ImportError(f"`{script}` is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, "run", None)):
        raise TypeError(f"`{script}` has no function `run`")
    return module


def call(module: ModuleType, name: str) -> None:
    """Call one of the script's optional functions."""
    function = getattr(module, name, None)
    if callable(function):
        function()


def handle(module: ModuleType, task: dict[str, Any]) -> dict[str, Any]:
    """Run one mini-batch; the number of results and their text, or the error."""
    batch = task["content"]
    context = MiniBatchContext(task["index"], task["key"], task["first"], len(batch))
    try:
        result = invoke(module.run, batch, context)
        return {"returned": len(result), **({"text": text(result)} if task["wanted"] else {})}
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        return {"error": described(error)}
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()


def invoke(run: Callable[..., Any], batch: Any, context: MiniBatchContext) -> Any:
    """Call ``run`` with one argument or two, and check the type of its result."""
    kinds = [parameter.kind for parameter in inspect.signature(run).parameters.values()]
    positional = [kind for kind in kinds if kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
    takes_two = len(positional) > 1 or inspect.Parameter.VAR_POSITIONAL in kinds
    result = run(batch, context) if takes_two else run(batch)
    if not isinstance(result, (list, tuple)) and not hasattr(result, "__array__"):
        kind = type(result).__name__
        raise TypeError(f"`run` returned a {kind}; it must return a list, a tuple or a DataFrame")
    return result


def text(result: Any) -> tuple[str, str]:
    """The lines to append, and the header of a DataFrame's columns."""
    if hasattr(result, "to_csv") and hasattr(result, "columns"):
        header = SEPARATOR.join(map(str, result.columns)) + "\n"
        return result.to_csv(sep=SEPARATOR, header=False, index=False), header
    return "".join(f"{item}\n" for item in result), ""


def described(error: BaseException) -> str:
    """An exception in one line."""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def die_with_the_driver() -> None:
    """Let the kernel end this process if the driver is killed."""
    if sys.platform != "linux":
        return
    import ctypes  # Linux only

    driver = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != driver:
        sys.exit(1)


def send(line: Connection, message: Any) -> None:
    """Send a message; a closed connection is noticed by :func:`receive`."""
    with contextlib.suppress(OSError):
        line.send(message)


def receive(line: Connection) -> Any | None:
    """Wait for a message; None if the connection is closed."""
    with contextlib.suppress(EOFError, OSError):
        return line.recv()
    return None


if __name__ == "__main__":
    main()
