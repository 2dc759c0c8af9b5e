"""Files that requirement lines name: only those of the project are read, so that pip quotes no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.azureml.copying import CopyAccess, allow_everything
from worldsize.azureml.model import Field
from worldsize.checking import boundary
from worldsize.running.environments import definition
from worldsize.running.environments.definition import expand_requirements, read_definition
from worldsize.running.model.assets import AssetMap

LINES = [
    "-r /etc/passwd",
    "-r/etc/passwd",
    "--requirement=/etc/passwd",
    "--requirement /etc/passwd",
    "-r ../outside/passwd",
    "-r link",
    "-r nested.txt",
    "-c /etc/passwd",
    "-c ../outside/passwd",
    "--constraint=/etc/passwd",
    "--constraint ../outside/passwd",
    "-e /etc",
    "-e ../outside",
    "--editable=../outside",
    "/etc/passwd",
    "../outside",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "-c file:///etc/passwd",
    "-r file:///etc/passwd",
    "-e file:///etc",
    "secret @ file:///etc/passwd",
    "secret @ file://localhost/etc/pass%77d",
    "--find-links /etc/passwd",
    "-f file:///etc/passwd",
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "lib").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "nested.txt").write_text("-r deeper.txt\n")
    (folder / "deeper.txt").write_text("six\n-c /etc/passwd\n")
    (folder / "wanted.txt").write_text("six\n-e ./lib\n-c bound.txt\n")
    (folder / "bound.txt").write_text("six<2\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "passwd").write_text("root:x:0\n")
    return folder


def gate_of(folder: Path) -> CopyAccess:
    return CopyAccess(boundary.find_allowed(folder / "job.yml") or allow_everything)


def read(lines: list[str], folder: Path) -> tuple[definition.Definition, list[str]]:
    described = {"image": "python:3.11", "conda_file": {"dependencies": ["pip", {"pip": lines}]}}
    found, problems = read_definition(Field(described), folder, AssetMap(), gate_of(folder))
    return found, [problem.message for problem in problems]


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_leaves_the_project_is_refused(line: str, project: Path) -> None:
    found, problems = read(["six", line], project)
    assert found.requirements == ()
    assert len(problems) == 1
    assert "is outside the project" in problems[0]
    assert "root:" not in problems[0]


def test_files_of_the_project_are_read(project: Path) -> None:
    found, problems = read(["-r wanted.txt", "pandas @ https://example.org/pandas.whl"], project)
    assert problems == []
    expected = ("six", f"-e {project / 'lib'}", f"-c {project / 'bound.txt'}")
    assert found.requirements == (*expected, "pandas @ https://example.org/pandas.whl")


@pytest.mark.parametrize(
    "line", ["-r /etc/passwd", "-c ../../../../../../../etc/passwd", "-r ../outside/passwd"]
)
def test_without_a_project_only_what_looks_like_requirements_is_read(line: str, project: Path) -> None:
    (project / ".git").rmdir()
    found, problems = read([line], project)
    assert found.requirements == ()
    assert len(problems) == 1


@pytest.mark.parametrize("name", ["../../outside/passwd", "/etc/passwd"])
def test_a_dockerfile_outside_of_the_project_is_refused(name: str, project: Path) -> None:
    described = {"build": {"path": "lib", "dockerfile_path": name}}
    _, problems = read_definition(Field(described), project, AssetMap(), gate_of(project))
    assert [problem.message for problem in problems] == [
        f"`dockerfile_path` is `{name}`, which is outside the project"
    ]


def test_lines_without_paths_name_no_file(project: Path) -> None:
    lines = ["numpy>=1", "torch @ git+https://example.org/x.git", "--index-url https://example.org/simple"]
    assert list(expand_requirements(lines, project, CopyAccess(lambda _path: False))) == lines
