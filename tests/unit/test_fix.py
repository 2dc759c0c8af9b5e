"""`worldsize check --fix`: what is mended, what is left alone, and that nothing else changes."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import worldsize
from worldsize.base.problem import Fix
from worldsize.checking import fixing
from worldsize.checking.fixing import replace_content
from worldsize.checking.selection import Choice
from worldsize.cli import main
from worldsize.documents import yaml

MESSY = """\
# head
type: Command   # the type
command: >-
  echo  ${inputs.data}
"enviroment": 'azureml:my-env:4'
compute: gpu-cluster
inputs:
    data:    {type: uri_foldr, path: "azureml:d:1"}   # four blanks

resources: {instance_cout: 2}
limits: {timeout: 3600}
distribution: {type: pytorch, process_count_per_instance: 4}
"""
MENDED = """\
# head
type: command   # the type
command: >-
  echo  ${{inputs.data}}
"environment": 'azureml:my-env:4'
compute: azureml:gpu-cluster
inputs:
    data:    {type: uri_folder, path: "azureml:d:1"}   # four blanks

resources: {instance_count: 2}
limits: {timeout: 3600}
distribution: {type: pytorch, process_count_per_instance: 4}
"""
COMPONENT = """\
type: command
name: c
version: 1.10
command: echo
environment: azureml:e:1
inputs: {since: {type: string, default: 2024-01-31}}
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fix_bytes(tree: Path, content: bytes) -> bytes:
    (tree / "job.yml").write_bytes(content)
    fixing.fix("job.yml", unsafe=True)
    return (tree / "job.yml").read_bytes()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_only_what_is_wrong_changes(tree: Path, end: str, mark: bytes) -> None:
    before, after = (mark + text.replace("\n", end).encode() for text in (MESSY, MENDED))
    assert fix_bytes(tree, before) == after
    assert fix_bytes(tree, after) == after


def test_similar_words_and_changed_values_are_left_to_unsafe_fixes(tree: Path) -> None:
    (tree / "job.yml").write_text(MESSY + "environment_variables: {FLAG: yes}\n")
    fixing.fix("job.yml")
    safe = (tree / "job.yml").read_text()
    assert safe == (
        MESSY.replace("Command", "command").replace("${inputs.data}", "${{inputs.data}}")
        .replace(": gpu-cluster", ": azureml:gpu-cluster") + "environment_variables: {FLAG: yes}\n"
    )  # fmt: skip
    assert fix_bytes(tree, safe.encode()).decode() == MENDED + 'environment_variables: {FLAG: "yes"}\n'


def test_versions_and_dates_are_quoted(tree: Path) -> None:
    fixed = fix_bytes(tree, COMPONENT.encode()).decode()
    assert 'version: "1.10"' in fixed
    assert 'default: "2024-01-31"' in fixed
    assert len(list(difflib.ndiff(COMPONENT.splitlines(), fixed.splitlines()))) > 0


def test_processes_beyond_the_gpus_become_one_per_gpu(tree: Path) -> None:
    (tree / "worldsize.yml").write_text("compute: {gpu: {instance_type: Standard_NC96ads_A100_v4}}\n")
    job = MENDED.replace("gpu-cluster", "gpu").replace("instance: 4", "instance: 8")
    assert b"instance: 4" in fix_bytes(tree, job.encode())
    assert b"instance: 4" in fix_bytes(tree, job.replace("instance: 8", "instance: 6").encode())
    alone = job.replace("resources: {instance_count: 2}\n", "")  # the help also asks for `instance_count: 2`
    assert b"instance: 8" in fix_bytes(tree, alone.encode())
    spec = (
        "name: d\ncompute:\n  gpu: {target: azureml:g, instance_type: Standard_NC96ads_A100_v4}\n"
        "steps:\n  train: {command: echo, environment: 'azureml:e:1', instance_count: 2,"
        " distribution: {type: pytorch, process_count_per_instance: 8}}\n"
    )
    assert fix_bytes(tree, spec.encode()).decode() == spec.replace("instance: 8", "instance: 4")


def test_specs_are_fixed(tree: Path) -> None:
    spec = (
        "name: d\ncompute:\n  gpu: {target: azureml:g, instance_type: Standard_D4s_v5, teir: dedicated}\n"
        "steps:\n  train: {comand: echo, environment: 'azureml:e:1', compute: gpu}\n"
    )
    fixed = fix_bytes(tree, spec.encode()).decode()
    assert fixed == spec.replace("teir", "tier").replace("comand", "command")


def test_two_possible_words_are_left_to_the_user(tree: Path) -> None:
    job = MENDED.replace("pytorch", "xytorch")
    assert b"pytorch" in fix_bytes(tree, job.encode())
    settings_text = "sevrity: {}\n"
    assert fixing.fix(_written(tree / "worldsize.yml", settings_text), unsafe=True).report.fixed == 1
    near_two = "ignoselect: []\n"
    assert fixing.fix(_written(tree / "worldsize.yml", near_two), unsafe=True).report.fixed == 0


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "content",
    [
        MESSY + "broken: [\n",
        MESSY + "\x00",
        MESSY.replace("type: Command", "type: &kind Command\ndisplay_name: *kind"),
    ],
    ids=["syntax", "not text", "alias"],
)
def test_files_that_cannot_be_mended_safely_are_left_alone(tree: Path, content: str) -> None:
    fixed = fix_bytes(tree, content.encode())
    assert b"type: " in fixed
    if "*kind" in content:
        assert b"type: &kind Command" in fixed
    else:
        assert fixed == content.encode()


def test_suppressed_and_ignored_problems_are_not_fixed(tree: Path) -> None:
    job = MENDED.replace("type: command ", "type: Command ")
    marked = job.replace("# the type", "# worldsize: ignore[WS143] kept")
    assert fix_bytes(tree, marked.encode()) == marked.encode()
    (tree / "job.yml").write_text(job)
    assert fixing.fix("job.yml", Choice(ignore=["WS143"])).changes == ()


def test_files_that_others_refer_to_are_not_touched(tree: Path) -> None:
    (tree / "component.yml").write_text(COMPONENT)
    (tree / "pipeline.yml").write_text(
        "type: pipeline\njobs:\n  a: {type: command, component: ./component.yml, compute: azureml:c}\n"
    )
    fixing.fix("pipeline.yml")
    assert (tree / "component.yml").read_text() == COMPONENT


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["check", *arguments])
    return result.exit_code, result.output


def test_the_command_counts_what_it_fixed(tree: Path) -> None:
    (tree / "job.yml").write_text(MESSY)
    status, output = invoke("job.yml", "--fix")
    assert (status, output.splitlines()[-2:]) == (
        1,
        ["3 unsafe fixes (`--unsafe-fixes`)", "3 errors in 1 file, fixed 3"],
    )
    status, output = invoke("job.yml", "--unsafe-fixes")
    *listed, summary = output.splitlines()
    assert (status, summary) == (0, "nothing found in 1 file, fixed 3")
    assert len(listed) == 3
    assert all(re.match(r"job\.yml:\d+: fixed\[WS\d+\] ", line) for line in listed)
    status, output = invoke("job.yml", "--fix", "--format", "json")
    assert '"fixed": 0' in output


def test_the_diff_is_one_that_git_applies(tree: Path) -> None:
    content = MESSY.rstrip("\n").replace("# four", "\r\n# four")
    (tree / "job.yml").write_bytes(content.encode())
    result = CliRunner().invoke(main, ["check", "job.yml", "--unsafe-fixes", "--diff"])
    assert result.exit_code == 1
    assert "would fix 6 in 1 file" in result.stderr
    assert (tree / "job.yml").read_bytes() == content.encode()
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True, timeout=60)
    subprocess.run(["git", "apply", "-"], cwd=tree, input=result.stdout_bytes, check=True, timeout=60)
    applied = (tree / "job.yml").read_bytes()
    assert applied == fix_bytes(tree, content.encode())
    assert invoke("job.yml", "--diff") == (0, "would fix 0 in 0 files\n")


def test_modes_and_links_are_kept(tree: Path) -> None:
    real = tree / "real.yml"
    real.write_text(MESSY)
    real.chmod(0o640)
    (tree / "job.yml").symlink_to("real.yml")
    fixing.fix("job.yml", unsafe=True)
    assert (tree / "job.yml").is_symlink()
    assert real.read_text() == MENDED
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tree.iterdir()) == ["job.yml", "real.yml"]


def test_a_file_that_changed_in_the_meantime_is_left_alone(tree: Path) -> None:
    path = tree / "job.yml"
    path.write_text("new")
    assert replace_content(path, b"old", b"mended") == "it changed in the meantime"
    assert path.read_text() == "new"
    assert replace_content(tree / "gone.yml", b"old", b"mended") == "no such file or directory"


def test_what_cannot_be_written_is_reported_and_not_said_to_be_fixed(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("job.yml", "locked.yml"):
        (tree / name).write_text(MESSY)
    before = {each.slug for each in worldsize.check("locked.yml").diagnostics}
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "locked.yml")  # root writes any file
    fixed = fixing.fix(["job.yml", "locked.yml"], unsafe=True)
    (refused,) = (each for each in fixed.report.diagnostics if each.slug == "output-not-written")
    assert "`locked.yml` cannot be written: permission denied" in refused.message
    left = {each.slug for each in fixed.report.diagnostics if each.span.path == "locked.yml"}
    assert left == before | {"output-not-written"}
    assert (tree / "locked.yml").read_text() == MESSY
    assert [change.path for change in fixed.changes] == ["job.yml"]
    assert {line.partition(":")[0] for line in fixed.applied} == {"job.yml"}
    assert fixed.report.fixed == fixed.changes[0].edits > 0


def test_a_link_out_of_the_tree_is_not_written(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "job.yml"
    outside.write_text(MESSY)
    (tree / "job.yml").symlink_to(outside)
    assert not fixing.fix(".", unsafe=True).changes
    assert fixing.fix("job.yml", unsafe=True).changes  # the user has named it
    assert outside.read_text() != MESSY


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ('{"typ":x}', '"typ"', "type", '{"type":x}'),
        ("a: 'one'", "'one'", "two", "a: 'two'"),
        ("a: 'one'", "'one'", '"two"', 'a: "two"'),
        ("a: one", "one", "two: three", "a: one"),
        ("{a: one}", "one", "x, b: c", "{a: one}"),
        ("a: one", "one", "&x", "a: one"),
        ("a: one # one", "one", "# no", "a: one # one"),
    ],
)
def test_an_edit_that_would_change_more_is_not_made(text: str, old: str, new: str, expected: str) -> None:
    document = yaml.load("f.yml", text)
    start = text.index(old)
    fix = Fix(document.source.span(start, start + len(old)), new)
    assert fixing.apply_fixes(document, [fix])[0] == expected


def test_of_overlapping_fixes_the_first_is_made() -> None:
    document = yaml.load("f.yml", "a: one two\nb: three\n")
    span = document.source.span
    fixes = [Fix(span(5, 9), "x"), Fix(span(3, 6), "uno"), Fix(span(14, 19), "tre"), Fix(span(3, 6), "uno")]
    expected = ("a: uno two\nb: tre\n", 2)
    assert fixing.apply_fixes(document, fixes) == fixing.apply_fixes(document, fixes[::-1]) == expected


WORDS = [
    "Command", "comand", "command", "pytorch", "PyTorch", "pytroch", "uri_foldr", "uri_folder", "1.10",
    "2024-01-31",
    "yes", "gpu", "azureml:gpu", "${inputs.data}", "{inputs.data}", "${{inputs.data}}", "4", "'x'", "~",
]  # fmt: skip
KEYS = [
    "type",
    "tpye",
    "Type",
    "comand",
    "command",
    "enviroment",
    "environment",
    "compute",
    "instance_cout",
    "version",
]


@st.composite
def faulty(draw: st.DrawFn) -> str:
    lines = draw(st.sampled_from([MESSY, MENDED, COMPONENT])).splitlines()
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(lines) - 1))
        key, colon, value = lines[at].partition(":")
        if colon and draw(st.booleans()):
            lines[at] = f"{key}: {draw(st.sampled_from(WORDS))}{'   # note' * draw(st.booleans())}"
        elif colon and key.strip() == key:
            lines[at] = f"{draw(st.sampled_from(KEYS))}:{value}"
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=faulty())
def test_a_second_fix_finds_nothing_and_other_values_stay(tree: Path, content: str) -> None:
    path = tree / "job.yml"
    path.write_bytes(content.encode())
    before = yaml.load("job.yml", content)
    first = fixing.fix("job.yml", unsafe=True)
    mended = path.read_bytes()
    again = fixing.fix("job.yml", unsafe=True)
    assert path.read_bytes() == mended
    assert again.report.fixed == 0
    assert again.report.diagnostics == first.report.diagnostics
    after = yaml.load("job.yml", mended)
    assert len(after.scalars) == len(before.scalars)
    changed = sum(
        before.text[start:end] != after.text[new_start:new_end]
        for (start, end, _), (new_start, new_end, _) in zip(before.scalars, after.scalars, strict=True)
    )
    assert changed <= first.report.fixed
    assert [comment.text for comment in after.comments] == [comment.text for comment in before.comments]
    assert worldsize.check("job.yml").exit_code in (0, 1)
