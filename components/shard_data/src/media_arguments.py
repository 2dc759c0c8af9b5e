"""The part of the command line that is about pictures and text."""

from __future__ import annotations

import argparse
from pathlib import Path

from wsshards.picture_decoding import RESIZES
from wssources.media_options import (
    IMAGE_MODES,
    IMAGE_STORAGES,
    MediaOptions,
    check_vocabulary,
    parse_image_size,
)


def add_media_options(parser: argparse.ArgumentParser) -> None:
    """Add the inputs of `MediaOptions`."""
    add = parser.add_argument
    add("--image_size", default="auto")
    add("--image_mode", choices=IMAGE_MODES, default="auto")
    add("--image_resize", choices=RESIZES, default="crop")
    add("--image_storage", choices=IMAGE_STORAGES, default="pixels")
    add("--broken_images", choices=("error", "skip"), default="error")
    add("--labels", default="")
    add("--text", default="")
    add("--tokenizer", default="bytes")
    add("--vocabulary_size", type=int, default=0)


def media_options(options: argparse.Namespace) -> MediaOptions:
    """Return the inputs about pictures and text; raises UserError for one that is out of range."""
    names = set(MediaOptions._fields) - {"folder"}
    folder = Path(options.data) if options.data else None
    given = {name: value for name, value in vars(options).items() if name in names}
    media = MediaOptions(**given, folder=folder)
    parse_image_size(media.image_size)
    check_vocabulary(media.vocabulary_size)
    return media
