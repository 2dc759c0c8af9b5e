"""What a check of a folder passes over: what git ignores, and what the project or the caller excludes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import worldsize
from worldsize.checking import fixing
from worldsize.checking.exclusion import is_glob
from worldsize.checking.selection import Choice
from worldsize.cli import main

BAD = "type: Command\ncommand: echo\nenvironment: azureml:e:1\ncompute: azureml:c\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(BAD)


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, timeout=60, capture_output=True)


def files(*paths: str, exclude: tuple[str, ...] = ()) -> list[str]:
    return list(worldsize.check(paths or ["."], exclude=exclude).files)


@pytest.mark.parametrize(
    ("globs", "left"),
    [
        (["a"], ["b/a.yml", "c.yml"]),
        (["a/"], ["b/a.yml", "c.yml"]),
        (["./a"], ["a/x.yml", "a/y.gen.yml", "b/a.yml", "c.yml"]),
        (["/a"], ["b/a.yml", "c.yml"]),
        (["a/x.yml"], ["a/y.gen.yml", "b/a.yml", "c.yml"]),
        (["*.gen.yml"], ["a/x.yml", "b/a.yml", "c.yml"]),
        (["**/a.yml", "c.*"], ["a/x.yml", "a/y.gen.yml"]),
        (["*", "!c.yml"], ["c.yml"]),
        (["x", "nothing/**"], ["a/x.yml", "a/y.gen.yml", "b/a.yml", "c.yml"]),
    ],
)
def test_patterns_are_those_of_gitignore(tree: Path, globs: list[str], left: list[str]) -> None:
    write("a/x.yml", "a/y.gen.yml", "b/a.yml", "c.yml")
    if globs == ["./a"]:
        left = ["b/a.yml", "c.yml"]
    assert files(exclude=tuple(globs)) == left
    assert (
        files(exclude=tuple(glob.replace("/a", f"{tree}/a") if glob == "/a" else glob for glob in globs))
        == left
    )


def test_what_the_caller_excludes_counts_even_if_it_is_named(tree: Path) -> None:
    write("good.yml", "bad.yml", "old/a.yml")
    assert files("good.yml", "bad.yml", "old", exclude=("bad.yml", "old")) == ["good.yml"]
    result = CliRunner().invoke(
        main, ["check", "--exclude", "bad.yml", "--exclude", "old", "--format", "json"]
    )
    assert {each["path"] for each in json.loads(result.stdout)["diagnostics"]} == {"good.yml"}
    fixing.fix(".", Choice(exclude=["bad.yml", "old"]))
    assert Path("bad.yml").read_text() == BAD != Path("good.yml").read_text()


@pytest.mark.parametrize("glob", ["", "#x", "[z-a]", "a\\"])
def test_what_is_no_pattern_is_refused(tree: Path, glob: str) -> None:
    assert not is_glob(glob)
    result = CliRunner().invoke(main, ["check", "--exclude", glob])
    assert (result.exit_code, "is not a pattern" in result.stderr) == (2, True)
    Path("worldsize.yml").write_text(f"exclude: [{json.dumps(glob)}]\n")
    assert [each.code for each in worldsize.check(".").diagnostics] == ["WS031"]


def test_nothing_is_said_of_an_excluded_component_that_a_job_uses(tree: Path) -> None:
    write("generated/c.yml")
    Path("generated/c.yml").write_text("type: command\nname: c\ncomand: echo\nenvironment: azureml:e:1\n")
    Path("job.yml").write_text(
        "type: pipeline\nsettings: {default_compute: azureml:c}\njobs: {a: {component: ./generated/c.yml}}\n"
    )
    assert {each.span.path for each in worldsize.check("job.yml").diagnostics} == {"generated/c.yml"}
    assert worldsize.check("job.yml", exclude=["generated"]).diagnostics == ()


def test_settings_exclude_below_their_folder_unless_it_is_named(tree: Path) -> None:
    write("a.yml", "bad/b.yml", "bad/c/d.yml", "sub/bad/e.yml", "sub/f.yml")
    Path("worldsize.yml").write_text("exclude: [/bad]\n")
    Path("sub/worldsize.yml").write_text("exclude: [f.yml]\n")
    ours = ["sub/worldsize.yml", "worldsize.yml"]
    assert files() == ["a.yml", "sub/bad/e.yml", *ours]
    assert files("bad/b.yml") == ["bad/b.yml"]
    assert files("bad") == ["bad/b.yml", "bad/c/d.yml"]
    assert files(".", "bad/c") == ["a.yml", "bad/c/d.yml", "sub/bad/e.yml", *ours]


def test_a_folder_is_excluded_with_the_settings_in_it(tree: Path) -> None:
    git("init", "-q")
    write("bad/b.yml")
    Path("bad/worldsize.yml").write_text("nonsense: 1\n")
    Path("worldsize.yml").write_text("exclude: [bad]\n")
    report = worldsize.check(".")
    assert (report.files, report.diagnostics) == (("worldsize.yml",), ())


@pytest.mark.parametrize("with_git", [True, False], ids=["git", "no git"])
def test_what_git_ignores_is_left_out(tree: Path, with_git: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.yml", "out/b.yml", "sub/c.yml", "sub/d.yml", "sub/keep.tmp.yml", "e.tmp.yml")
    git("init", "-q")
    Path(".gitignore").write_text("out/\n*.tmp.yml\n")
    Path("sub/.gitignore").write_text("# own\n/c.yml\n!keep.tmp.yml\n")
    if not with_git:
        monkeypatch.setenv("PATH", "")
    assert files() == ["a.yml", "sub/d.yml", "sub/keep.tmp.yml"]
    assert files("sub") == ["sub/d.yml", "sub/keep.tmp.yml"]
    assert files("out/b.yml", "e.tmp.yml") == ["e.tmp.yml", "out/b.yml"]
    monkeypatch.chdir("sub")
    assert files() == ["d.yml", "keep.tmp.yml"]


def test_outside_of_a_repository_gitignore_counts_too(tree: Path) -> None:
    write("a.yml", "out/b.yml")
    Path(".gitignore").write_text("out\n")
    assert files() == ["a.yml"]


def test_an_ignored_folder_that_is_named_is_checked(tree: Path) -> None:
    write("out/b.yml")
    git("init", "-q")
    Path(".gitignore").write_text("out/\n")
    assert files("out") == ["out/b.yml"]


def test_tracked_files_are_checked_whatever_gitignore_says(tree: Path) -> None:
    write("out/a.yml", "out/b.yml")
    git("init", "-q")
    Path(".gitignore").write_text("out/\n")
    git("add", "-f", "out/a.yml")
    assert files() == ["out/a.yml"]


def test_a_repository_in_a_repository_has_its_own_rules(tree: Path) -> None:
    write("inner/a.yml", "inner/b.yml", "z/c.yml")
    git("init", "-q")
    git("init", "-q", "inner")
    Path("inner/.gitignore").write_text("b.yml\n")
    Path(".gitignore").write_text("c.yml\n")
    git("add", "-f", "z/c.yml")
    assert files() == ["inner/a.yml", "z/c.yml"]


def test_a_repository_cannot_make_the_check_start_a_program(tree: Path) -> None:
    write("a.yml")
    git("init", "-q")
    Path("hook").write_text(f"#!/bin/sh\ntouch {tree}/started\n")
    Path("hook").chmod(0o755)
    git("config", "core.fsmonitor", str(tree / "hook"))
    assert files() == ["a.yml"]
    assert not Path("started").exists()


def test_variables_of_a_hook_do_not_lead_git_astray(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.yml", "out/b.yml")
    git("init", "-q")
    Path(".gitignore").write_text("out/\n")
    monkeypatch.setenv("GIT_DIR", "elsewhere")
    assert files() == ["a.yml"]


OF_FOUR = "of 4 YAML files, 1 is ignored by git"
NEITHER = "2 are neither a spec nor Azure ML YAML"


@pytest.mark.parametrize(
    ("arguments", "settings", "reason"),
    [
        (["empty"], "", "nothing found in 0 files: there is no YAML file in `empty`"),
        (
            ["--exclude", "a", "a"],
            "",
            "nothing found in 0 files: of 1 YAML file, 1 is excluded by `--exclude a`",
        ),
        (
            [".", "--exclude", "a"],
            "",
            f"nothing found in 0 files: {OF_FOUR}, 1 is excluded by `--exclude a` and {NEITHER}",
        ),
        (
            ["."],
            "exclude: [a]",
            f"nothing found in 1 file: {OF_FOUR}, 1 is excluded by `exclude:` of worldsize.yml and {NEITHER}",
        ),
        (["other"], "", "nothing found in 0 files: of 2 YAML files, 2 are neither a spec nor Azure ML YAML"),
    ],
)
def test_a_check_of_no_file_says_why(tree: Path, arguments: list[str], settings: str, reason: str) -> None:
    git("init", "-q")
    write("a/job.yml", "out/job.yml")
    Path(".gitignore").write_text("out/\n")
    Path("empty").mkdir()
    Path("other").mkdir()
    for name in ("other/one.yml", "other/two.yml"):
        Path(name).write_text("x: 1\n")
    if settings:
        Path("worldsize.yml").write_text(f"{settings}\n")
    result = CliRunner().invoke(main, ["check", *arguments])
    assert (result.exit_code, result.stdout) == (0, f"{reason}\n")
    result = CliRunner().invoke(main, ["check", *arguments, "--format", "github"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"note: no file was checked: {reason.partition(': ')[2]}\n"


@pytest.mark.parametrize("path", [".", "worldsize.yml"])
def test_settings_alone_need_no_reason(tree: Path, path: str) -> None:
    Path("worldsize.yml").write_text("exclude: [a]\n")
    result = CliRunner().invoke(main, ["check", path])
    assert result.output == "nothing found in 1 file\n"


def test_what_is_checked_needs_no_reason(tree: Path) -> None:
    write("a/job.yml")
    assert worldsize.check(["."]).unchecked == ""
