"""Whether the files of a shards folder are those that its manifest promises: sizes and hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wsshards.errors import UserError, describe_error
from wsshards.manifest import AGAIN, Manifest, Shard, Tokenizer
from wsshards.regular_files import check_regular, open_regular
from wsshards.terms import SPLITS


def verify_shards(
    folder: str | Path,
    manifest: Manifest,
    *,
    splits: Iterable[str] = SPLITS,
    checksums: bool = True,
    part: tuple[int, int] = (0, 1),
) -> None:
    """Check that the shards are the files the manifest promises.

    Sizes are checked for every shard. Checksums are read in parallel; `part` lets each rank read only its
    share, so that a group reads every byte once.

    Args:
        folder: the shards folder.
        manifest: what it should hold.
        splits: the splits to check.
        checksums: also compare SHA-256, which reads every byte.
        part: `(rank, world size)`: checksums of the shards `rank`, `rank + world size`, ….

    Raises:
        UserError: naming the first shard that is missing, of another size, or of another content.
    """
    shards = [shard for name in splits for shard in manifest.split(name).shards]
    for shard in shards:
        check_shard_size(folder, shard)
    if manifest.features.tokenizer is not None and manifest.features.tokenizer.path:
        check_tokenizer(folder, manifest.features.tokenizer)
    if checksums:
        rank, world = part
        with ThreadPoolExecutor(max_workers=4) as pool:
            for _ in pool.map(lambda shard: check_shard_content(folder, shard), shards[rank::world]):
                pass


def check_shard_size(folder: str | Path, shard: Shard) -> None:
    """Compare the size of one shard with the manifest, without reading it; raises UserError."""
    path = Path(folder) / shard.path
    try:
        size = check_regular(path)
    except OSError as error:
        raise UserError(f"cannot read shard `{shard.path}`: {describe_error(error)}", help=AGAIN) from None
    if size != shard.bytes:
        raise UserError(
            f"shard `{shard.path}` has {size:,} bytes, and the manifest says {shard.bytes:,}", help=AGAIN
        )


def check_tokenizer(folder: str | Path, tokenizer: Tokenizer) -> None:
    """Compare the SHA-256 of the tokenizer's file with the manifest; raises UserError."""
    try:
        digest = hash_file(Path(folder) / tokenizer.path)
    except OSError as error:
        raise UserError(
            f"cannot read tokenizer `{tokenizer.path}`: {describe_error(error)}", help=AGAIN
        ) from None
    if digest != tokenizer.sha256:
        raise UserError(f"tokenizer `{tokenizer.path}` is not the one that the manifest names", help=AGAIN)


def check_shard_content(folder: str | Path, shard: Shard) -> None:
    """Compare the SHA-256 of one shard with the manifest, reading all of it; raises UserError."""
    try:
        digest = hash_file(Path(folder) / shard.path)
    except OSError as error:
        raise UserError(f"cannot read shard `{shard.path}`: {describe_error(error)}", help=AGAIN) from None
    if digest != shard.sha256:
        raise UserError(
            f"shard `{shard.path}` is corrupted: its sha256 is {digest[:12]}…, "
            f"and the manifest says {shard.sha256[:12]}…",
            help=AGAIN,
        )


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file in hex, read a piece at a time."""
    digest = hashlib.sha256()
    piece = memoryview(bytearray(1 << 20))
    with open_regular(path) as file:
        while count := file.readinto(piece):
            digest.update(piece[:count])
    return digest.hexdigest()
