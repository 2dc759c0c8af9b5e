"""How pictures and text are to be read: the inputs of `shard_data` that tables do not have."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from wsshards.errors import UserError

IMAGE_MODES = ("auto", "grey", "rgb", "rgba")
IMAGE_STORAGES = ("pixels", "jpeg")
MAX_SIDE = 4096  # pixels of a side
BYTES_TOKENIZER, BPE = "bytes", "bpe"
DEFAULT_VOCABULARY = 8192
SPECIAL_TOKENS = 2  # end of text and padding
LEAST_VOCABULARY = 256 + SPECIAL_TOKENS + 1  # all bytes, and one pair of them
MAX_VOCABULARY = 1_000_000


class MediaOptions(NamedTuple):
    """Inputs of `shard_data` for pictures and text.

    Attributes:
        image_size: `auto`, a number of pixels, or `HEIGHTxWIDTH`.
        image_mode: one of `IMAGE_MODES`.
        image_resize: `crop`, `stretch` or `pad`.
        image_storage: `pixels`, or `jpeg` to keep files.
        broken_images: `error` or `skip`.
        labels: path of a CSV with the labels of pictures inside the data; empty looks for `labels.csv`.
        text: column of the text; empty for numbers.
        tokenizer: `bytes`, `bpe`, or the path of a `tokenizer.json`.
        vocabulary_size: tokens of a BPE that is trained; 0 chooses by the size of the corpus.
        folder: of the data, in which a `tokenizer.json` is looked for.
    """

    image_size: str = "auto"
    image_mode: str = "auto"
    image_resize: str = "crop"
    image_storage: str = "pixels"
    broken_images: str = "error"
    labels: str = ""
    text: str = ""
    tokenizer: str = BYTES_TOKENIZER
    vocabulary_size: int = 0
    folder: Path | None = None


def parse_image_size(text: str) -> tuple[int, int] | None:
    """Return `(height, width)` in pixels of `224` or `224x320`; None for `auto`.

    Raises:
        UserError: it is neither, or out of range.
    """
    if text == "auto":
        return None
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) > 2 or not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise UserError(
            f"`image_size` is `{text}`", "give `auto`, a number of pixels such as 224, or HEIGHTxWIDTH"
        )
    sides = [int(part) for part in parts]
    if not all(1 <= side <= MAX_SIDE for side in sides):
        raise UserError(f"`image_size` is `{text}`", f"give sides of 1 to {MAX_SIDE:,} pixels")
    return sides[0], sides[-1]


def check_vocabulary(size: int) -> None:
    """Refuse a vocabulary that cannot hold all bytes, or that is too large; raises UserError."""
    if size and not LEAST_VOCABULARY <= size <= MAX_VOCABULARY:
        raise UserError(
            f"`vocabulary_size` is {size:,}",
            f"give {LEAST_VOCABULARY} to {MAX_VOCABULARY:,}: 256 bytes, {SPECIAL_TOKENS} special tokens and"
            " at least one pair",
        )
