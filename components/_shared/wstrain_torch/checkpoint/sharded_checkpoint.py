"""Sharded checkpoints: every rank writes a part, in the format of ``torch.distributed.checkpoint``.

``.metadata`` lists which file has which slice of which tensor, so any number of ranks, or a single process,
can read the slices it needs. That file is a pickle; it is read here with nothing but the plain classes of the
format allowed, so reading a checkpoint executes no code.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.state_dict_loader import load

from wsshards.errors import UserError, describe_error
from wstrain.checkpoint.checkpoint_folder import HashedFile, skip_crc32

_METADATA = ".metadata"
_FORMAT = "torch.distributed.checkpoint"
# The classes and functions that a metadata file may name.
_ALLOWED = {
    (f"{_FORMAT}.metadata", "Metadata"),
    (f"{_FORMAT}.metadata", "MetadataIndex"),
    (f"{_FORMAT}.metadata", "TensorStorageMetadata"),
    (f"{_FORMAT}.metadata", "TensorProperties"),
    (f"{_FORMAT}.metadata", "ChunkStorageMetadata"),
    (f"{_FORMAT}.metadata", "_MEM_FORMAT_ENCODING"),
    (f"{_FORMAT}.filesystem", "_StorageInfo"),
    ("torch", "Size"),
    ("torch.serialization", "_get_layout"),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Which rank writes which slice; the same for every save of a training.

    Attributes:
        own: this rank's slices.
        metadata: of all ranks, without the files of the slices.
        shapes: the tensors it is for, see :func:`tensor_shapes`.
    """

    own: SavePlan
    metadata: Metadata
    shapes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """What a rank has written: its slices, and size and hash of each of its files."""

    slices: Sequence[Any]
    files: Mapping[str, Mapping[str, Any]]


def tensor_shapes(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return what a layout depends on: shape and type of each tensor."""
    return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}


def plan_layout(tensors: Mapping[str, Tensor], rank: int, gather: Callable[[Any], list[Any]]) -> Layout:
    """Decide which rank writes which slice; called by all.

    Args:
        tensors: by name. A ``DTensor`` is written slice by slice, each by a rank that has it; any other
            tensor counts as the same on all ranks that name it, and one of them writes it.
        rank: this process.
        gather: returns the values of all ranks, by rank.
    """
    planner = DefaultSavePlanner()
    planner.set_up_planner(dict(tensors), is_coordinator=rank == 0)
    # Every rank computes the same plan from the same input, so nothing is sent back.
    plans, metadata = planner.create_global_plan(gather(planner.create_local_plan()))
    plans = FileSystemWriter("").prepare_global_plan(plans)
    return Layout(plans[rank], metadata, tensor_shapes(tensors))


def select_own_slices(layout: Layout, tensors: Mapping[str, Tensor]) -> dict[int, Tensor]:
    """Return the tensors that this rank writes, by their number in the layout; not copied."""
    planner = DefaultSavePlanner()
    planner.set_up_planner(dict(tensors))
    return {
        number: cast("Tensor", planner.resolve_data(item)) for number, item in enumerate(layout.own.items)
    }


def write_part(folder: Path, layout: Layout, slices: Mapping[int, Tensor]) -> WrittenPart:
    """Write this rank's part into ``folder``; every rank by itself.

    Args:
        folder: the same for all ranks.
        layout: from :func:`plan_layout`.
        slices: from :func:`select_own_slices`, or copies of them.

    Raises:
        OSError: the part cannot be written.
    """
    # torch 2.10 warns of a call of its own.
    warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
    writer = _Writer(folder)
    results = writer.write_data(layout.own, cast("Any", _Slices(layout.own, slices)))
    return WrittenPart(results.value(), dict(writer.files.written))


def write_metadata(
    folder: Path, layout: Layout, written: Sequence[WrittenPart]
) -> dict[str, Mapping[str, Any]]:
    """Write ``.metadata`` on one rank, and return size and hash of every file.

    Raises:
        OSError: the file cannot be written.
    """
    writer = _Writer(folder)
    writer.finish(layout.metadata, [list(part.slices) for part in written])
    parts = [*(part.files for part in written), writer.files.written]
    return {name: card for files in parts for name, card in files.items()}


class ShardedCheckpoint:
    """A sharded checkpoint to read from, whatever number of ranks wrote it.

    Args:
        folder: of a complete checkpoint.

    Raises:
        UserError: its format cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._reader = _Reader(folder)
        try:
            metadata = self._reader.read_metadata()
            self.like: Mapping[str, Tensor] = {
                name: _meta(entry) for name, entry in metadata.state_dict_metadata.items()
            }
        except (OSError, pickle.UnpicklingError, AttributeError, TypeError, ValueError, EOFError) as error:
            raise _unreadable_error(folder, error) from error

    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Read into ``tensors``, which may be slices of any kind; every rank by itself.

        Raises:
            UserError: a file cannot be read.
        """
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="torch.distributed is disabled")
                load(dict(tensors), storage_reader=self._reader, no_dist=True)
        except CheckpointException as error:
            raise _unreadable_error(Path(self._reader.checkpoint_id), _first_cause(error)) from error


class _Files(FileSystem):
    """Hashes files while they are written."""

    def __init__(self) -> None:
        self.written: dict[str, dict[str, Any]] = {}
        self.failure: OSError | None = None

    @contextmanager
    def create_stream(self, path: Any, mode: str) -> Generator[Any, None, None]:
        with super().create_stream(path, mode) as file:
            if mode != "wb":
                yield file
                return
            hashed = HashedFile(cast("IO[bytes]", file))
            try:
                yield hashed
            finally:
                self.failure = self.failure or hashed.failure
        self.written[Path(path).name] = hashed.size_and_hash()

    def rename(self, path: Any, new_path: Any) -> None:
        super().rename(path, new_path)
        self.written[Path(new_path).name] = self.written.pop(Path(path).name)


class _Slices(DefaultSavePlanner):
    """Gives the writer tensors that were copied before."""

    def __init__(self, plan: SavePlan, slices: Mapping[int, Tensor]) -> None:
        super().__init__()
        self._slices = {item.index: slices[number] for number, item in enumerate(plan.items)}

    def resolve_data(self, write_item: Any) -> Tensor:
        return self._slices[write_item.index]


class _Writer(FileSystemWriter):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fs = self.files = _Files()

    def write_data(self, plan: Any, planner: Any) -> Any:
        try:
            with skip_crc32():
                return super().write_data(plan, planner)
        except (RuntimeError, OSError) as error:  # PyTorch's writer hides the system's error
            raise self.files.failure or error from error

    def storage_meta(self) -> StorageMeta | None:
        return None  # it would hold a path of this machine and a random number


class _Reader(FileSystemReader):
    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        with (Path(self.checkpoint_id) / _METADATA).open("rb") as file:
            metadata = _Unpickler(file).load()
        if not isinstance(metadata, Metadata):
            raise TypeError(f"`{_METADATA}` is not a list of tensors")
        for stored in metadata.storage_data.values():
            if Path(stored.relative_path).name != stored.relative_path:
                raise ValueError(f"`{_METADATA}` names a file outside the checkpoint")
        return metadata


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        kind = getattr(torch, name, None) if module == "torch" else None
        if isinstance(kind, torch.dtype):
            return kind
        raise pickle.UnpicklingError(f"`{_METADATA}` names `{module}.{name}`")


def _meta(entry: Any) -> Tensor:
    if not isinstance(entry, TensorStorageMetadata):
        raise TypeError(f"`{_METADATA}` has something else than tensors")
    return torch.empty(entry.size, dtype=entry.properties.dtype, device="meta")


def _first_cause(error: CheckpointException) -> Exception:
    cause = error.failures[min(error.failures)][0]
    return cause if isinstance(cause, Exception) else OSError(describe_error(cause))


def _unreadable_error(folder: Path, error: Exception) -> UserError:
    return UserError(f"cannot read checkpoint `{folder.name}`: {describe_error(error)}")
