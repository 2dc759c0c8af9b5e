"""Locks of extensions whose build was killed.

torch builds an extension, such as DeepSpeed's exchange through shared memory, behind a file ``lock``, and
waits for as long as there is one (``torch.utils.file_baton``). A build that is killed leaves it, and every
later start on the machine would wait for ever.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

PATIENCE_SECONDS = 900.0  # a build takes about one minute


def forget(root: Path | None = None) -> list[Path]:
    """Remove the locks that are too old for anybody to build behind them.

    Args:
        root: where extensions are built; by default where torch does so.

    Returns:
        The locks that were removed.
    """
    if root is None:
        root = _root()
    removed = []
    for lock in [*root.glob("*/lock"), *root.glob("*/*/lock")]:
        with contextlib.suppress(OSError):
            if time.time() - lock.stat().st_mtime > PATIENCE_SECONDS:
                lock.unlink()
                removed.append(lock)
    return removed


def _root() -> Path:
    given = os.environ.get("TORCH_EXTENSIONS_DIR")
    if given:
        return Path(given)
    from torch.utils import cpp_extension  # noqa: PLC0415  only DeepSpeed builds anything

    return Path(cpp_extension.get_default_build_root())
