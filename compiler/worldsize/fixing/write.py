"""Replacing a file's content in one step."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from worldsize.base.system_error import describe_os_error


def replace_content(path: Path, before: bytes, after: bytes) -> str | None:
    """Replace a file's content, where it still is what it was, keeping its mode.

    A link is followed and stays a link. Readers see the old content or the new one, never a part.

    Returns:
        None, or why the file was left as it is.
    """
    target = Path(os.path.realpath(path))
    temporary = None
    try:
        if target.read_bytes() != before:
            return "it was changed in the meantime"
        mode = target.stat().st_mode
        if not os.access(target, os.W_OK):
            return "permission denied"
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)  # noqa: PTH101 - one call, one meaning
        os.replace(temporary, target)  # noqa: PTH105
        temporary = None
    except OSError as error:
        return describe_os_error(error)
    finally:
        if temporary is not None:
            os.unlink(temporary)  # noqa: PTH108
    return None
