"""The DeepSpeed configuration that a command names, read from the code folder with its places."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from worldsize.azureml.references import local_path
from worldsize.rules.context import Context
from worldsize.rules.launch import Launch
from worldsize.yaml.nodes import Mapping, Node, Scalar

_FLAGS = ("deepspeed_config", "deepspeed", "ds_config")
_SPLITS_MODEL = (
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "model_parallel_size", "tp_size", "pp_size",
    "tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size", "expert_parallel_size",
)  # fmt: skip


def configs(context: Context, launch: Launch) -> Iterator[Mapping]:
    """The configurations; JSON is YAML, so that every value keeps its place."""
    component = launch.step.component
    raw, code = (component.raw, component.code) if component is not None else (None, None)
    if raw is None or code is None or not isinstance(code.value, str):
        return
    folder = local_path(code.value, Path(raw.source.path).parent)
    for flag in launch.flags(*_FLAGS):
        name = flag.value.bare if flag.value is not None else ""
        if folder is None or not name.endswith(".json") or "$" in name:
            continue
        path = folder / name
        if context.exists(path) and not context.is_folder(path):
            root = context.document(path).root
            if isinstance(root, Mapping):
                yield root


def whole(root: Mapping, name: str) -> tuple[int, Scalar] | None:
    """A whole number of the configuration; None where it is absent, ``auto`` or no such number."""
    node = root.get(name)
    if isinstance(node, Scalar) and type(node.value) is int:
        return node.value, node
    return None


def number(node: Node | None) -> float | None:
    """A number as JSON reads it: ``1e-3`` is one, though YAML takes it for text."""
    if not isinstance(node, Scalar) or node.style or isinstance(node.value, bool):
        return None
    try:
        return float(node.text)
    except ValueError:
        return None


def replicas(launch: Launch) -> int | None:
    """The processes that share a batch; None where they are unknown or the model itself is split."""
    split = any(launch.number(flag) != 1 for flag in launch.flags(*_SPLITS_MODEL))
    return None if split else launch.world
