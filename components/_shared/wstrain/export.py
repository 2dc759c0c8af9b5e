"""The trained model as an MLflow model that loads where this package is not installed.

The network becomes a ``torch.export`` program: weights and operations, no reference to Python classes,
nothing pickled. A short file of loading code travels with it (MLflow's "models from code").
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import torch
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec
from torch import Tensor, nn

from wstrain.errors import UserError
from wstrain.tasks import Task

SERVED = Path(__file__).with_name("served.py")


class _Answers(nn.Module):
    """The network with the stored type coming in, and what a caller wants coming out."""

    def __init__(self, network: nn.Module, task: Task) -> None:
        super().__init__()
        self.network = network
        self.classifies = task.name == "classification"

    def forward(self, x: Tensor) -> Tensor:
        """Class probabilities ``[n, classes]``, or scores of the next byte ``[n, tokens, 256]``."""
        if self.classifies:
            probabilities: Tensor = self.network(x.float()).float().softmax(-1)
            return probabilities
        scores: Tensor = self.network(x.long()).float()
        return scores


def program(network: nn.Module, task: Task) -> torch.export.ExportedProgram:
    """Export ``network`` for batches of any size (and texts of any length up to the one trained on).

    Raises:
        UserError: PyTorch cannot trace it.
    """
    dynamic: dict[int, Any] = {0: torch.export.Dim("rows", min=1)}
    if task.name == "language_model":
        dynamic[1] = torch.export.Dim("tokens", min=1, max=task.input_shape[0])
    example = torch.from_numpy(_example(task))
    try:
        # On failure PyTorch prints the graph it got so far, which says nothing to the owner of the model.
        with contextlib.redirect_stderr(io.StringIO()):
            return torch.export.export(_Answers(network, task).eval(), (example,), dynamic_shapes=(dynamic,))
    except Exception as error:
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"the model cannot be exported by torch.export: {first[0][:110]}",
            "its forward must be plain tensor operations for any batch size, without branches on values",
        ) from error


def save(network: nn.Module, task: Task, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write the MLflow model into ``folder``.

    Args:
        network: the trained network on the CPU.
        task: what it was trained for.
        folder: the ``model`` output; may exist, and what a former attempt left in it is replaced.
        facts: plan and final metrics, kept as ``metadata: {worldsize: …}``.

    Raises:
        UserError: the network cannot be exported or the folder not be written.
    """
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    with tempfile.TemporaryDirectory() as scratch:
        artefact, made = Path(scratch) / "program.pt2", Path(scratch) / "model"
        try:
            torch.export.save(program(network, task), artefact)
            mlflow.pyfunc.save_model(
                path=str(made),
                python_model=str(SERVED),
                artifacts={"program": str(artefact)},
                signature=_signature(task),
                input_example=_example(task),
                pip_requirements=_requirements(),
                metadata={"worldsize": dict(facts)},
            )
            _move_in(made, folder)
        except (OSError, RuntimeError) as error:  # PyTorch's writer reports a full disk as a RuntimeError
            raise UserError(
                f"cannot write the model: {_reason(error)}", "free space for it and run again"
            ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]


def _example(task: Task) -> np.ndarray[Any, Any]:
    return np.zeros((2, *task.input_shape), task.input_dtype)


def _signature(task: Task) -> ModelSignature:
    inputs: tuple[int, ...] = (-1, *task.input_shape)
    outputs: tuple[int, ...] = (-1, task.outputs)
    if task.name == "language_model":
        inputs, outputs = (-1, -1), (-1, -1, task.outputs)
    return ModelSignature(
        inputs=Schema([TensorSpec(np.dtype(task.input_dtype), inputs)]),
        outputs=Schema([TensorSpec(np.dtype(np.float32), outputs)]),
    )


def _requirements() -> list[str]:
    # A local version such as 2.8.0+cpu is on no index.
    torch_version = torch.__version__.split("+")[0]
    return [f"mlflow=={mlflow.__version__}", f"torch=={torch_version}", f"numpy=={np.__version__}"]


def _move_in(made: Path, folder: Path) -> None:
    # The output may be a mount point, which nothing can be renamed onto. MLmodel comes last: without it a
    # folder is no model, so what a full disk interrupts cannot be taken for one.
    card = folder / "MLmodel"
    folder.mkdir(parents=True, exist_ok=True)
    card.unlink(missing_ok=True)
    for source in sorted(made.rglob("*")):
        target = folder / source.relative_to(made)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif source.name != "MLmodel":
            shutil.copyfile(source, target)
    temporary = folder / ".MLmodel"
    shutil.copyfile(made / "MLmodel", temporary)
    temporary.rename(card)
