"""Finds and checks a `tokenizer.json`, for the step that uses it and the checker."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from wsshards.errors import UserError, clip_text, describe_error
from wsshards.regular_files import read_regular
from wssources.input_error import suggest
from wssources.media_options import BPE, BYTES_TOKENIZER, MediaOptions

MAX_TOKENIZER_BYTES = 64 << 20
NOT_ONE = "give the `tokenizer.json` that the library tokenizers saves, or `bpe`, or `bytes`"


def find_tokenizer_file(media: MediaOptions) -> Path:
    """Return the file that `tokenizer` names, inside the data or the code folder.

    Raises:
        UserError: there is none.
    """
    name = PurePosixPath(media.tokenizer)
    if name.is_absolute() or ".." in name.parts:
        raise UserError(
            f"tokenizer `{clip_text(str(name))}` leads out of the data", "give a path inside the folder"
        )
    for folder in (media.folder, Path()):
        if folder is not None and (folder / name).is_file():
            return folder / name
    near = suggest(media.tokenizer, (BYTES_TOKENIZER, BPE))
    help_ = (
        f"{near}, or give the path of a `tokenizer.json` inside the data"
        if name.suffix != ".json"
        else NOT_ONE
    )
    kind = "there is no tokenizer file" if name.suffix == ".json" else "unknown tokenizer"
    raise UserError(f"{kind} `{clip_text(media.tokenizer)}`", help_)


def check_tokenizer_file(media: MediaOptions) -> None:
    """Refuse a file that is not JSON with a model of tokens, without the library; raises UserError."""
    file = find_tokenizer_file(media)
    try:
        document = json.loads(read_regular(file, MAX_TOKENIZER_BYTES))
    except OSError as error:
        raise UserError(
            f"cannot read tokenizer `{media.tokenizer}`: {describe_error(error)}", NOT_ONE
        ) from None
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"`{media.tokenizer}` is not a tokenizer: it is not JSON: {str(error)[:80]}", NOT_ONE
        ) from None
    model = document.get("model") if isinstance(document, dict) else None
    if not isinstance(model, dict) or not model.get("vocab"):
        raise UserError(f"`{media.tokenizer}` is not a tokenizer: it has no `model` with a `vocab`", NOT_ONE)
