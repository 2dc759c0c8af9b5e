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

from pathlib import Path
from typing import Any

from worldsize import resources
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

    Raises:
        LookupError: There is no component of this name.
        ImportError: azure-ai-ml is not installed.
    """
    source = path(name)
    try:
        from azure.ai.ml import load_component  # two seconds, and only this verb needs Azure
    except ImportError as error:
        raise ImportError("loading a component needs azure-ai-ml: pip install 'worldsize[azure]'") from error
    return load_component(source)
