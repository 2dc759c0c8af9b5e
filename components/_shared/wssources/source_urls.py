"""Addresses of data that fsspec opens: what is wrong with one, and how messages show it."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from wsshards.errors import UserError, clip_text
from wssources.input_error import suggest

# The package that opens each protocol; those without one come with fsspec.
PROTOCOLS = {
    **dict.fromkeys(("http", "https"), "aiohttp"),
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("az", "abfs", "abfss"), "adlfs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    "azureml": "azureml-fsspec",
    "hf": "huggingface_hub",
    "file": "",
    "local": "",
    "memory": "",
    "ftp": "",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "smb": "smbprotocol",
    "webhdfs": "requests",
    "hdfs": "pyarrow",
    "dbfs": "requests",
    "github": "requests",
    "oss": "ossfs",
    "oci": "ocifs",
    "gdrive": "gdrivefs",
    "dropbox": "dropboxdrivefs",
    "lakefs": "lakefs-spec",
    "webdav": "webdav4",
}
WEB = ("http", "https")
_WITHOUT_HOST = frozenset({"file", "local", "memory", "hf", "dbfs", "gdrive", "dropbox", "webdav"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30})://")
_WASB = re.compile(r"wasbs?\Z", re.IGNORECASE)
_QUERY = re.compile(r"\?[^\s'\"`<>]*")
_USER = re.compile(r"://[^\s/@'\"]*@")


def is_address(source: str) -> bool:
    """Return whether a source is an address, such as `https://…`, and not a path."""
    return _SCHEME.match(source) is not None


def protocol_of(address: str) -> str:
    """Return the protocol of an address, in lower case."""
    found = _SCHEME.match(address)
    return found[1].lower() if found else ""


def check_address(address: str, data: str = "") -> None:
    """Refuse an address that cannot be opened, whatever is there.

    Args:
        address: that `source` gives.
        data: that the input `data` gives, or empty.

    Raises:
        UserError: its protocol is unknown, it has no host, or `data` is given too.
    """
    shown, protocol = mask_address(address), protocol_of(address)
    if _WASB.match(protocol):
        raise UserError(
            f"`{shown}` has the protocol `{protocol}`, which no library opens any more",
            "write `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH`",
        )
    if protocol not in PROTOCOLS:
        raise UserError(f"`{shown}` has the unknown protocol `{protocol}`", suggest(protocol, PROTOCOLS))
    try:
        host = (
            urlsplit(address).netloc.rpartition("@")[2 if protocol != "abfss" else 0]
            or urlsplit(address).netloc.rpartition("@")[2]
        )
    except ValueError as error:
        raise UserError(f"`{shown}` is not an address: {error}", "correct it") from None
    if not host and protocol not in _WITHOUT_HOST:
        what = "server" if protocol in WEB else "bucket or container"
        raise UserError(f"`{shown}` names no {what}", f"write `{protocol}://NAME/PATH`")
    if protocol in WEB and address_path(address).endswith("/"):
        raise UserError(
            f"`{shown}` names a folder, and a web server has no list of its files",
            "give the address of one file",
        )
    if data:
        raise UserError(f"`source` is the address `{shown}`, and `data` is bound too", "keep one of the two")


def address_path(address: str) -> str:
    """Return the path of an address: `/a/b.csv`, or `/` where there is none."""
    return unquote(urlsplit(address).path) or "/"


def mask_address(address: str) -> str:
    """Return an address for messages and manifests: without what follows `?`, and without a password."""
    masked = _QUERY.sub("", address)
    if protocol_of(address) in ("abfs", "abfss"):  # the container stands before `@`
        return clip_text(masked, 200)
    return clip_text(_USER.sub("://", masked), 200)


def mask_text(text: str) -> str:
    """Return a library's message without the queries and passwords of the addresses in it."""
    return _USER.sub("://", _QUERY.sub("", text))
