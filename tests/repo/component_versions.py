"""The versions of the components: a semantic part, and a hash of everything that registering one uploads.

``make golden`` writes them; tests/repo/test_snapshots.py holds them.
"""

from __future__ import annotations

import re
from pathlib import Path

from worldsize.azureml.component import read_component
from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.span import Span
from worldsize.emit.bundle import SHORT_HASH, bundle_component, hash_content

COMPONENTS = Path(__file__).parents[2] / "components"
_VERSION = re.compile(r"^version: (\d+\.\d+\.\d+)(-[0-9a-f]+)?$", re.MULTILINE)


def derive_version(folder: Path) -> str:
    """Return the version that a component should have: ``0.1.0-1f3a9c2b``.

    The hash is of its YAML without the version, its code with includes, and the files of its environment.
    """
    component, problems = read_component(folder / "component.yml")
    assert component is not None
    bundle = bundle_component(component, Span(str(folder), 1, 1, 1, 1), CopyAccess())
    assert not [*problems, *bundle.problems]
    semantic = str(bundle.document.pop("version")).partition("-")[0]
    return f"{semantic}-{hash_content(bundle.document, Snapshot(bundle.files))[:SHORT_HASH]}"


def write_versions() -> None:
    """Write the version of each component into its file."""
    for path in sorted(COMPONENTS.glob("*/component.yml")):
        text = path.read_text(encoding="utf-8")
        written = _VERSION.sub(f"version: {derive_version(path.parent)}", text, count=1)
        if written != text:
            path.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    write_versions()
