"""The command line of `shard_data`."""

from __future__ import annotations

import argparse
from pathlib import Path

from wsshards.errors import UserError
from wsshards.manifest import MAX_SHARDS
from wsshards.picture_decoding import RESIZES
from wsshards.terms import HASH
from wssources.find_files import FORMATS
from wssources.media_options import (
    IMAGE_MODES,
    IMAGE_STORAGES,
    MediaOptions,
    check_vocabulary,
    parse_image_size,
)
from wssources.planned_rows import default_source, first_of_files
from wssources.request import MISSING, REFUSE
from wssources.split_settings import METHODS, make_split
from wssources.tasks import AUTO, TASK_CHOICES


def parse_options() -> argparse.Namespace:
    """Parse the command line in `component.yml`; raises UserError for values out of range."""
    parser = argparse.ArgumentParser(description="Shard data.")
    parser.add_argument("--source", default="")
    parser.add_argument("--data", default="")
    parser.add_argument("--format", choices=FORMATS, default="auto")
    parser.add_argument("--task", choices=TASK_CHOICES, default=AUTO)
    parser.add_argument("--label", default="label")
    parser.add_argument("--features", default="")
    parser.add_argument("--missing", choices=MISSING, default=REFUSE)
    parser.add_argument("--column_types", default="")
    parser.add_argument("--sequence_length", type=int, default=128)
    parser.add_argument("--shard_count", type=int, default=1)
    parser.add_argument("--validation_fraction", type=float, default=0.2)
    parser.add_argument("--test_fraction", type=float, default=0.0)
    parser.add_argument("--split", choices=METHODS, default=HASH)
    parser.add_argument("--split_by", default="")
    parser.add_argument("--split_time", default="")
    parser.add_argument("--validation_after", default="")
    parser.add_argument("--test_after", default="")
    parser.add_argument("--window", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory_limit_mib", type=int, default=512)
    _add_media_options(parser)
    for name in ("feed_stop", "feed_warn", "feed_thresholds", "feed_reference"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--shards", required=True)
    options = parser.parse_args()
    options.source = options.source or _choose_source(parser, options)
    for name, low in (("sequence_length", 1), ("shard_count", 1), ("seed", 0), ("memory_limit_mib", 1)):
        if getattr(options, name) < low:
            raise UserError(f"`{name}` is {getattr(options, name)}", f"give a whole number of at least {low}")
    if options.shard_count > MAX_SHARDS:
        raise UserError(
            f"`shard_count` is {options.shard_count:,}", f"give a whole number of at most {MAX_SHARDS:,}"
        )
    if any("\ud800" <= character <= "\udfff" for character in options.source):  # the manifest names it
        raise UserError(f"the name `{options.source}` is not UTF-8", "rename the file or folder")
    make_split(vars(options), options.seed)
    return options


def _choose_source(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """Return what is read where nothing is said: all of the data, or the digits if there is none.

    Raises:
        UserError: an input says how files are read, but there are none.
    """
    changed = (name for name, value in vars(options).items() if value != parser.get_default(name))
    name = None if options.data else first_of_files(changed)
    if name is not None:
        raise UserError(
            f"`{name}` is `{getattr(options, name)}`, but no `data` is given",
            "give the file or folder to read as `data`, or leave out the inputs that say how it is read",
        )
    return default_source(has_data=bool(options.data))


def _add_media_options(parser: argparse.ArgumentParser) -> None:
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
