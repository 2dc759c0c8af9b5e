"""Merged code folders, by the rules of azure-ai-ml."""

from __future__ import annotations

import errno
import os
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from worldsize.api import output_folder
from worldsize.azureml import component as reader
from worldsize.azureml import snapshot
from worldsize.azureml.copying import CHUNK, Archive, CopyAccess
from worldsize.azureml.ignore import LONGEST, MOST, compile_lines
from worldsize.azureml.model import Component
from worldsize.azureml.snapshot import Snapshot
from worldsize.base import limits
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.checking import boundary
from worldsize.documents.errors import OutputError
from worldsize.running.launch.call import copy_snapshot
from worldsize.running.reuse.digests import Digests


def tree(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def merged(folder: Path, yaml: str) -> tuple[Snapshot, list[Problem]]:
    tree(folder, {"component.yml": f"type: command\nname: c\ncommand: ls\n{yaml}"})
    found, problems = reader.read_component(folder / "component.yml")
    assert isinstance(found, Component)
    assert not problems
    return snapshot.read_snapshot(found, folder, CopyAccess())


def test_includes_land_in_the_root_under_their_last_name(tmp_path: Path) -> None:
    tree(tmp_path, {
        "c/src/train.py": "1", "shared/lib/a.py": "2", "shared/lib/deep/b.py": "3", "shared/one.txt": "4",
        "shared/lib/__pycache__/a.pyc": "x", "c/src/__pycache__/t.pyc": "x",
    })  # fmt: skip
    found, problems = merged(
        tmp_path / "c", "code: src\nadditional_includes: [../shared/lib, ../shared/one.txt]\n"
    )
    assert not problems
    assert found.listing() == ["lib/a.py", "lib/deep/b.py", "one.txt", "train.py"]
    assert found.content("lib/deep/b.py") == b"3"


def test_code_may_be_one_file(tmp_path: Path) -> None:
    tree(tmp_path, {"c/src/train.py": "1", "c/src/other.py": "2"})
    found, problems = merged(tmp_path / "c", "code: ./src/train.py\n")
    assert (found.listing(), problems) == (["train.py"], [])


@pytest.mark.parametrize("name", [".amlignore", ".gitignore"])
def test_ignore_files_are_obeyed(tmp_path: Path, name: str) -> None:
    tree(tmp_path, {f"c/src/{name}": "*.log\n!keep.log\ndata/\n", "c/src/a.log": "", "c/src/keep.log": "",
                    "c/src/data/x": "", "c/src/a.py": "", "c/src/deep/data/y": ""})  # fmt: skip
    found, _ = merged(tmp_path / "c", "code: src\n")
    assert found.listing() == sorted([name, "a.py", "keep.log"])


def test_amlignore_wins_over_gitignore(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {"c/src/.amlignore": "a.py\n", "c/src/.gitignore": "b.py\n", "c/src/a.py": "", "c/src/b.py": ""},
    )
    found, _ = merged(tmp_path / "c", "code: src\n")
    assert found.listing() == [".amlignore", ".gitignore", "b.py"]


def test_only_the_root_s_ignore_file_counts_without_includes(tmp_path: Path) -> None:
    tree(tmp_path, {"c/src/deep/.gitignore": "x\n", "c/src/deep/x": "", "s/one": ""})
    found, _ = merged(tmp_path / "c", "code: src\n")
    assert found.listing() == ["deep/.gitignore", "deep/x"]
    found, _ = merged(tmp_path / "c", "code: src\nadditional_includes: [../s/one]\n")
    assert found.listing() == ["deep/.gitignore", "one"]


def test_a_zip_that_does_not_exist_is_the_folder_zipped(tmp_path: Path) -> None:
    tree(tmp_path, {"c/src/a.py": "1", "lib/x.py": "2"})
    found, problems = merged(tmp_path / "c", "code: src\nadditional_includes: [../lib.zip]\n")
    assert not problems
    assert found.listing() == ["a.py", "lib.zip"]
    again, _ = merged(tmp_path / "c", "code: src\nadditional_includes: [../lib.zip]\n")
    for name, each in (("one", found), ("two", again)):
        packed = each.files["lib.zip"]
        assert isinstance(packed, Archive)
        packed.copy_to(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_zip_is_written_piece_by_piece(tmp_path: Path) -> None:
    tree(tmp_path, {"c/src/a.py": "1", "data/deep/x.txt": "2", "data/none": ""})
    with (tmp_path / "data" / "large").open("wb") as file:
        file.truncate(64 * CHUNK + 1)
    found, problems = merged(tmp_path / "c", "code: src\nadditional_includes: [../data.zip]\n")
    assert not problems
    packed = found.files["data.zip"]
    assert isinstance(packed, Archive)
    tracemalloc.start()
    packed.copy_to(tmp_path / "one.zip")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * CHUNK
    output_folder.write_folder({"x/data.zip": packed}, tmp_path / "out")
    copy_snapshot(found, tmp_path / "code")
    whole = (tmp_path / "one.zip").read_bytes()
    for path in ("out/x/data.zip", "code/data.zip"):
        assert (tmp_path / path).read_bytes() == whole
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["data/", "data/deep/x.txt", "data/large", "data/none"]
        assert archive.getinfo("data/large").file_size == 64 * CHUNK + 1


def test_a_name_that_is_not_text_has_no_place_in_a_zip(tmp_path: Path) -> None:
    tree(tmp_path, {"c/src/a.py": "1", "data/x.txt": "2", "data/\udcff": "3"})
    found, _ = merged(tmp_path / "c", "code: src\nadditional_includes: [../data.zip]\n")
    assert boundary.report_refused(found.files, None, Span("c", 1, 1, 1, 1))
    with pytest.raises(OSError, match="its name is not text"):
        copy_snapshot(found, tmp_path / "code")


def test_a_zip_of_what_changed_since_it_was_listed_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, {"c/src/a.py": "1", "data/x.txt": "2", "secret": "3"})
    found, _ = merged(tmp_path / "c", "code: src\nadditional_includes: [../data.zip]\n")
    before = Digests().files(found.files, tmp_path).digest()
    (tmp_path / "data/x.txt").write_text("4")
    assert Digests().files(found.files, tmp_path).digest() != before
    (tmp_path / "data/x.txt").unlink()
    (tmp_path / "data/x.txt").symlink_to("../secret")
    with pytest.raises(OutputError, match=r"x\.txt"):
        output_folder.write_folder(found.files, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "data", "secret"]


def test_links_are_followed_and_loops_end(tmp_path: Path) -> None:
    tree(tmp_path, {"c/src/a.py": "1", "else/b.py": "2"})
    (tmp_path / "c/src/linked").symlink_to(tmp_path / "else")
    (tmp_path / "c/src/loop").symlink_to(tmp_path / "c/src")
    found, _ = merged(tmp_path / "c", "code: src\n")
    assert found.listing() == ["a.py", "linked/b.py"]


@pytest.mark.parametrize("yaml", ["code: src\n", "code: other\nadditional_includes: [src]\n"])
def test_a_folder_that_may_not_be_listed_is_named(
    tmp_path: Path, yaml: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {"c/src/locked/a.py": "1", "c/other/b.py": "2"})
    listed = os.scandir

    def refused(path: str) -> Iterator[os.DirEntry[str]]:  # as for anybody but root
        if Path(path).name == "locked":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", refused)
    _, problems = merged(tmp_path / "c", yaml)
    assert [problem.message for problem in problems] == [
        "`locked` below this folder cannot be read: permission denied"
    ]


@pytest.mark.parametrize(
    ("yaml", "slug", "place"),
    [
        ("code: ./scr\n", "code-missing", "4:7"),
        ("code: src\nadditional_includes:\n  - ../shard\n", "include-missing", "6:5"),
        ("code: src\nadditional_includes: [../lib, ../x/taken]\n", "include-clash", "5:31"),
        ("code: src\nenvironment: {image: i, conda_file: conda.yml}\n", "environment-missing", "5:37"),
    ],
)
def test_faults_have_a_place_and_a_hint(tmp_path: Path, yaml: str, slug: str, place: str) -> None:
    tree(tmp_path, {"c/src/taken": "", "x/taken": "", "lib/a": "", "shared/a": ""})
    (tmp_path / "c").mkdir(exist_ok=True)
    tree(tmp_path / "c", {"component.yml": f"type: command\nname: c\ncommand: ls\n{yaml}"})
    found, _ = reader.read_component(tmp_path / "c" / "component.yml")
    assert found is not None
    problems = snapshot.check_references(found, tmp_path / "c")
    assert [problem.slug for problem in problems] == [slug]
    assert str(problems[0].span).endswith(f"component.yml:{place}")
    assert problems[0].help


def test_the_digest_knows_names_and_bytes(tmp_path: Path) -> None:
    tree(tmp_path, {"a/x": "1", "b/x": "1", "c/y": "1", "d/x": "2"})
    digests = []
    for name in "abcd":
        found = Snapshot()
        assert not snapshot.add_to_snapshot(found, tmp_path / name, Span("c", 1, 1, 1, 1), CopyAccess())
        digests.append(Digests().files(found.files, tmp_path / name).digest())
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_lines_of_many_stars_take_no_time() -> None:
    # For hours as a regular expression.
    for line, parts in (("*a" * 60 + "b", ["a" * 255] * 20), ("**/a/" * 60 + "b", ["a"] * 1000)):
        assert compile_lines([line]).decide(parts) is None


def test_ignore_files_have_bounds_beyond_any_real_one() -> None:
    names = [f"n{number}" for number in range(3 * MOST)]
    lines = compile_lines([*names, *(f"*x{number}" for number in range(3 * MOST)), "*" * 2 * LONGEST, "last"])
    assert [lines.decide([name]) for name in ("n5999", "x1", "last", "other")] == [True, True, True, None]
    assert len(lines.expressions) == MOST


def test_a_listing_that_takes_too_long_ends_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / f"{number}.py").touch()
    (tmp_path / ".amlignore").write_text("*a\n" * 10, encoding="utf-8")
    monkeypatch.setattr(limits, "SECONDS", -1.0)
    with pytest.raises(limits.OverBudgetError), limits.Budgets().charge("job.yml"):
        snapshot.list_folder(CopyAccess(), tmp_path, PurePosixPath())
    assert (
        len(snapshot.list_folder(CopyAccess(), tmp_path, PurePosixPath()).files) == 21
    )  # nobody counts here
