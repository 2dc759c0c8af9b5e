"""Each shipped spec compiles, byte for byte, to what is committed: on any hash seed, in any folder.

``compiled/<name>/`` holds the YAML and the plan; ``snapshots.sha256`` stands for the sources, which
are in the repository once already. ``pytest tests/golden --update-golden`` rewrites them.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import worldsize
from worldsize.base.source import Source
from worldsize.rules.script import _module

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "pipelines").glob("*.yml"))
HERE = Path(__file__).parent / "compiled"
HASHES = "snapshots.sha256"


def shown(name: str) -> bool:
    return not name.startswith("components/") or name.endswith("/component.yml")


def listing(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def expectation(folder: Path) -> dict[str, bytes]:
    """The committed form of a compiled folder."""
    files = listing(folder)
    hashes = [f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in files if not shown(name)]
    return {name: text for name, text in files.items() if shown(name)} | {HASHES: "".join(hashes).encode()}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the specs and their data: paths of data are relative to what is compiled."""
    folder = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "pipelines", folder / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@cache
def parse(text: str) -> _module.Module | None:
    """One of the modules that most of the outputs share."""
    return parse_module(Source("compiled.py", text))


parse_module = _module.parse_module


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_a_shipped_spec_compiles_to_what_is_committed(
    spec: Path, tree: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_module, "parse_module", lambda source: parse(source.text))
    out = tree / "compiled" / spec.stem
    worldsize.compile(tree / "pipelines" / spec.name, out)
    report = worldsize.check([out])
    assert report.errors == ()
    actual = expectation(out)
    golden = HERE / spec.stem
    if update_golden:
        shutil.rmtree(golden, ignore_errors=True)
        for name, text in actual.items():
            (golden / name).parent.mkdir(parents=True, exist_ok=True)
            (golden / name).write_bytes(text)
    expected = listing(golden)
    assert sorted(actual) == sorted(expected)
    for name, text in actual.items():
        lines = [side.decode().splitlines() for side in (expected[name], text)]
        assert not list(difflib.unified_diff(*lines, "committed", "compiled", lineterm="")), name


COMPILE_ALL = """
import sys
from functools import cache
from pathlib import Path
import worldsize
for spec in sys.argv[1:]:
    worldsize.compile(spec, Path(spec).stem)
"""


def test_hash_seed_folder_locale_and_machine_change_nothing(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "pipelines", tmp_path / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    compiled = tmp_path / "compiled"
    compiled.mkdir()
    environment = {"PYTHONHASHSEED": "4242", "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONUTF8": "1"}
    result = subprocess.run(
        [sys.executable, "-c", COMPILE_ALL, *(str(tmp_path / "pipelines" / spec.name) for spec in SPECS)],
        cwd=compiled,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    for spec in SPECS:
        assert expectation(compiled / spec.stem) == listing(HERE / spec.stem), spec.stem
    modes = {path.stat().st_mode for path in compiled.rglob("*") if path.is_file()}
    assert modes <= {0o100644, 0o100755}
    for name, content in listing(compiled).items():
        assert str(tmp_path).encode() not in content, name
        assert str(ROOT).encode() not in content, name


def test_a_spec_compiles_alike_wherever_its_tree_lies(tmp_path: Path) -> None:
    outputs = []
    for name in ("a", "b/deeper"):
        tree = tmp_path / name
        shutil.copytree(ROOT / "pipelines", tree, ignore=shutil.ignore_patterns("__pycache__"))
        worldsize.compile(tree / "own_script.yml", tree / "out")
        outputs.append(listing(tree / "out"))
    assert outputs[0] == outputs[1]
