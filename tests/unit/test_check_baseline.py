"""`worldsize check --baseline`: what was known stays known where lines move, and what is new is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import worldsize
from worldsize.cli import main

JOB = "type: command\ncommand: echo\nenvironment: azureml:e:1\ncompute: azureml:c\n"
KNOWN = JOB + "first: 1\nsecond: 2\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yml").write_text(KNOWN)
    return tmp_path


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", "--baseline", "known.json", *arguments])


def messages() -> list[str]:
    return [each.message for each in worldsize.check(".", baseline="known.json").diagnostics]


def record() -> None:
    result = check("--write-baseline")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.startswith("recorded ")


def test_what_is_recorded_is_not_reported(tree: Path) -> None:
    record()
    assert (check().exit_code, check().stdout) == (0, "nothing new in 1 file, 2 known\n")
    assert json.loads(Path("known.json").read_text())["version"] == 1


def test_a_report_says_how_much_is_known(tree: Path) -> None:
    record()
    assert check("job.yml").stdout == "nothing new in 1 file, 2 known\n"
    (tree / "job.yml").write_text(KNOWN + "third: 3\n")
    assert check("job.yml", "--format", "concise").stdout.endswith("1 error in 1 file, 2 known\n")


def test_findings_stay_known_where_lines_move(tree: Path) -> None:
    record()
    (tree / "job.yml").write_text("# a comment\n\n" + JOB + "second:   2\n# more\nfirst: 1\n")
    assert messages() == []


def test_new_findings_are_reported(tree: Path) -> None:
    record()
    (tree / "job.yml").write_text(KNOWN + "third: 1\n")
    (tree / "other.yml").write_text(KNOWN)
    assert messages() == [f"unknown key `{name}`" for name in ("third", "first", "second")]
    assert check().exit_code == 1


def test_equal_lines_are_counted(tree: Path) -> None:
    step = "  {}: {{command: echo, environment: 'azureml:e:1',\n    odd: 1}}\n"
    pipeline = "type: pipeline\nsettings: {default_compute: azureml:c}\njobs:\n"
    (tree / "job.yml").write_text(pipeline + step.format("a"))
    record()
    assert messages() == []
    (tree / "job.yml").write_text(pipeline + step.format("b") + step.format("c"))
    assert len(messages()) == 1


def test_paths_do_not_depend_on_the_working_folder(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record()
    (tree / "sub").mkdir()
    monkeypatch.chdir(tree / "sub")
    assert worldsize.check("..", baseline="../known.json").diagnostics == ()


def test_more_findings_than_are_listed_are_recorded(tree: Path) -> None:
    (tree / "job.yml").write_text(JOB + "".join(f"key{number}: 1\n" for number in range(300)))
    record()
    assert messages() == []


def test_the_selection_of_rules_counts_for_the_record_too(tree: Path) -> None:
    assert check("--write-baseline", "--ignore", "WS140").exit_code == 0
    assert len(messages()) == 2


def test_a_secret_cannot_be_guessed_from_the_record(tree: Path) -> None:
    hashes = []
    for secret in ("hunter2hunter2", "hunter3hunter3"):
        (tree / "job.yml").write_text(JOB + f"environment_variables: {{DB_PASSWORD: {secret}}}\n")
        Path("known.json").unlink(missing_ok=True)
        record()
        hashes.append(json.loads(Path("known.json").read_text())["findings"]["job.yml"]["WS802"])
    assert hashes[0] == hashes[1]


def test_fixes_leave_alone_what_is_known(tree: Path) -> None:
    (tree / "job.yml").write_text(JOB.replace("type: command", "type: Command"))
    record()
    assert check("--fix").exit_code == 0
    assert "type: Command" in (tree / "job.yml").read_text()


HOSTILE = {
    "empty": b"",
    "not JSON": b"type: command\n",
    "not text": b"\xff\xfe\x00{",
    "a list": b"[]",
    "no version": b'{"findings": {}}',
    "another version": b'{"version": 2, "findings": {}}',
    "version as text": b'{"version": "1", "findings": {}}',
    "no findings": b'{"version": 1}',
    "findings as a list": b'{"version": 1, "findings": []}',
    "a count as text": b'{"version": 1, "findings": {"a": {"WS140": {"0": "1"}}}}',
    "a negative count": b'{"version": 1, "findings": {"a": {"WS140": {"0": -1}}}}',
    "too deep": b'{"version": 1, "findings": ' + b'{"a": ' * 100_000,
    "too deep elsewhere": b'{"x": ' + b"[" * 100_000,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_baseline_is_refused_in_one_line(tree: Path, content: bytes) -> None:
    Path("known.json").write_bytes(content)
    result = check()
    assert result.exit_code == 2
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert "known.json" in line
    with pytest.raises(ValueError, match=r"known\.json"):
        worldsize.check(".", baseline="known.json")


def test_a_missing_baseline_is_refused_with_the_way_to_make_it(tree: Path) -> None:
    result = check()
    assert (result.exit_code, "--write-baseline" in result.stderr) == (2, True)
    Path("known.json").mkdir()
    assert "it is a folder, not a file" in check().stderr


def test_no_other_file_is_overwritten(tree: Path) -> None:
    result = CliRunner().invoke(main, ["check", "--baseline", "job.yml", "--write-baseline"])
    assert (result.exit_code, "not overwritten" in result.stderr) == (2, True)
    assert (tree / "job.yml").read_text() == KNOWN
    Path("known.json").write_text('{"version": 2}')
    record()


def test_a_baseline_that_cannot_be_written_is_said_in_one_line(tree: Path) -> None:
    result = CliRunner().invoke(main, ["check", "--baseline", "none/known.json", "--write-baseline"])
    assert (result.exit_code, "cannot be written" in result.stderr) == (2, True)


def test_an_internal_error_is_never_known(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("oh")

    monkeypatch.setattr("worldsize.checking.discover.recognise_kind", crash)
    result = check("--write-baseline")
    assert result.exit_code == 3
    assert check().exit_code == 3
