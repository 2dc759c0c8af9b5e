"""A component's snapshot carries what it imports and nothing else, so that its hash changes only with it."""

from __future__ import annotations

import ast
import re
import runpy
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from worldsize.azureml import component, snapshot
from worldsize.azureml.copying import CopyAccess
from worldsize.running.reuse.digests import Digests

ROOT = Path(__file__).parents[2]
COMPONENTS = ROOT / "components"
NAMES = sorted(path.parent.name for path in COMPONENTS.glob("*/component.yml"))
SHARED = frozenset(
    path.name for path in (COMPONENTS / "_shared").iterdir() if (path / "__init__.py").is_file()
)
TRAINERS = frozenset(name for name in NAMES if name.startswith("train_"))
OTHERS = frozenset(NAMES) - TRAINERS


def snapshot_files(folder: Path) -> dict[str, bytes]:
    """What the component in ``folder`` uploads, by its place in the snapshot."""
    described, problems = component.read_component(folder / "component.yml")
    assert described is not None
    merged, more = snapshot.read_snapshot(described, folder, CopyAccess())
    assert not [*problems, *more]
    return {place: merged.content(place) for place in merged.listing()}


def needed_files(files: dict[str, bytes]) -> tuple[set[str], set[str]]:
    """Follow the imports of the component's own modules.

    Returns:
        The files of shared packages that are needed, and the modules that are missing.
    """
    todo = [place for place in files if place.endswith(".py") and PurePosixPath(place).parts[0] not in SHARED]
    needed: set[str] = set()
    missing: set[str] = set()
    while todo:
        place = todo.pop()
        for name in references(place, files[place].decode()):
            found = place_of(name, files)
            if found is None:
                missing.add(name)
            elif found not in needed:
                needed.add(found)
                todo += [found] if found.endswith(".py") else []
    return needed, missing


@cache
def references(place: str, text: str) -> frozenset[str]:
    """Modules of shared packages, and files beside a module, that its code names anywhere in it."""
    found: set[str] = set()
    folder = PurePosixPath(place).parent
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{place}: imports name their package in full"
            found.add(node.module)
            # Of `from package import name`, the name may be a module or something the package defines.
            if module_on_disk(node.module).is_dir():
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            if not node.value.replace(".", "_").isidentifier():
                continue
            found.add(node.value)  # a module that is imported by its name, a file that is read by its name
            if (COMPONENTS / "_shared" / folder / node.value).is_file():
                found.add((folder / node.value).as_posix())
    wanted = {name for name in found if name.split(".")[0].split("/")[0] in SHARED}
    modules = {name for name in wanted if "/" in name or exists_on_disk(name)}
    parents = {
        name.rsplit(".", cut)[0] for name in modules if "/" not in name for cut in range(name.count(".") + 1)
    }
    return frozenset(modules | parents)


def module_on_disk(name: str) -> Path:
    return COMPONENTS / "_shared" / Path(*name.split("."))


def exists_on_disk(name: str) -> bool:
    path = module_on_disk(name)
    return path.with_name(f"{path.name}.py").is_file() or (path / "__init__.py").is_file()


def place_of(name: str, files: dict[str, bytes]) -> str | None:
    if "/" in name:
        return name if name in files else None
    base = name.replace(".", "/")
    return next((place for place in (f"{base}.py", f"{base}/__init__.py") if place in files), None)


@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_carries_exactly_what_its_component_imports(name: str) -> None:
    files = snapshot_files(COMPONENTS / name)
    needed, missing = needed_files(files)
    assert not missing, "imported, but not in the snapshot: add the package to `additional_includes`"
    carried = {place for place in files if PurePosixPath(place).parts[0] in SHARED}
    assert not carried - needed, "in the snapshot, but not imported: leave it out in `src/.amlignore`"


def test_frameworks_keep_to_themselves() -> None:
    carried = {name: {PurePosixPath(p).parts[0] for p in snapshot_files(COMPONENTS / name)} for name in NAMES}
    assert "wstrain_torch" not in carried["train_tensorflow"]
    for trainer in TRAINERS:
        others = {f"wstrain_{name.removeprefix('train_')}" for name in TRAINERS - {trainer}}
        assert not carried[trainer] & {*others, "wsmodels", "wssources"}
    assert carried["shard_data"] & SHARED == {"wsfeed", "wsleaks", "wsshards", "wssources"}
    assert carried["promote"] & SHARED == {"wschampion", "wsmlflow", "wsshards"}
    measures = {
        "evaluate": {"wsleaks", "wsmetrics"},
        "register": set(),
        "compare": {"wschampion", "wsmetrics", "wspaired"},
    }
    for name, more in measures.items():
        assert carried[name] & SHARED == {"wsmlflow", "wsmodels", "wsshards"} | more


def test_an_edited_module_changes_the_hash_only_of_components_that_import_it(tmp_path: Path) -> None:
    copy = tmp_path / "components"
    shutil.copytree(COMPONENTS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shared = {path.relative_to(copy / "_shared").as_posix() for path in (copy / "_shared").rglob("*.py")}
    needed = {name: needed_files(snapshot_files(copy / name))[0] & shared for name in NAMES}
    for name in NAMES:
        before = content_hash(copy / name)
        unused = [copy / "_shared" / place for place in shared - needed[name]]
        originals = [edit(path) for path in unused]
        assert content_hash(copy / name) == before, name
        for path, text in zip(unused, originals, strict=True):
            path.write_bytes(text)
        merged = merged_snapshot(copy / name)
        hashes = [before[1]]
        for place in sorted(needed[name]):
            edit(copy / "_shared" / place)
            hashes.append(Digests().files(merged.files, copy / name).digest())
            assert hashes[-1] != hashes[-2], place
    only_trainers = set().union(*needed.values()) - set().union(*(needed[name] for name in OTHERS))
    # After an edit of any of these, Azure ML reuses shard_data, evaluate and register.
    assert len(only_trainers) > 80


def edit(path: Path) -> bytes:
    """Change a module, and return what it was."""
    text = path.read_bytes()
    path.write_bytes(text + b"# edited\n")
    return text


def merged_snapshot(folder: Path) -> snapshot.Snapshot:
    described, _ = component.read_component(folder / "component.yml")
    assert described is not None
    return snapshot.read_snapshot(described, folder, CopyAccess())[0]


def content_hash(folder: Path) -> tuple[dict[str, bytes], str]:
    """What is uploaded, and what `worldsize run` compares before it reuses a step."""
    return snapshot_files(folder), Digests().files(merged_snapshot(folder).files, folder).digest()


FILES = runpy.run_path(str(Path(__file__).with_name("component_files.py")))


@pytest.mark.parametrize("name", NAMES)
def test_a_version_follows_from_the_content(name: str) -> None:
    described, _ = component.read_component(COMPONENTS / name / "component.yml")
    assert described is not None
    assert described.version is not None
    assert described.version.value == FILES["derive_version"](COMPONENTS / name), "run `make components`"


@pytest.mark.parametrize(
    ("place", "edit_text"),
    [
        ("register/src/gate.py", lambda text: text + "# edited\n"),
        ("_shared/wsmlflow/active_run.py", lambda text: text + "# edited\n"),
        ("register/environment/conda.yml", lambda text: text.replace("mlflow", "mlflow-skinny")),
        ("register/component.yml", lambda text: text.replace("default: error", "default: skip")),
        ("register/component.yml", lambda text: text.replace("Register model", "Register a model")),
    ],
)
def test_a_version_changes_with_code_environment_and_interface(
    tmp_path: Path, place: str, edit_text: Callable[[str], str]
) -> None:
    copy = tmp_path / "components"
    shutil.copytree(COMPONENTS, copy, ignore=shutil.ignore_patterns("__pycache__", "train_*", "shard_data"))
    before = {name: FILES["derive_version"](copy / name) for name in ("register", "evaluate")}
    text = (copy / place).read_text()
    (copy / place).write_text(edit_text(text))
    assert (copy / place).read_text() != text
    after = {name: FILES["derive_version"](copy / name) for name in before}
    assert after["register"] != before["register"]
    assert (after["evaluate"] != before["evaluate"]) == place.startswith("_shared")
    semantic = re.sub(r"^(version: [\d.]+)-.*$", r"\1", (copy / place).read_text(), flags=re.MULTILINE)
    (copy / place).write_text(semantic)
    assert FILES["derive_version"](copy / "register") == after["register"]  # its own line does not count


@pytest.mark.parametrize("name", sorted(TRAINERS))
def test_a_trainer_is_written_from_what_all_share_and_what_it_changes(name: str) -> None:
    text = (COMPONENTS / name / "component.yml").read_text()
    semantic = re.sub(r"^(version: [\d.]+)-.*$", r"\1", text, flags=re.MULTILINE)
    assert semantic == FILES["make_trainer"](COMPONENTS / name), "run `make components`"


def test_a_part_changes_adds_and_leaves_out_keys() -> None:
    shared = """
inputs:
  kept:
    type: string
  gone:
    type: string

  changed:
    type: string
    default: a
includes:
  - one
"""
    own = """# Comments are not copied.
inputs:
  gone: null
  kept:
  new:
    type: integer
  changed:
    default: b
    enum: [a, b]
includes:
  - two
"""
    split, merge = FILES["_split"], FILES["_merge"]
    assert (
        "".join(merge(split(shared), split(own)).values())
        == """inputs:
  kept:
    type: string
  new:
    type: integer
  changed:
    type: string
    default: b
    enum: [a, b]
includes:
  - one
  - two
"""
    )
