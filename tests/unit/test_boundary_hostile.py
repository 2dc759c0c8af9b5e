"""Hostile includes and links: whatever leads out of the project is reported, refused, and copied nowhere."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import worldsize
from worldsize.azureml import copying as gates
from worldsize.azureml import snapshot
from worldsize.azureml.copying import CopyAccess, copy_listed, open_listed
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.span import Span
from worldsize.documents.errors import OutputError, SpecError
from worldsize.running.model.errors import RunError
from worldsize.running.model.options import RunOptions
from worldsize.running.prepare import preparation
from worldsize.running.reuse import digests
from worldsize.running.reuse.digests import TreeEntry, walk_tree

SECRET = "worldsize-boundary-secret"
HEAD = "$schema: https://azuremlschemas.azureedge.net/latest/"
COMPONENT = (
    HEAD
    + "commandComponent.schema.json\ntype: command\nname: train\nversion: '1'\ncommand: python train.py\n"
)
JOB = HEAD + "pipelineJob.schema.json\ntype: pipeline\nsettings: {default_compute: azureml:c}\njobs:\n"
SPEC = """\
name: digits
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}
steps:
  train:
    uses: ./c/component.yml
    compute: gpu
"""
PLAIN = "environment: azureml:e:1\n"
CODE = PLAIN + "code: ./src\n"


def link(place: str, target: str) -> Callable[[Path], object]:
    """A link in the project to somewhere in the home beside it (``~``), or anywhere."""

    def make(project: Path) -> None:
        path = project / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target.replace("~", str(project.parent / "home")))

    return make


def both(*steps: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda project: [step(project) for step in steps]


def nothing(project: Path) -> None:
    """The tree is as it is: the component alone is hostile."""


def include(text: str) -> str:
    return f"{CODE}additional_includes: [{text}]\n"


HOSTILE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "include-absolute-folder": (include("HOME/keys"), nothing),
    "include-absolute-file": (include("HOME/keys/id.txt"), nothing),
    "include-absolute-zip": (include("HOME/keys.zip"), nothing),
    "include-system-zip": (include("/etc/ssl.zip"), nothing),
    "include-system-file": (include("/etc/passwd"), nothing),
    "include-dots": (include("../../home/keys"), nothing),
    "include-dots-inside": (include("./x/../../../home/keys"), nothing),
    "include-dots-zip": (include("../../home/keys.zip"), nothing),
    "include-file-scheme": (include("file:HOME/keys"), nothing),
    "include-link-to-folder": (include("./lib"), link("c/lib", "~/keys")),
    "include-link-to-file": (include("./one.txt"), link("c/one.txt", "~/keys/id.txt")),
    "include-link-to-zip": (include("./data.zip"), link("c/data.zip", "~/keys/whole.zip")),
    "include-through-link": (include("./door/keys"), link("c/door", "~")),
    "include-through-link-zip": (include("./door/keys.zip"), link("c/door", "~")),
    "include-folder-with-link": (include("./lib"), link("c/lib/id", "~/keys/id.txt")),
    "include-folder-with-parent": (include("./lib"), link("c/lib/up", "../../..")),
    "zip-over-link": (include("./data.zip"), link("c/data", "~/keys")),
    "zip-with-file-link": (include("./data.zip"), link("c/data/id", "~/keys/id.txt")),
    "zip-with-system-link": (include("./data.zip"), link("c/data/passwd", "/etc/passwd")),
    "zip-with-folder-link": (include("./data.zip"), link("c/data/deep/keys", "~/keys")),
    "zip-link-to-link": (
        include("./data.zip"),
        both(link("c/data/a", "../b"), link("c/b", "~/keys")),
    ),
    "code-is-link": (PLAIN + "code: ./door\n", link("c/door", "~/keys")),
    "code-through-link": (PLAIN + "code: ./door/keys\n", link("c/door", "~")),
    "code-file-link": (PLAIN + "code: ./door.py\n", link("c/door.py", "~/keys/id.txt")),
    "code-absolute": (PLAIN + "code: HOME/keys\n", nothing),
    "code-dots": (PLAIN + "code: ./src/../../../home/keys\n", nothing),
    "link-file": (CODE, link("c/src/id", "~/keys/id.txt")),
    "link-folder": (CODE, link("c/src/deep/keys", "~/keys")),
    "link-relative": (CODE, link("c/src/keys", "../../../home/keys")),
    "link-parent": (CODE, link("c/src/up", "../../..")),
    "link-root": (CODE, link("c/src/root", "/")),
    "link-home-hidden": (CODE, link("c/src/.cache", "~")),
    "link-to-link": (CODE, both(link("c/src/a", "../b"), link("c/b", "../d"), link("d", "~/keys/id.txt"))),
    "link-beside-prefix": (CODE, link("c/src/keys", "../../../project-private")),
    "link-proc": (CODE, link("c/src/environ", "/proc/self/environ")),
    "ignore-file-link": (CODE, link("c/src/.amlignore", "~/keys/id.txt")),
    "conda-absolute": (
        CODE.replace(PLAIN, "environment: {image: i:1, conda_file: HOME/keys/conda.yml}\n"),
        nothing,
    ),
    "conda-link": (
        CODE.replace(PLAIN, "environment: {image: i:1, conda_file: ./conda.yml}\n"),
        link("c/conda.yml", "~/keys/conda.yml"),
    ),
    "environment-file": (CODE.replace(PLAIN, "environment: file:HOME/keys/env.yml\n"), nothing),
    "environment-link": (
        CODE.replace(PLAIN, "environment: file:./env.yml\n"),
        link("c/env.yml", "~/keys/env.yml"),
    ),
    "build-absolute": (CODE.replace(PLAIN, "environment: {build: {path: HOME/keys}}\n"), nothing),
    "build-with-link": (
        CODE.replace(PLAIN, "environment: {build: {path: ./context}}\n"),
        both(link("c/context/id", "~/keys/id.txt"), link("c/context/Dockerfile", "../src/train.py")),
    ),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a component, beside a home folder and a folder whose name begins like the project's."""
    keys = tmp_path / "home" / "keys"
    keys.mkdir(parents=True)
    (keys / "id.txt").write_text(SECRET)
    (keys / "train.py").write_text(SECRET)
    (keys / "whole.zip").write_text(SECRET)
    (keys / "conda.yml").write_text(f"dependencies: [python=3.11]  # {SECRET}")
    (keys / "env.yml").write_text(f"image: {SECRET}:1")
    (keys / "Dockerfile").write_text(f"FROM {SECRET}:1")
    (tmp_path / "project-private").mkdir()
    (tmp_path / "project-private" / "id.txt").write_text(SECRET)
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "c" / "src").mkdir(parents=True)
    (project / "c" / "src" / "train.py").write_text("print('hello')")
    (project / "spec.yml").write_text(SPEC)
    (project / "job.yml").write_text(JOB + "  train:\n    type: command\n    component: ./c/component.yml\n")
    monkeypatch.chdir(project)
    return project


def write(project: Path, component: str) -> None:
    text = component.replace("HOME", str(project.parent / "home"))
    (project / "c" / "component.yml").write_text(COMPONENT + text)


@pytest.mark.parametrize("case", HOSTILE)
def test_nothing_leads_out_of_the_project(project: Path, tmp_path: Path, case: str) -> None:
    component, make = HOSTILE[case]
    write(project, component)
    make(project)
    if case == "ignore-file-link":  # a link to patterns is a file of the code like any other
        assert SECRET in (project / "c" / "src" / ".amlignore").read_text()
    found = [each for each in worldsize.check(["job.yml"]).diagnostics if each.code in ("WS815", "WS816")]
    assert found, "check is silent"
    assert all(each.span.path.endswith("component.yml") and each.span.line >= 6 for each in found)
    with pytest.raises(SpecError) as refused:
        worldsize.compile("spec.yml", "build")
    assert {each.code for each in refused.value.diagnostics if each.severity == "error"} <= {"WS815", "WS816"}
    assert not Path("build").exists()
    with pytest.raises((RunError, SpecError), match="is outside the"):
        preparation.prepare(Path("job.yml"), tmp_path / "pipeline", RunOptions(environment="isolated"))


def test_a_comment_lifts_none_of_it(project: Path, tmp_path: Path) -> None:
    write(project, f"{PLAIN}code: ./src  # worldsize: ignore[WS816]\n")
    link("c/src/id", "~/keys/id.txt")(project)
    assert not worldsize.check(["job.yml"]).errors
    with pytest.raises(SpecError, match="WS816"):
        worldsize.compile("spec.yml", "build")
    with pytest.raises(RunError, match="WS816"):
        preparation.prepare(Path("job.yml"), tmp_path / "pipeline")


@pytest.mark.parametrize("target", ["../home/component.yml", "./door/component.yml"])
def test_a_component_of_another_project_is_not_copied(project: Path, tmp_path: Path, target: str) -> None:
    home = tmp_path / "home"
    (home / ".git").mkdir()
    (home / "component.yml").write_text(COMPONENT + PLAIN)
    (project / "door").symlink_to(home)
    mark = "  # worldsize: ignore[WS034]"
    Path("spec.yml").write_text(SPEC.replace("./c/component.yml", target + mark))
    Path("job.yml").write_text(JOB + f"  train:\n    type: command\n    component: {target}{mark}\n")
    with pytest.raises(SpecError):
        worldsize.compile("spec.yml", "build")
    assert not Path("build").exists()
    with pytest.raises((RunError, SpecError)):
        preparation.prepare(Path("job.yml"), tmp_path / "pipeline")


@pytest.mark.parametrize("lines", ["-r HOME/keys/id.txt", "-c HOME/keys/id.txt", "--requirement=./door.txt"])
def test_requirements_of_another_folder_are_not_read(project: Path, tmp_path: Path, lines: str) -> None:
    link("c/door.txt", "~/keys/id.txt")(project)
    said = lines.replace("HOME", str(tmp_path / "home"))
    (project / "c" / "conda.yml").write_text(f"dependencies: [python=3.11, pip, {{pip: ['{said}']}}]\n")
    write(project, CODE.replace(PLAIN, "environment: {image: 'ubuntu:22.04', conda_file: ./conda.yml}\n"))
    with pytest.raises(RunError, match="is outside the project") as refused:
        preparation.prepare(Path("job.yml"), tmp_path / "pipeline", RunOptions(environment="isolated"))
    assert SECRET not in str(refused.value)


def test_links_inside_of_the_project_are_copied(project: Path) -> None:
    (project / "lib").mkdir()
    (project / "lib" / "tools.py").write_text("x = 1")
    link("c/src/lib", "../../lib")(project)
    write(project, CODE + "additional_includes: [../lib.zip]\n")
    assert not worldsize.check(["job.yml"]).errors
    files = worldsize.compile("spec.yml", "build").files
    assert {name.partition("/src/")[2] for name in files} >= {"lib/tools.py", "train.py", "lib.zip"}


@pytest.mark.parametrize("swap", ["file", "folder", "pipe"])
def test_what_is_replaced_after_the_check_is_not_read(project: Path, tmp_path: Path, swap: str) -> None:
    deep = project / "c" / "src" / "deep"
    deep.mkdir()
    (deep / "id.txt").write_text("mine")
    listed = Snapshot()
    assert not snapshot.add_to_snapshot(listed, project / "c" / "src", Span("c", 1, 1, 1, 1), CopyAccess())
    source = listed.files["deep/id.txt"]
    assert isinstance(source, Path)
    if swap == "folder":
        deep.rename(project / "c" / "old")
        deep.symlink_to(tmp_path / "home" / "keys")
    else:
        (deep / "id.txt").unlink()
        if swap == "file":
            (deep / "id.txt").symlink_to(tmp_path / "home" / "keys" / "id.txt")
        else:
            os.mkfifo(deep / "id.txt")
    with pytest.raises(OSError, match=r"replaced|symbolic"):
        copy_listed(source, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_swap_between_listing_and_copying_ends_a_compile(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, CODE)
    script = project / "c" / "src" / "train.py"
    opened = gates.open_listed

    def swapped(path: Path) -> object:
        if path.name == "train.py" and not script.is_symlink():
            script.unlink()
            script.symlink_to(project.parent / "home" / "keys" / "train.py")
        return opened(path)

    monkeypatch.setattr(gates, "open_listed", swapped)
    with pytest.raises(OutputError):
        worldsize.compile("spec.yml", "build")
    assert not Path("build").exists()


def test_pipes_sockets_and_broken_links_are_named_and_left_out(project: Path) -> None:
    src = project / "c" / "src"
    os.mkfifo(src / "pipe")
    (src / "gone").symlink_to("nowhere")
    (src / "again").symlink_to(".")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("c/src/s")
        write(project, CODE)
        found = [each.message for each in worldsize.check(["job.yml"]).diagnostics if each.code == "WS840"]
        assert found == [
            (
                "`again` in `src` is a link to a folder that holds it, which cannot be uploaded,"
                " and so are 3 more such entries"
            )
        ]
        files = worldsize.compile("spec.yml", "build").files
    assert [name for name in files if "/src/" in name] == ["components/train/src/train.py"]
    with pytest.raises(OSError, match="it is a named pipe, not a file"):
        open_listed(src / "pipe")


def doubling(folder: Path, levels: int = 24) -> None:
    """Folders of which each links to the next twice: 2 to the power of the levels places."""
    for level in range(levels):
        (folder / f"d{level}").mkdir(parents=True)
        for name in ("x", "y"):
            (folder / f"d{level}" / name).symlink_to(f"../d{level + 1}")
    (folder / f"d{levels}").mkdir()
    (folder / f"d{levels}" / "end.txt").write_text("end")


@pytest.mark.parametrize("lines", ["code: ./d0\n", "code: ./src\nadditional_includes: [./d0, ./d1.zip]\n"])
def test_links_that_double_at_every_level_end(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    for module in (gates, snapshot):
        monkeypatch.setattr(module, "MAX_ENTRIES", 5_000)
    doubling(project / "c")
    write(project, PLAIN + lines)
    began = time.monotonic()
    found = [each for each in worldsize.check(["job.yml"]).diagnostics if each.code == "WS839"]
    assert found
    assert "more than 5,000 files and folders, links followed" in found[0].message
    with pytest.raises(SpecError, match="WS839"):
        worldsize.compile("spec.yml", "build")
    with pytest.raises((RunError, SpecError), match="WS839"):
        preparation.prepare(Path("job.yml"), tmp_path / "pipeline")
    assert time.monotonic() - began < 60  # for ever before; a second or two on an idle machine


def test_folders_in_folders_end(project: Path) -> None:
    deep = project / "c" / "src"
    for _ in range(120):
        deep = deep / "d"
        deep.mkdir()
    write(project, CODE)
    messages = [each.message for each in worldsize.check(["job.yml"]).diagnostics]
    assert "`src` holds more than 100 folders in each other, so it is not copied" in messages


def test_hashing_ends_where_links_double_at_every_level(tmp_path: Path) -> None:
    doubling(tmp_path / "data")
    found = list(walk_tree(tmp_path / "data" / "d0"))
    assert len(found) < 2 * digests.MAX_REPEATED
    assert found[-1] == TreeEntry("y/\0x/d1/".replace("x/d1/", "x/"), "other")


@pytest.mark.parametrize("target", ["/", "..", "."])
def test_data_that_links_to_a_folder_around_it_is_hashed_alone(target: str, tmp_path: Path) -> None:
    (tmp_path / "data" / "inner").mkdir(parents=True)
    (tmp_path / "data" / "inner" / "rows.csv").write_text("1")
    (tmp_path / "beside.csv").write_text("2")
    (tmp_path / "data" / "inner" / "all").symlink_to(target)
    entries = [(entry.place, entry.kind) for entry in walk_tree(tmp_path / "data")]
    assert entries == [
        ("", "folder"),
        ("inner", "folder"),
        ("inner/all", "folder"),
        ("inner/rows.csv", "file"),
    ]


def test_a_link_to_all_the_disk_is_refused_before_it_is_listed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link("c/src/disk", "/")(project)
    write(project, CODE)
    listed: list[str] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(os.fspath(path)) or scan(path))
    with pytest.raises(SpecError, match="WS816"):
        worldsize.compile("spec.yml", "build")
    assert all(path.startswith(str(project)) for path in listed if "site-packages" not in path)
