"""Reads weights by name from what a TensorFlow training has saved, without running any of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from wsshards.errors import UserError, describe_error
from wstrain.checkpoint import checkpoint_folder
from wstrain.checkpoint.checkpoint_folder import Checkpoint
from wstrain.checkpoint.initial_model import find_initial_checkpoint, find_weight_files
from wstrain_tensorflow.checkpoint import NAMES, STATE

Weights = dict[str, npt.NDArray[Any]]

_PROGRAM = "saved_model.pb"
_PYTORCH = (".pt2", ".safetensors", ".pt", ".pth")
# The key of a variable in a SavedModel whose `weights` is a dictionary by name.
_KEY = re.compile(r"weights/(?P<name>[^/]+)/\.ATTRIBUTES/VARIABLE_VALUE")
_SHOWN = 3
HELP = "bind the output `model` or `checkpoints` of a train_tensorflow step, or a registered model of one"


def read_weight_files(place: Path) -> tuple[Weights, str]:
    """Read the weights of an exported model, or of the best checkpoint of a folder, else its newest.

    Only numbers are read: neither the graph of a SavedModel nor a pickle is loaded.

    Args:
        place: what `initial_model` is bound to.

    Returns:
        Arrays by name, and what was read, for a message.

    Raises:
        UserError: there are no weights of TensorFlow, or several models, or a file is damaged.
    """
    checkpoint = find_initial_checkpoint(place, HELP)
    if checkpoint is not None:
        return _read_checkpoint(checkpoint), f"checkpoint {checkpoint.path.name}"
    programs = find_weight_files(place, (_PROGRAM,))
    if len(programs) > 1:
        names = ", ".join(f"`{path.parent.relative_to(place)}`" for path in programs[:_SHOWN])
        raise UserError(
            f"`initial_model` has {len(programs)} SavedModels: {names}", "bind a folder with one of them"
        )
    if programs:
        return _read_program(programs[0].parent), f"SavedModel {programs[0].parent.name}"
    torch_file = next(iter(find_weight_files(place, _PYTORCH)), None)
    if torch_file is not None:
        raise UserError(
            f"PyTorch wrote `{torch_file.name}` of `initial_model`, and this step trains with TensorFlow",
            f"{HELP}, or fine-tune it with train_ddp",
        )
    raise UserError(f"`initial_model` is `{place.name}`, which has no weights of TensorFlow in it", HELP)


def _read_checkpoint(checkpoint: Checkpoint) -> Weights:
    name = checkpoint.path.name
    if STATE not in checkpoint.files:
        raise UserError(
            f"PyTorch wrote checkpoint `{name}` of `initial_model`, and this step trains with TensorFlow",
            f"{HELP}, or fine-tune it with train_ddp",
        )
    card = json.loads((checkpoint.path / checkpoint_folder.CARD).read_text(encoding="utf-8"))
    named = card.get(NAMES)
    if named is None:
        raise UserError(
            f"checkpoint `{name}` of `initial_model` has no names of weights: an earlier version wrote it",
            "bind a checkpoint or a model of this version",
        )
    try:
        with np.load(checkpoint.path / STATE, allow_pickle=False) as stored:
            return {
                weight: stored[f"{kind}/{number}"]
                for kind, weights in named.items()
                for number, weight in enumerate(weights)
            }
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise UserError(
            f"checkpoint `{name}` of `initial_model` cannot be read: {describe_error(error)}", HELP
        ) from error


def _read_program(folder: Path) -> Weights:
    import tensorflow as tf  # checkpoints need none

    try:
        reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
        keys = reader.get_variable_to_shape_map()
        weights = {
            _unescape(match["name"]): np.asarray(reader.get_tensor(key))
            for key in sorted(keys)
            if (match := _KEY.fullmatch(key))
        }
    except (tf.errors.OpError, RuntimeError, ValueError, OSError) as error:
        raise UserError(
            f"SavedModel `{folder.name}` of `initial_model` cannot be read: {describe_error(error)}", HELP
        ) from error
    if not weights:
        raise UserError(
            f"SavedModel `{folder.name}` of `initial_model` has no weights by name: another program wrote it,"
            " or an earlier version of train_tensorflow",
            HELP,
        )
    return weights


def _unescape(name: str) -> str:
    """Undo how TensorFlow writes a name in a key: ``/`` as ``.S``, and a dot twice."""
    return re.sub(r"\.([S.])", lambda match: "/" if match[1] == "S" else ".", name)
