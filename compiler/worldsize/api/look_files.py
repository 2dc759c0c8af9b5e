"""What a look at a spec needs of it: a digest of what a training depends on beside its data."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from worldsize.azureml.copying import Archive
from worldsize.base import untrusted
from worldsize.documents import yaml

INITIAL = "initial_model"  # the input of a trainer that has the weights to start from
REFERENCE = "feed_reference"  # the input of `shard_data` that has the statistics of the champion's feed
_NOT_TRAINED = ("schedule", "retrain", "description", "display_name", "tags")  # keys that no model depends on
_CODE = ("components/", "compute/")  # what does not follow from the spec and the data


def digest_code(text: str, files: Mapping[str, Path | bytes | Archive]) -> str:
    """A digest of a spec, its code and its environments; ``files`` are those that it is compiled to."""
    root = yaml.load("spec.yml", text).root
    assert root is not None
    spec = yaml.to_python(root)
    kept = {key: value for key, value in spec.items() if key not in _NOT_TRAINED}
    kept |= {"feed": spec.get("retrain", {}).get("feed")}  # so that a feed that was stopped is judged again
    total = hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode())
    for name, source in sorted(files.items()):
        if name.startswith(_CODE):
            content = untrusted.read_bytes(source) if isinstance(source, Path) else source
            content = content.content() if isinstance(content, Archive) else content
            total.update(b"\0".join((b"", os.fsencode(name), hashlib.sha256(content).digest())))
    return total.hexdigest()
