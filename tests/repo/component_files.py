"""Writes the trainers' ``component.yml`` from what they share and what each changes, and every version.

``make components`` runs this; tests/repo/test_snapshots.py compares.
"""

from __future__ import annotations

import re
from pathlib import Path

from worldsize.api.bundle import SHORT_HASH, bundle_component, hash_content
from worldsize.azureml.component import read_component
from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.span import Span

COMPONENTS = Path(__file__).parents[2] / "components"
_VERSION = re.compile(r"^version: (\d+\.\d+\.\d+)(-[0-9a-f]+)?$", re.MULTILINE)
_PART = "component.yml.in"
_PORTS = ("uri_folder", "uri_file", "custom_model")


def make_trainer(folder: Path) -> str:
    """Return the ``component.yml`` of a trainer, without the hash in its version.

    It is ``_shared/component.yml.in`` with what the trainer's own one changes, and a command that passes each
    input on as the option of its name.
    """
    shared, own = ((path / _PART).read_text("utf-8") for path in (COMPONENTS / "_shared", folder))
    merged = _merge(_split(shared), _split(own))
    inputs = _split(merged["inputs"].partition("\n")[2], "  ")
    arguments = "".join(_make_argument(name, text) for name, text in inputs.items())
    merged["command"] = merged["command"].replace("  python train.py\n", f"  python train.py\n{arguments}")
    spaced = {key: "\n" * (key in ("inputs", "outputs", "code")) + text for key, text in merged.items()}
    return "".join(spaced.values())


def _split(text: str, indent: str = "") -> dict[str, str]:
    """Return the text of each key of a mapping in YAML, without blank lines and comments between them."""
    text = re.sub(r"^(#.*)?\n", "", text, flags=re.MULTILINE)
    entries = re.findall(rf"^({indent}([\w$]+):.*\n(?:{indent} .*\n)*)", text, re.MULTILINE)
    return {key: entry for entry, key in entries}


def _merge(shared: dict[str, str], own: dict[str, str], indent: str = "") -> dict[str, str]:
    """Return a mapping with what ``own`` changes of it.

    A key without a value stays as it is, ``null`` leaves it out, and a new key stands below the one above it.
    Mappings are merged, lists joined, and other values replaced.
    """
    merged = dict(shared)
    above = ""
    for key, text in own.items():
        head, body = text.split("\n", 1)
        if head.endswith(": null"):
            del merged[key]
        elif key not in merged:
            items = list(merged.items())
            place = list(merged).index(above) + 1 if above else 0
            merged = dict([*items[:place], (key, text), *items[place:]])
        elif not head.endswith(":"):
            merged[key] = text
        elif body.lstrip().startswith("- "):
            merged[key] += body
        elif body:
            deeper = indent + "  "
            children = _merge(
                *(_split(entry.partition("\n")[2], deeper) for entry in (merged[key], text)), deeper
            )
            merged[key] = "".join([f"{head}\n", *children.values()])
        above = key
    return merged


def _make_argument(name: str, text: str) -> str:
    """Return the line of a command that passes an input on; what may hold spaces is quoted."""
    kind = re.search("type: (.*)", text)
    quote = "'" if kind and (kind[1] in _PORTS or (kind[1] == "string" and "    enum: " not in text)) else ""
    argument = f"--{name} {quote}${{{{inputs.{name}}}}}{quote}"
    return f"  $[[{argument}]]\n" if "    optional: true\n" in text else f"  {argument}\n"


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


def write_components() -> None:
    """Write the trainers' files, and the version of each component into its file."""
    for part in COMPONENTS.glob(f"train_*/{_PART}"):
        _write(part.with_suffix(""), make_trainer(part.parent))
    for path in sorted(COMPONENTS.glob("*/component.yml")):
        text = path.read_text(encoding="utf-8")
        _write(path, _VERSION.sub(f"version: {derive_version(path.parent)}", text, count=1))


def _write(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_components()
