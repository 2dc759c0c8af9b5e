"""Hands a step over to its layer where it starts the Python below by its path; copied as ``sitecustomize``.

``python`` on a step's PATH is that of its layer. A path in a command, or in the first line of a program
that an installer wrote, leads to the Python that runs Worldsize instead, and what pip does there would stay.
Python imports this module at its start, before anything of the step. It imports the standard library only.

``WORLDSIZE_LAYER`` is the layer, ``WORLDSIZE_PYTHON`` the prefix and the version of the Python below it.
"""

from __future__ import annotations

import os
import sys


def hand_over() -> None:
    """Become the layer's Python, with the same arguments, where this is the one below."""
    layer = os.environ.get("WORLDSIZE_LAYER")
    own = f"{sys.prefix}{os.pathsep}{sys.version_info[0]}.{sys.version_info[1]}"
    if layer and own == os.environ.get("WORLDSIZE_PYTHON"):
        python = f"{layer}/bin/python"
        if os.access(python, os.X_OK):  # else the step is over, and what it left behind ends soon
            os.execv(python, [python, *sys.orig_argv[1:]])  # noqa: S606


def import_next() -> None:
    """Import the ``sitecustomize`` that this one hides, and leave no trace of it on the path."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - starts faster
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != here]  # noqa: PTH100
    own = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, own)


if __name__ == "sitecustomize":
    hand_over()
    import_next()
