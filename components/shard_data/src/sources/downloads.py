"""Downloads data with an address, by fsspec, with the credentials of the environment."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import urlsplit

from wsshards.errors import UserError, clip_text, describe_error
from wsshards.regular_files import MAX_FILES
from wssources.source_urls import (
    PROTOCOLS,
    WEB,
    address_path,
    check_address,
    mask_address,
    mask_text,
    protocol_of,
)

_ATTEMPTS, _PAUSE = 4, 0.5  # seconds, doubled after each attempt
_PATIENCE = 20.0  # seconds: a library that took so long has tried again itself, as Azure's does for a minute
_AZURE = ("az", "abfs", "abfss")
_AZURE_KEYS = (
    "AZURE_STORAGE_ANON",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_CLIENT_SECRET",
)
_FORBIDDEN = (401, 403)
Item = TypeVar("Item")


def download(address: str, folder: Path) -> Path:
    """Download the file or the folder at an address into `folder`; return where it lies.

    Files arrive in the order of their paths and are as long as the server says. Hidden files, and those
    whose names begin with `_`, are left out. A transfer that breaks off begins again.

    Args:
        address: that fsspec opens. Credentials come from the environment alone.
        folder: an existing one.

    Raises:
        UserError: nothing is there, it may not be read, the transfer fails, or the disk is too small.
    """
    check_address(address)
    shown = mask_address(address)
    files, path = _open_filesystem(address, shown)
    entries = _retry(lambda: _list_files(files, path, shown, address), shown)
    _check_room(entries, folder, shown)
    root = folder / (PurePosixPath(address_path(address)).name or "data")
    total = 0
    for name, (remote, size) in sorted(entries.items()):
        target = root / name if name else root
        target.parent.mkdir(parents=True, exist_ok=True)
        what = f"{shown.rstrip('/')}/{clip_text(name)}" if name else shown
        total += _retry(partial(_get, files, remote, target, size), what)
    count = f"{len(entries):,} {'file' if len(entries) == 1 else 'files'}"
    print(f"downloaded {count}, {total:,} bytes, from {shown}")
    return root


def _open_filesystem(address: str, shown: str) -> tuple[Any, str]:
    """Return fsspec's file system and the path in it."""
    protocol = protocol_of(address)
    try:
        import fsspec
    except ImportError:
        raise UserError(f"`{shown}` needs the package `fsspec`", "install `fsspec`") from None
    options: dict[str, Any] = {"skip_instance_cache": protocol not in ("memory", "file", "local")}
    try:
        if protocol in WEB:
            import aiohttp

            # Its own default ends a transfer after five minutes.
            limits = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
            options["client_kwargs"] = {"timeout": limits}
        if protocol in _AZURE:
            _check_account(address, shown)
            if not _has_azure_key():
                options["anon"] = False  # the identity of the job, or of the person
        files, path = fsspec.core.url_to_fs(address, **options)
    except ImportError:
        package = PROTOCOLS[protocol] or "fsspec"
        raise UserError(
            f"`{shown}` needs the package `{package}`, which is not installed here", f"install `{package}`"
        ) from None
    except UserError:
        raise
    except Exception as error:
        raise _explain(error, shown) from None
    return files, path


def _check_account(address: str, shown: str) -> None:
    """Refuse an address without a storage account, or with another than the one whose keys are at hand.

    The library reads the account of the connection string, whatever the address says.
    """
    named = re.search(r"@([^./]+)", urlsplit(address).netloc)
    connection = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    if not named and not connection and not os.environ.get("AZURE_STORAGE_ACCOUNT_NAME"):
        raise UserError(
            f"`{shown}` names a container, and no storage account is known",
            "write `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH`, or set AZURE_STORAGE_ACCOUNT_NAME",
        )
    other = re.search(r"(?:^|;)\s*AccountName=([^;]*)", connection)
    if named and other and named[1].lower() != other[1].strip().lower():
        raise UserError(
            f"`{shown}` is in the storage account `{named[1]}`, and `AZURE_STORAGE_CONNECTION_STRING` is of"
            f" `{clip_text(other[1].strip(), 60)}`",
            "correct the address, or unset the variable",
        )


def _has_azure_key() -> bool:
    return any(os.environ.get(name) for name in _AZURE_KEYS)


def _list_files(files: Any, path: str, shown: str, address: str) -> Mapping[str, tuple[str, int | None]]:
    """Return the remote path and the size of each file by its path in the folder, empty for a single file."""
    info = files.info(path)
    if info.get("type") != "directory" or protocol_of(address) in WEB:
        return {"": (path, _read_size(info))}
    found: dict[str, tuple[str, int | None]] = {}
    root = path.strip("/")
    for remote, details in files.find(path, detail=True).items():
        name = str(remote).strip("/").removeprefix(root).strip("/")
        parts = PurePosixPath(name).parts
        if not name or any(part[0] in "._" for part in parts) or details.get("type") == "directory":
            continue
        if len(found) >= MAX_FILES:
            raise UserError(f"`{shown}` holds more than {MAX_FILES:,} files", "name a folder with fewer")
        found[name] = remote, _read_size(details)
    if not found:
        raise UserError(f"`{shown}` holds no files", "correct the path; hidden files do not count")
    return found


def _read_size(info: Mapping[str, Any]) -> int | None:
    size = info.get("size")
    return size if isinstance(size, int) and size >= 0 else None


def _check_room(entries: Mapping[str, tuple[str, int | None]], folder: Path, shown: str) -> None:
    size = sum(size or 0 for _, size in entries.values())
    free = shutil.disk_usage(folder).free
    if size > free:
        raise UserError(
            f"`{shown}` has {size:,} bytes, and there is room for {free:,} in `{folder.parent}`",
            "set `TMPDIR` to a larger disk, or bind `data` to a data asset, which is mounted",
        )


def _get(files: Any, remote: str, target: Path, size: int | None) -> int:
    """Download a file, and return its size."""
    files.get_file(remote, str(target))
    arrived = target.stat().st_size
    if size is not None and arrived != size:
        raise _BrokenOffError(f"{arrived:,} of {size:,} bytes arrived")
    return arrived


class _BrokenOffError(Exception):
    """A transfer ended before the end of the file."""


def _retry(action: Callable[[], Item], shown: str) -> Item:
    """Return what an action returns; what may pass is tried again, and then raised as UserError."""
    began = time.monotonic()
    for attempt in range(_ATTEMPTS - 1):
        with suppress(_PassingError):
            return _attempt(action, shown, again=time.monotonic() - began < _PATIENCE)
        time.sleep(_PAUSE * 2**attempt)
    return _attempt(action, shown, again=False)


class _PassingError(Exception):
    """A fault that may be gone a second later."""


def _attempt(action: Callable[[], Item], shown: str, *, again: bool) -> Item:
    try:
        return action()
    except UserError:
        raise
    except Exception as error:
        fault = _unwrap(error)
        if again and _may_pass(fault):
            raise _PassingError from None
        raise _explain(fault, shown) from None


def _unwrap(error: Exception) -> Exception:
    """Return what a library's error is about: fsspec calls a server that does not answer a missing file."""
    cause = error.__cause__
    return cause if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) else error


def _may_pass(error: Exception) -> bool:
    """Whether a fault of the network or the server may be gone a second later."""
    if isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError | ImportError):
        return False
    status = _status_of(error)
    if status:
        return status >= 500 or status in (408, 429)
    return not _lacks_credentials(error)


def _lacks_credentials(error: Exception) -> bool:
    kind = type(error).__name__.lower()
    return "credential" in kind or "authentication" in kind


def _status_of(error: Exception) -> int:
    status = getattr(error, "status", None) or getattr(error, "status_code", None)
    return status if isinstance(status, int) else 0


def _explain(error: Exception, shown: str) -> UserError:
    status, kind = _status_of(error), type(error).__name__
    if isinstance(error, FileNotFoundError) or status == 404:
        return UserError(f"`{shown}` does not exist", "correct the address")
    if isinstance(error, PermissionError) or status in _FORBIDDEN or _lacks_credentials(error):
        answer = f": the server answered {status}" if status else ""
        return UserError(
            f"`{shown}` may not be read with the credentials here{answer}",
            "give the job an identity that may read it, or set the credentials in the environment",
        )
    if status:
        return UserError(f"cannot read `{shown}`: the server answered {status}", "try again later")
    reason = clip_text(mask_text(describe_error(error)), 160) or kind
    return UserError(f"cannot read `{shown}`: {reason}", "check the address and the connection")
