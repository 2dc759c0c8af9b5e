"""The trained model as an MLflow model that loads where this package is not installed.

The network becomes a ``torch.export`` program: weights and operations, no reference to Python classes,
nothing pickled. A short file of loading code travels with it (MLflow's "models from code").
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wsshards.errors import UserError, describe_error
from wsshards.terms import LANGUAGE_MODEL
from wstrain_torch.data import Task

LOADING_CODE = Path(__file__).with_name("pyfunc_model.py")


class _Answers(nn.Module):
    """The network, from rows as stored to :meth:`Task.predictions`."""

    def __init__(self, network: nn.Module, task: Task) -> None:
        super().__init__()
        self.network, self.encoder, self.task = network, task.encoder, task

    def forward(self, x: Tensor) -> Tensor:
        """Rows ``[n, …]`` as stored to predictions ``[n, …, outputs]``."""
        x = x.long() if self.task.reads_tokens else x.float()
        if self.encoder is not None:
            x = self.encoder(x)
        return self.task.predictions(self.network(self.task.hook_inputs(x)))


def export_program(network: nn.Module, task: Task) -> torch.export.ExportedProgram:
    """Export ``network`` for batches of any size (and texts of any length up to the one trained on).

    Raises:
        UserError: PyTorch cannot trace it.
    """
    dynamic: dict[int, Any] = {0: torch.export.Dim("rows", min=1)}
    if task.name == LANGUAGE_MODEL:
        dynamic[1] = torch.export.Dim("tokens", min=1, max=task.input_shape[0])
    example = torch.from_numpy(task.example_rows())
    try:
        # On failure PyTorch prints its graph so far, which does not help the owner of the model.
        with contextlib.redirect_stderr(io.StringIO()):
            return torch.export.export(_Answers(network, task).eval(), (example,), dynamic_shapes=(dynamic,))
    except Exception as error:
        raise UserError(
            f"the model cannot be exported by torch.export: {describe_error(error, 110)}",
            "its forward must be plain tensor operations for any batch size, without branches on values",
        ) from error


def save_model(
    network: nn.Module, task: Task, folder: Path, facts: Mapping[str, Any], shards: Path | None = None
) -> None:
    """Write the MLflow model into ``folder``.

    Args:
        network: the trained network on the CPU.
        task: what it was trained for.
        folder: the ``model`` output; files of an earlier attempt in it are replaced.
        facts: plan and final metrics, kept as ``metadata: {worldsize: …}``.
        shards: the folder that has the tokenizer of texts.

    Raises:
        UserError: the network cannot be exported or the folder not be written.
    """
    from wstrain import export  # MLflow takes seconds to import, and one rank saves

    export.save_mlflow_model(
        lambda path: torch.export.save(export_program(network, task), path),
        LOADING_CODE,
        task,
        folder,
        artefact="program.pt2",
        requirements=[f"torch=={torch.__version__.split('+')[0]}"],  # 2.8.0+cpu is on no index
        facts=facts,
        shards=shards,
    )
