"""The built-in components, for people who write pipelines in Python with azure-ai-ml.

::

    from azure.ai.ml import dsl
    import worldsize

    shard_data = worldsize.components.load("shard_data")

    @dsl.pipeline(compute="cpu-cluster")
    def pipeline():
        shards = shard_data(source="builtin:digits").outputs.shards
"""

from __future__ import annotations

from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

from worldsize.base import resources
from worldsize.base.suggest import did_you_mean


def names() -> list[str]:
    """The names of the built-in components, sorted."""
    return list(resources.component_names())


def path(name: str) -> Path:
    """The ``component.yml`` of a built-in component.

    Raises:
        LookupError: There is no component of this name.
    """
    if name not in names():
        advice = did_you_mean(name, names())
        raise LookupError(f"there is no built-in component `{name}`" + (f": {advice}" if advice else ""))
    return resources.component_file(name)


def load(name: str) -> Any:
    """A built-in component as azure-ai-ml's own ``Component``, to be called inside a ``@dsl.pipeline``.

    Each node has ``resources`` and a ``distribution`` of its own: ``node.resources.instance_count = 2``.
    Nodes that :func:`azure.ai.ml.load_component` makes have no resources, and share the component's
    distribution.

    Raises:
        LookupError: There is no component of this name.
        ImportError: azure-ai-ml is not installed.
    """
    source = path(name)
    try:
        from azure.ai.ml import load_component  # two seconds, and only this verb needs Azure
    except ImportError as error:
        raise ImportError("loading a component needs azure-ai-ml: pip install 'worldsize[azure]'") from error
    component = load_component(source)
    component.__class__ = _with_own_settings(type(component))
    return component


@cache
def _with_own_settings(kind: Any) -> Any:
    """A class of components whose nodes share nothing that can be set."""
    from azure.ai.ml.entities import JobResourceConfiguration

    def make_node(self: Any, *arguments: Any, **inputs: Any) -> Any:
        node = kind.__call__(self, *arguments, **inputs)
        node.resources = copy(node.resources) or JobResourceConfiguration(instance_count=1)
        node.distribution = copy(node.distribution)
        return node

    return type(kind.__name__, (kind,), {"__call__": make_node, "__module__": kind.__module__})
