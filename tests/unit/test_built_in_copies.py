"""The components of a compiled pipeline are checked where they are made, unless somebody changed them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import worldsize

SPEC = Path(__file__).parents[2] / "pipelines" / "digits_ddp.yml"
FAULT = "\nimport os\nimport torch\ntorch.cuda.set_device(int(os.environ['RANK']))\n"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    worldsize.compile(SPEC, folder)
    return folder


@pytest.fixture
def pipeline(compiled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compiled, tmp_path / "copy") / "pipeline.yml"


def list_scripts_read(report: worldsize.Report) -> set[str]:
    """The components of which a check read Python code."""
    parts = [Path(path).parts for path in report.sources if path.endswith(".py")]
    return {path[path.index("components") + 1] for path in parts}


def test_the_scripts_of_an_unchanged_copy_are_not_read(pipeline: Path) -> None:
    report = worldsize.check(pipeline)
    assert report.exit_code == 0
    assert list_scripts_read(report) == set()


def test_a_folder_with_an_unchanged_copy_is_clean(pipeline: Path) -> None:
    report = worldsize.check(pipeline.parent)
    assert report.exit_code == 0
    assert list_scripts_read(report) == set()
    assert len([path for path in report.files if path.endswith("component.yml")]) == 4


def test_a_fault_in_a_changed_copy_is_found(pipeline: Path) -> None:
    script = pipeline.parent / "components" / "train_ddp" / "src" / "train.py"
    script.write_text(script.read_text(encoding="utf-8") + FAULT, encoding="utf-8")
    report = worldsize.check(pipeline)
    assert ("WS909", str(script)) in {(each.code, each.span.path) for each in report.diagnostics}
    assert list_scripts_read(report) == {"train_ddp"}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("component.yml", "--trained_model", "--model_folder"),
        ("component.yml", "default: none", "default: light"),
        ("component.yml", "version: 0.", "version: 9."),
        ("environment/conda.yml", "dependencies:", "dependencies: # pinned"),
        ("src/wstrain/settings.py", "import", "import  "),
    ],
)
def test_an_edit_makes_a_copy_a_component_of_the_user(file: str, old: str, new: str, pipeline: Path) -> None:
    path = pipeline.parent / "components" / "train_ddp" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert list_scripts_read(worldsize.check(pipeline)) == {"train_ddp"}


def test_a_file_more_or_less_makes_a_copy_a_component_of_the_user(pipeline: Path) -> None:
    code = pipeline.parent / "components" / "train_ddp" / "src"
    added = code / "own_model.py"
    added.write_text("x = 1\n", encoding="utf-8")
    assert list_scripts_read(worldsize.check(pipeline)) == {"train_ddp"}
    added.unlink()
    assert list_scripts_read(worldsize.check(pipeline)) == set()
    (code / "wstrain" / "settings.py").unlink()
    assert list_scripts_read(worldsize.check(pipeline)) == {"train_ddp"}


def test_a_file_that_is_open_in_an_editor_is_read(pipeline: Path) -> None:
    script = pipeline.parent / "components" / "train_ddp" / "src" / "train.py"
    text = script.read_text(encoding="utf-8") + FAULT
    report = worldsize.check(pipeline, texts={str(script): text.encode()})
    assert "WS909" in {each.code for each in report.diagnostics}
