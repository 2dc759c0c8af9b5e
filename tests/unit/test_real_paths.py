"""Paths are resolved as the system does, whatever is a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.azureml.copying import RealPaths


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("")
    (tmp_path / "linked").symlink_to("code")
    (tmp_path / "code" / "again.py").symlink_to("train.py")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "path",
    [
        "code/train.py",
        "linked/train.py",
        "linked/again.py",
        "linked/../code/train.py",
        "linked",
        "linked/",
        ".",
        "",
        "..",
        "code/.",
        "missing/train.py",
        "loop",
        "loop/train.py",
        "loop/deeper/train.py",
        "linked/" + "missing/" * 80 + "train.py",
        "/",
    ],
)
def test_a_path_is_resolved_as_the_system_does(tree: Path, path: str) -> None:
    paths = RealPaths()
    for each in (path, str(tree / path), path):  # once more from what it keeps
        assert paths.resolve(each) == os.path.realpath(each)
