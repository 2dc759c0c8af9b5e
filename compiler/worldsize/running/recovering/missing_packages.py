"""Whether a process failed because a script imports a package that its Python does not have."""

from __future__ import annotations

import re
from collections.abc import Sequence

from worldsize.running.preparing.packages import EXTRAS

_NOT_FOUND = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'$")


def explain(lines: Sequence[str]) -> tuple[str, str] | None:
    """Return why a process failed and what to do about it, None where it is not for want of a package.

    Args:
        lines: The last lines that it wrote; only the very last tells.
    """
    matched = _NOT_FOUND.match(lines[-1].strip()) if lines else None
    if matched is None:
        return None
    module = matched[1].partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    advice = f"run `pip install 'worldsize[{extra}]'`" if extra else "install it"
    return (
        f"its Python has no module `{matched[1]}`",
        f"help: {advice}, or name it in the step's environment and run with `--environment isolated`",
    )
