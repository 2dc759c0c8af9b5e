"""The options of `worldsize check` that choose what is shown: how severe, how certain, how much."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import worldsize
from worldsize.base.problem import Finding, Problem
from worldsize.base.span import Span
from worldsize.cli import main
from worldsize.rules import engine

# An error and, in a component, a note.
JOB = "type: Command\ncommand: echo\nenvironment: azureml:e:1\ncompute: azureml:c\n"
COMPONENT = "type: command\nname: c\ncommand: echo\nenvironment: {image: 'python'}\n"
LIKELY = "name: gpu\ntype: amlcompute\nsize: Standard_NC24s_v3\n"  # a retired size


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["check", *arguments], input=stdin)


def codes(result: Result) -> list[str]:
    return [each["code"] for each in json.loads(result.stdout)["diagnostics"]]


def keys(count: int, prefix: str = "key") -> str:
    return "".join(f"{prefix}{number}: 1\n" for number in range(count))


def test_notes_are_counted_and_shown_on_request(tree: Path) -> None:
    (tree / "c.yml").write_text(COMPONENT)
    result = check()
    assert result.exit_code == 0
    assert result.stdout == "1 note not shown: `--min-severity info` shows it\n1 note in 1 file\n"
    assert "info[WS811]" in check("--min-severity", "info").stdout
    assert "info[WS811]" in check("--select", "WS811").stdout
    assert check("--format", "github").stdout == ""
    assert codes(check("--format", "json")) == []
    assert json.loads(check("--format", "json").stdout)["summary"]["infos"] == 1
    assert json.loads(check("--format", "sarif").stdout)["runs"][0]["results"] == []


@pytest.mark.parametrize(
    ("format_", "shown"),
    [
        ("json", '"severity": "info"'),
        ("sarif", '"level": "note"'),
        ("github", "::notice "),
        ("junit", "info[WS811]"),
    ],
)
def test_every_format_lists_notes_on_request(tree: Path, format_: str, shown: str) -> None:
    (tree / "c.yml").write_text(COMPONENT)
    assert shown not in check("--format", format_).stdout
    assert shown in check("--format", format_, "--min-severity", "info").stdout
    assert shown in check("--format", format_, "--select", "WS811").stdout


def test_notes_on_the_check_itself_are_always_shown(tree: Path) -> None:
    (tree / "other.yml").write_text("a: 1\n")
    assert "info[WS009]" in check("other.yml").stdout


def test_less_severe_findings_are_left_out(tree: Path) -> None:
    (tree / "job.yml").write_text(JOB.replace("Command", "command") + "resources: {instance_count: 2}\n")
    assert check("--format", "json").exit_code == 1
    result = check("--min-severity", "error", "--format", "json")
    assert (result.exit_code, codes(result)) == (0, [])
    assert check("--min-severity", "fatal").exit_code == 2
    with pytest.raises(ValueError, match="`fatal` is not one of `error`, `warning`, `info`"):
        worldsize.check(".", min_severity="fatal")  # type: ignore[arg-type]


def test_less_certain_findings_are_left_out(tree: Path) -> None:
    (tree / "compute.yml").write_text(LIKELY)
    report = json.loads(check("--format", "json").stdout)
    assert {each["code"]: each["confidence"] for each in report["diagnostics"]}["WS202"] == "likely"
    assert "WS202" in codes(check("--min-confidence", "likely", "--format", "json"))
    assert check("--min-confidence", "certain").exit_code == 0
    assert worldsize.check("compute.yml", min_confidence="certain").errors == ()
    log = json.loads(check("--format", "sarif").stdout)["runs"][0]
    assert {rule["id"]: rule["properties"]["precision"] for rule in log["tool"]["driver"]["rules"]}[
        "WS202"
    ] == "high"
    assert log["results"][0]["properties"] == {"confidence": "likely", "fix": "none"}


def test_a_finding_may_be_less_certain_than_its_rule() -> None:
    at = Span("a.yml", 1, 1, 1, 2)
    problems = [Problem("yaml-empty", at, "a"), Finding(at, "b", confidence="possible").under("yaml-empty")]
    assert [each.confidence for each in engine.diagnose(problems)] == ["certain", "possible"]


def test_a_suppression_of_what_is_left_out_is_still_used(tree: Path) -> None:
    (tree / "compute.yml").write_text(LIKELY.replace("_v3", "_v3  # worldsize: ignore[WS202] for now"))
    assert check("--min-confidence", "certain").stdout == "nothing found in 1 file\n"


def test_one_rule_fills_no_screen_of_a_file(tree: Path) -> None:
    for name in ("a.yml", "b.yml"):
        (tree / name).write_text(JOB.replace("Command", "command") + keys(42))
    shown = check().stdout
    assert shown.count("error[WS140]") == 10
    assert shown.count("\n… and 37 more of WS140 in this file\n") == 2
    assert "\n84  WS140  error    aml-unknown-key\n" in shown
    assert shown.endswith("`--format concise` lists every finding in one line\n84 errors in 2 files\n")
    assert len(codes(check("--format", "json"))) == 84
    assert len(json.loads(check("--format", "sarif").stdout)["runs"][0]["results"]) == 84
    assert check("--format", "concise").stdout.count("\n") == 85


def test_few_findings_have_no_table(tree: Path) -> None:
    (tree / "a.yml").write_text(JOB.replace("Command", "command") + keys(3))
    assert "aml-unknown-key\n" not in check().stdout.replace("aml_unknown_key.md", "")


def test_concise_is_one_line_for_each_finding(tree: Path) -> None:
    (tree / "job.yml").write_text(JOB + "enviroment: x\n")
    assert check("--format", "concise").stdout.splitlines() == [
        "job.yml:1:7: error[WS143] [*] `Command` is not a value of `type`",
        "job.yml:5:1: error[WS140] unknown key `enviroment`",
        "1 safe fix (`--fix`)",
        "2 errors in 1 file",
    ]


def test_statistics_are_a_table_in_place_of_the_findings(tree: Path) -> None:
    (tree / "job.yml").write_text(JOB + keys(2))
    result = check("--statistics")
    assert result.exit_code == 1
    assert result.stdout == (
        "2  WS140  error    aml-unknown-key\n1  WS143  error    aml-not-allowed\n3 errors in 1 file\n"
    )
    (tree / "job.yml").write_text(JOB.replace("Command", "command"))
    assert check("--statistics").stdout == "nothing found in 1 file\n"
    refused = check("--statistics", "--format", "json")
    assert (refused.exit_code, "--statistics" in refused.stderr) == (2, True)


def test_exit_zero_hides_findings_but_not_wrong_use(tree: Path) -> None:
    (tree / "job.yml").write_text(JOB)
    assert check("--exit-zero").exit_code == 0
    assert check("--exit-zero", "--fix", "--diff").exit_code == 0
    assert check("--exit-zero", "none.yml").exit_code == 2


def test_standard_input_stands_for_a_file(tree: Path) -> None:
    (tree / "jobs").mkdir()
    (tree / "jobs" / "train.py").write_text("print()\n")
    job = JOB + "code: .\n"
    result = check("-", "--stdin-filename", "jobs/a.yml", "--format", "concise", stdin=job)
    assert result.stdout.startswith("jobs/a.yml:1:7: error[WS143]")
    assert check("-", stdin=JOB).stdout.startswith("-:1:7: error[WS143]")
    assert check("-", stdin=JOB.replace("Command", "command")).stdout == "nothing found in 1 file\n"
    own = JOB.replace("Command", "command") + "code: ./src\n"
    assert "-:" not in check("-", stdin=own).stdout  # `src` may be beside the file that this is the text of
    named = check("-", "--stdin-filename", "job.yml", stdin=own).stdout
    assert "job.yml:" in named
    assert "`src`" in named or "`./src`" in named
    assert check("-", stdin="").exit_code == 1
    assert check("-", stdin=b"\xff\xfe\x00").exit_code == 1


def test_the_text_of_standard_input_counts_and_nothing_is_written(tree: Path) -> None:
    (tree / "job.yml").write_text("on the disk: wrong\n")
    result = check("-", "--stdin-filename", "job.yml", "--fix", stdin=JOB)
    assert (result.exit_code, result.stdout) == (0, JOB.replace("Command", "command"))
    assert result.stderr == "nothing found in 1 file, fixed 1\n"
    assert (tree / "job.yml").read_text() == "on the disk: wrong\n"
    assert check("-", "--fix", stdin="{").stdout == "{"
    assert "-type: Command" in check("-", "--fix", "--diff", stdin=JOB).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["-", "job.yml"],
        ["job.yml", "--stdin-filename", "a.yml"],
        ["--stdin-filename", "a.yml"],
        ["-", "--stdin-filename", "."],
        ["--write-baseline"],
        ["--write-baseline", "--baseline", "b.json", "--fix"],
    ],
)
def test_options_that_contradict_each_other_are_refused(tree: Path, arguments: list[str]) -> None:
    (tree / "job.yml").write_text(JOB)
    result = check(*arguments, stdin=JOB)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert not (tree / "b.json").exists()


def test_the_working_folder_is_the_default(tree: Path) -> None:
    (tree / "sub").mkdir()
    (tree / "sub" / "job.yml").write_text(JOB)
    assert check().stdout == check(".").stdout
    assert check().exit_code == 1


def test_a_pipeline_in_python_is_said_not_to_be_read(tree: Path) -> None:
    (tree / "train.py").write_text("from azure.ai.ml import MLClient\n")
    assert "note:" not in CliRunner().invoke(main, ["check", "."]).stderr
    (tree / "pipe.py").write_text("from azure.ai.ml import dsl\n\n@dsl.pipeline\ndef own(): ...\n")
    result = CliRunner().invoke(main, ["check", "."])
    said = "note: `pipe.py` defines pipelines in Python, which are not read from a folder:"
    assert result.stderr == f"{said} `worldsize check pipe.py:FUNCTION`\n"
    for quiet in (["check", ".", "--format", "json"], ["check", "pipe.yml"]):
        assert "pipelines in Python" not in CliRunner().invoke(main, quiet).stderr
