"""Each shipped spec compiles, byte for byte, to what is committed: on any hash seed, in any folder.

``compiled/<name>/`` holds what compiling writes: the YAML and the plan. Its compute files, which many folders
have alike, are in ``compiled/clusters.txt``. What it copies is in the repository once already:
``compiled/copies.txt`` has a digest of each copy, below the names of the folders that have it, so that a
change of a file is a change of one line. ``make golden`` rewrites all of it.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import worldsize
from worldsize.base.source import Source
from worldsize.scripts import module as scripts_module
from worldsize.scripts import program

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "pipelines").glob("*.yml"))
HERE = Path(__file__).parent / "compiled"
COPIES, CLUSTERS = HERE / "copies.txt", HERE / "clusters.txt"
BUILT_IN = {path.parent.name for path in (ROOT / "components").glob("*/component.yml")}
HEADER = "# Digests of what compiling copies; `in` names the folders that have it. `make golden` writes this."
Copies = dict[str, dict[str, str]]  # by compiled folder and file, the digest; of a cluster, the whole text


def shown(name: str) -> bool:
    """Whether a file is committed as it is: compiling wrote it, and did not copy it."""
    folder, _, below = name.removeprefix("components/").partition("/")
    return not name.startswith("components/") or (below == "component.yml" and folder not in BUILT_IN)


def listing(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def written(folder: Path) -> dict[str, bytes]:
    """What is committed of a compiled folder: of the plan all but its list of the folder's files."""
    files = listing(folder)
    names = ",\n".join(f'    "{name}"' for name in files if name != "plan.json")
    before, found, after = files["plan.json"].partition(f'  "files": [\n{names}\n  ]'.encode())
    assert found, f"{folder.name}/plan.json does not list every other file of its folder"
    files["plan.json"] = before + b'  "files": []' + after
    return {name: content for name, content in files.items() if shown(name)}


def copied(folder: Path) -> dict[str, str]:
    """A digest of each other file."""
    files = listing(folder).items()
    return {name: hashlib.sha256(content).hexdigest()[:16] for name, content in files if not shown(name)}


def read_clusters() -> Copies:
    """The committed compute files: each once, below the names of its folders."""
    clusters: Copies = defaultdict(dict)
    for section in CLUSTERS.read_text(encoding="utf-8").split("\n\n"):
        owners, name, text = section.strip().split("\n", 2)
        for folder in owners.removeprefix("in ").split():
            clusters[folder][name] = f"{text}\n"
    return clusters


def write_clusters(clusters: Copies) -> None:
    sections = [
        f"in {' '.join(folders)}\n{name}\n{text}" for (name, text), folders in group(clusters).items()
    ]
    CLUSTERS.write_text("\n".join(sections), encoding="utf-8")


def group(copies: Copies) -> dict[tuple[str, str], list[str]]:
    """The folders that have a file, by its name and digest or text."""
    owners: dict[tuple[str, str], list[str]] = defaultdict(list)
    for folder in sorted(copies):
        for pair in copies[folder].items():
            owners[pair].append(folder)
    return dict(sorted(owners.items()))


def committed(name: str) -> dict[str, bytes]:
    """The committed files of a compiled folder."""
    clusters = read_clusters()[name].items()
    return listing(HERE / name) | {file: text.encode() for file, text in clusters}


def read_copies() -> Copies:
    """The committed digests."""
    copies: Copies = defaultdict(dict)
    folders: list[str] = []
    for line in COPIES.read_text(encoding="utf-8").splitlines():
        if line.startswith("in "):
            folders = line.removeprefix("in ").split()
        elif not line.startswith("#"):
            digest, name = line.split(maxsplit=1)
            for folder in folders:
                copies[folder][name] = digest
    return copies


def write_copies(copies: Copies) -> None:
    """Write what ``read_copies`` reads: copies are together that the same folders have."""
    groups: dict[str, list[str]] = defaultdict(list)
    for (name, digest), folders in group(copies).items():
        groups["in " + " ".join(folders)].append(f"{digest}  {name}")
    lines = [HEADER, *(line for folders, below in sorted(groups.items()) for line in (folders, *below))]
    COPIES.write_text("\n".join(lines) + "\n", encoding="utf-8")


def accept(name: str, files: dict[str, bytes], digests: dict[str, str]) -> None:
    """Commit what a spec compiles to."""
    shutil.rmtree(HERE / name, ignore_errors=True)
    clusters = {file: content.decode() for file, content in files.items() if file.startswith("compute/")}
    write_clusters({**read_clusters(), name: clusters})
    for file in files.keys() - clusters.keys():
        (HERE / name / file).parent.mkdir(parents=True, exist_ok=True)
        (HERE / name / file).write_bytes(files[file])
    write_copies({**read_copies(), name: digests})


def describe_change(spec: Path, expected: dict[str, str], actual: dict[str, str]) -> str:
    """Which copies are not as committed, and how to see and accept them; empty if all are."""
    changes = [
        f"  {name}: {'changed' if name in expected and name in actual else 'new or gone'}"
        for name in sorted(expected.keys() | actual.keys())
        if expected.get(name) != actual.get(name)
    ]
    see = f"`worldsize compile pipelines/{spec.name} -o DIR` writes them; `make golden` accepts them"
    return "\n".join([f"{spec.stem} has copies that are not as committed", *changes, see]) if changes else ""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the specs and their data: paths of data are relative to what is compiled."""
    folder = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "pipelines", folder / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@cache
def parse(text: str) -> scripts_module.Module | None:
    """One of the modules that most of the outputs share."""
    return parse_module(Source("compiled.py", text))


parse_module = scripts_module.parse_module


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_a_shipped_spec_compiles_to_what_is_committed(
    spec: Path, tree: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "parse_module", lambda source: parse(source.text))
    out = tree / "compiled" / spec.stem
    worldsize.compile(tree / "pipelines" / spec.name, out)
    report = worldsize.check([out])
    assert report.errors == ()
    actual, digests = written(out), copied(out)
    if update_golden:
        accept(spec.stem, actual, digests)
    expected = committed(spec.stem)
    assert sorted(actual) == sorted(expected)
    for name, text in actual.items():
        lines = [side.decode().splitlines() for side in (expected[name], text)]
        assert not list(difflib.unified_diff(*lines, "committed", "compiled", lineterm="")), name
    assert actual == expected
    change = describe_change(spec, read_copies()[spec.stem], digests)
    assert not change, change


def test_nothing_is_committed_of_a_spec_that_is_gone(update_golden: bool) -> None:
    specs = {spec.stem for spec in SPECS}
    if update_golden:
        for read, write in ((read_copies, write_copies), (read_clusters, write_clusters)):
            write({name: files for name, files in read().items() if name in specs})
        for folder in HERE.iterdir():
            if folder.is_dir() and folder.name not in specs:
                shutil.rmtree(folder)
    assert {path.name for path in HERE.iterdir()} == specs | {COPIES.name, CLUSTERS.name}
    assert read_copies().keys() == read_clusters().keys() == specs


def test_a_changed_copy_is_named() -> None:
    before = {"a/component.yml": "1", "a/gone.py": "2", "a/same.py": "3"}
    change = describe_change(SPECS[0], before, {"a/component.yml": "4", "a/new.py": "5", "a/same.py": "3"})
    assert change.splitlines()[1:4] == [
        "  a/component.yml: changed",
        "  a/gone.py: new or gone",
        "  a/new.py: new or gone",
    ]
    assert f"worldsize compile pipelines/{SPECS[0].name} -o DIR" in change
    assert describe_change(SPECS[0], before, before) == ""


COMPILE_ALL = """
import sys
from functools import cache
from pathlib import Path
import worldsize
for spec in sys.argv[1:]:
    worldsize.compile(spec, Path(spec).stem)
"""


@pytest.mark.run
@pytest.mark.smoke
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
    copies = read_copies()
    for spec in SPECS:
        assert written(compiled / spec.stem) == committed(spec.stem), spec.stem
        assert copied(compiled / spec.stem) == copies[spec.stem], spec.stem
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
