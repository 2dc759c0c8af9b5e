"""The file of a built-in component is parsed once in a process, as long as it is the same."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from worldsize.azureml import files
from worldsize.azureml.component import load_component
from worldsize.azureml.files import Files
from worldsize.base import limits, resources


@pytest.fixture
def component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a component that takes the place of a built-in one."""
    path = tmp_path / "train_ddp" / "component.yml"
    path.parent.mkdir()
    shutil.copy(resources.component_file("train_ddp"), path)
    monkeypatch.setattr(resources, "components", lambda: tmp_path)
    monkeypatch.setattr(files, "_built_in", {})
    return path


def test_another_call_gets_what_the_first_has_parsed(
    component: Path, calls: Callable[[Callable[[], object]], int]
) -> None:
    parsing = calls(lambda: Files().document(component))
    again = Files()
    assert calls(lambda: again.document(component)) < parsing / 10
    assert again.document(component) is Files().document(component)
    found = load_component(component, again)
    assert found is not None
    assert found.name is not None
    assert found.name.value == "train_ddp"


def test_what_has_changed_is_read_anew(component: Path) -> None:
    first = Files().document(component)
    edited = component.read_text().replace("name: train_ddp", "name: train_ddq")
    component.write_text(edited)
    os.utime(component, ns=(1, 1))  # as long as before, at another time
    assert Files().document(component) is not first
    assert "train_ddq" in Files().document(component).text
    component.write_text(edited + "# longer\n")
    os.utime(component, ns=(1, 1))
    assert "# longer" in Files().document(component).text
    component.unlink()
    assert Files().document(component).root is None


def test_the_text_of_an_editor_comes_before_the_file(component: Path) -> None:
    Files().document(component)
    text = b"type: command\nname: unsaved\n"
    shown = Files(texts={Path(os.path.realpath(component)): text}).document(component)
    assert shown.text == text.decode()
    assert "unsaved" not in Files().document(component).text


def test_what_could_not_be_read_in_time_is_read_again(
    component: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop() -> None:
        raise limits.OverBudgetError

    with monkeypatch.context() as patch:
        patch.setattr(limits, "check_time", stop)
        assert Files().document(component).root is None
    assert Files().document(component).root is not None


def test_a_file_of_the_user_is_always_read(tmp_path: Path) -> None:
    path = tmp_path / "component.yml"
    path.write_text("type: command\n")
    assert Files().document(path) is not Files().document(path)
