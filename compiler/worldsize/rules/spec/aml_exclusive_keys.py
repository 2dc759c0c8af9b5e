"""Two keys of one mapping exclude each other.

An environment has an ``image`` or a ``build``, not both.

Why: The file is refused, or one of the two is dropped.

Bad::

    environment: {image: ubuntu, build: {path: ./docker}}

Good::

    environment: {image: ubuntu:22.04}

Fix: Keep one of the two.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS146", "aml-exclusive-keys", "error", since="0.1.0", summary="two keys that exclude each other")
