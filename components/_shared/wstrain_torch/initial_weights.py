"""Initial weights from another training, matched by the names of the parameters.

They are read from what a training, a person or a library has saved, without running any of it.
"""

from __future__ import annotations

import importlib
import json
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wsshards.errors import UserError, describe_error
from wstrain.checkpoint import checkpoint_folder
from wstrain.checkpoint.initial_model import find_initial_checkpoint, find_weight_files
from wstrain.weight_names import describe_loaded, expect_body, expect_matches
from wstrain_torch.checkpoint.sharded_checkpoint import ShardedCheckpoint
from wstrain_torch.checkpoint.tensor_state import MODEL
from wstrain_torch.freezing import short_name

Weights = dict[str, Tensor]

_PICKLED = (".pt", ".pth", ".bin")
_INSIDE = ("state_dict", "model", "model_state_dict")  # where other trainers keep the weights of a checkpoint
_DTYPES = {1: torch.uint8, 5: torch.int64, 6: torch.float16, 7: torch.float32, 8: torch.float64}
_DTYPES |= {12: torch.bool, 13: torch.bfloat16}  # by the numbers of torch.export's archive
_SHOWN = 3
_HELP = (
    "bind the output `model` or `checkpoints` of a training step, a registered model, or a folder with one"
    " state_dict as `*.safetensors` or `*.pt`"
)
# What wrappers put before the name of a parameter: an exported program, DDP, torch.compile, our own models.
_PREFIXES = ("", "network.", "module.", "_orig_mod.", "body.", "network.network.", "network.body.")
_COUNTER = "num_batches_tracked"


def load_initial_weights(model: nn.Module, place: Path) -> str:
    """Load the weights in ``place`` into ``model``, in place.

    A head with another number of outputs, or none in the file, keeps its own initial weights.

    Args:
        model: not yet distributed.
        place: see :func:`read_weights`.

    Returns:
        What was loaded, as a sentence.

    Raises:
        UserError: there are no weights, none has the name of a parameter, or one has another shape.
    """
    weights, source = read_weights(place)
    own = model.state_dict()
    found = _match_names(weights, own)
    expect_matches(weights, own, found)
    head = find_head(model)
    different = {name for name, tensor in found.items() if tensor.shape != own[name].shape}
    missing = {name for name in own if name not in found and not name.endswith(_COUNTER)}
    wrong = [name for name in own if name in different | missing and name not in head]
    expect_body(own, found, wrong, short_name)
    loaded = {name: tensor for name, tensor in found.items() if name not in different}
    with torch.no_grad():
        for name, tensor in loaded.items():
            own[name].copy_(tensor)
    return describe_loaded(source, own, found, sorted((different | missing) & head), short_name)


def find_head(model: nn.Module) -> set[str]:
    """Return the names of the parameters of the last layer, whose outputs are those of the task."""
    names = [name for name, _ in model.named_parameters()]
    layer = names[-1].rpartition(".")[0]
    return {name for name in names if name.rpartition(".")[0] == layer}


def _match_names(weights: Weights, own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give the weights the names of the model, by the prefixes with which most of them match."""
    best: dict[str, Tensor] = {}
    for removed in _PREFIXES:
        for added in _PREFIXES:
            if removed and added == removed:
                continue
            renamed = {
                f"{added}{name.removeprefix(removed)}": tensor
                for name, tensor in weights.items()
                if name.startswith(removed)
            }
            matched = {name: tensor for name, tensor in renamed.items() if name in own}
            best = max(best, matched, key=len)
    return best


def read_weights(place: Path) -> tuple[Weights, str]:
    """Read the weights that a file or folder holds.

    Args:
        place: an exported model of a training step, a folder of its checkpoints (the best one counts, else
            the newest), one of these, or a ``state_dict`` as ``*.safetensors``, ``*.pt``, ``*.pth`` or
            ``*.bin``.

    Returns:
        Tensors by name on the CPU, and what was read, for a message.

    Raises:
        UserError: there are no weights, or several files of which none stands out, or a file is damaged.
    """
    if place.is_file():
        return _read_file(place)
    checkpoint = find_initial_checkpoint(place, _HELP)
    if checkpoint is not None:
        return _read_checkpoint(checkpoint), f"checkpoint {checkpoint.path.name}"
    for endings in ((".pt2",), (".safetensors",), _PICKLED):
        files = find_weight_files(place, endings)
        if endings == (".safetensors",) and len({path.parent for path in files}) == 1:
            pieces = [_read_file(path)[0] for path in files]  # a large model is written in several
            weights = {name: tensor for piece in pieces for name, tensor in piece.items()}
            return weights, files[0].name if len(files) == 1 else f"{len(files)} safetensors files"
        if len(files) > 1:
            names = ", ".join(f"`{path.relative_to(place)}`" for path in files[:_SHOWN])
            raise UserError(
                f"`initial_model` has {len(files)} files of weights: {names}",
                "bind a folder with one of them",
            )
        if files:
            return _read_file(files[0])
    raise UserError(f"`initial_model` is `{place.name}`, which has no weights of PyTorch in it", _HELP)


def _read_checkpoint(checkpoint: checkpoint_folder.Checkpoint) -> Weights:
    if checkpoint.is_sharded:
        stored = ShardedCheckpoint(checkpoint.path)
        whole = {
            name: torch.empty_like(like, device="cpu")
            for name, like in stored.like.items()
            if name.startswith(MODEL)
        }
        stored.fill(whole)
        return {name.removeprefix(MODEL): tensor for name, tensor in whole.items()}
    if checkpoint_folder.STATE not in checkpoint.files:
        raise UserError(
            f"checkpoint `{checkpoint.path.name}` is not one of PyTorch",
            "use the component that wrote it, or bind the output `checkpoints` of a PyTorch training",
        )
    return dict(checkpoint_folder.load_state(checkpoint)["model"])


def _read_file(path: Path) -> tuple[Weights, str]:
    readers: dict[str, Callable[[Path], Weights]] = {
        ".pt2": read_program_weights,
        ".safetensors": _read_safetensors,
        **dict.fromkeys(_PICKLED, _read_pickled),
    }
    if path.suffix not in readers:
        raise UserError(f"`initial_model` is `{path.name}`, which is no file of weights", _HELP)
    try:
        weights = readers[path.suffix](path)
    except UserError:
        raise
    except Exception as error:  # a damaged file fails in many ways
        raise UserError(
            f"`{path.name}` of `initial_model` cannot be read: {describe_error(error)}", _HELP
        ) from error
    if not weights:
        raise UserError(f"`{path.name}` of `initial_model` holds no tensors", _HELP)
    return weights, path.name


def read_program_weights(path: Path) -> Weights:
    """Read the weights of a ``torch.export`` archive, and nothing else of it.

    ``torch.export.load`` would unpickle what the file says. Weights are plain bytes in the archive, which a
    JSON file lists by name.

    Raises:
        ValueError: a weight is pickled, or of a type that models do not have.
    """
    with zipfile.ZipFile(path) as archive:
        listed = next(name for name in archive.namelist() if name.endswith("_weights_config.json"))
        folder = listed.rpartition("/")[0]
        config: Mapping[str, Any] = json.loads(archive.read(listed))["config"]
        return {name: _read_payload(archive, folder, payload) for name, payload in config.items()}


def _read_payload(archive: zipfile.ZipFile, folder: str, payload: Mapping[str, Any]) -> Tensor:
    described = payload["tensor_meta"]
    if payload["use_pickle"] or described["dtype"] not in _DTYPES:
        raise ValueError("a weight is not stored as plain numbers")
    data = bytearray(archive.read(f"{folder}/{payload['path_name']}"))
    dtype = _DTYPES[described["dtype"]]
    numbers = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    size, stride = ([each["as_int"] for each in described[name]] for name in ("sizes", "strides"))
    return torch.as_strided(numbers, size, stride, described["storage_offset"]["as_int"])


def _read_safetensors(path: Path) -> Weights:
    try:
        library = importlib.import_module("safetensors.torch")
    except ImportError as error:
        raise UserError(
            f"`{path.name}` needs `safetensors`: {describe_error(error)}", "pip install safetensors"
        ) from error
    return dict(library.load_file(str(path)))


def _read_pickled(path: Path) -> Weights:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise UserError(
            f"`{path.name}` of `initial_model` holds more than tensors, which loading would execute",
            "save only the weights: `torch.save(model.state_dict(), path)`",
        ) from None
    for name in _INSIDE:
        if isinstance(content, Mapping) and isinstance(content.get(name), Mapping):
            content = content[name]
    if not isinstance(content, Mapping):
        raise UserError(
            f"`{path.name}` of `initial_model` holds a {type(content).__name__}, not a state_dict", _HELP
        )
    return {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
