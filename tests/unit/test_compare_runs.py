"""`worldsize diff`, the filters of `runs`, completion, JSON, and what notebooks show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from run_folders import FolderOfRun, track

import worldsize
from worldsize.cli.diff import LONGEST_VALUE, _shorten_values
from worldsize.cli.main import COMMANDS, main
from worldsize.running.model.results import Failure, Registration, RunResult, StepResult

FIRST, SECOND = "20260102-030405-000", "20260102-040000-000"
EVIL = "<script>"
SPEC = """\
name: tiny
compute: {gpu: {target: "azureml:gpu", instance_type: Standard_NC24ads_A100_v4}}
steps:
  train:
    command: python train.py --lr ${{plan.learning_rate}}
    code: .
    environment: azureml:train@latest
    compute: gpu
    distribution: {type: pytorch}
    with: {epochs: 2}
    scale: {reference: {batch_size: 32, learning_rate: 0.05}, optimizer: sgd, rows: 640}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of the same pipeline, with other parameters, data and metrics."""
    monkeypatch.chdir(tmp_path)
    home = tmp_path / ".worldsize"
    for name, rate, data, accuracy in ((FIRST, "0.1", "aa", 0.8), (SECOND, "0.2", "bb", 0.95)):
        run = FolderOfRun(home, name)
        given = {"learning_rate": rate, "epochs": "3", "predicted_samples_per_second": rate}
        folder = run.step("train", parameters=given)
        parts = {"code": "11", "input `rows`": data, "input `learning_rate`": rate, "environment": "22"}
        (folder / "made.json").write_text(json.dumps({"version": 1, "key": data, "parts": parts}))
        (folder / "logs").mkdir()
        (folder / "logs" / "rank-0.log").write_text("hello\n")
        run.finish("succeeded" if accuracy > 0.9 else "failed", python="3.12")
        track(home, name, "train", {"accuracy": [0.1, accuracy]})
    return home


def call(*words: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == status, (result.output, result.exception)
    return result


def test_only_what_differs_is_printed(home: Path) -> None:
    lines = [line.split() for line in call("diff", FIRST, "last").output.splitlines()]
    assert lines == [
        [FIRST, SECOND, "change"],
        ["run"],
        ["state", "failed", "succeeded"],
        ["parameters"],
        ["train.learning_rate", "0.1", "0.2"],
        ["data"],
        ["train:", "rows", "aa", "bb"],
        ["metrics"],
        ["train.accuracy", "0.8", "0.95", "+0.15"],
    ]


def test_long_values_are_cut_so_that_they_differ(home: Path) -> None:
    folder = "/mnt/projects/a-folder-with-a-long-name/another/pipelines"
    first, second = _shorten_values(f"{folder}/digits.yml", f"{folder}/letters.yml")
    assert first != second
    assert first.endswith("/digits.yml")
    assert max(len(first), len(second)) <= LONGEST_VALUE
    assert _shorten_values("0.1", "0.2") == ("0.1", "0.2")


def test_differences_as_json(home: Path) -> None:
    found = json.loads(call("diff", FIRST, SECOND, "--json").output)
    assert (found["first"], found["second"]) == (FIRST, SECOND)
    assert {"section": "data", "name": "train: rows", "first": "aa", "second": "bb"} in found["differences"]
    assert found["differences"][-1]["change"] == pytest.approx(0.15)


def test_runs_of_different_pipelines_are_told_to_be_without_all_that_one_has(home: Path) -> None:
    run = FolderOfRun(home, "20260103-000000-000", pipeline="other.yml")
    folder = run.step("cook", parameters={"heat": "9"})
    (folder / "outputs" / "m").mkdir(parents=True)
    (folder / "outputs" / "m" / "metrics.json").write_text('{"taste": 1.0}')
    run.finish(python="3.12")
    *table, said = call("diff", SECOND, "last").output.splitlines()
    assert said == "The runs have no step in common: their parameters and metrics cannot be compared."
    assert [line.split() for line in table[2:]] == [
        ["pipeline", "digits.yml", "other.yml"],
        ["train", "state", "succeeded", "–"],
        ["cook", "state", "–", "succeeded"],
        ["environment"],
        ["commit", "c0ffee", "–"],
    ]


def test_what_is_too_much_to_read_is_counted(home: Path) -> None:
    run = FolderOfRun(home, "20260103-000000-000")
    for number in range(20):
        folder = run.step(f"step-{number}")
        (folder / "outputs" / "m").mkdir(parents=True)
        metrics = {f"metric_{each}": 1.0 for each in range(100)}
        (folder / "outputs" / "m" / "metrics.json").write_text(json.dumps(metrics))
    run.finish()
    shown = call("show").output
    assert shown.count("metric_") == 20 * 60
    assert shown.count("… and 40 more metrics: see `--json`") == 20
    assert len(json.loads(call("show", "--json").output)["steps"]["step-0"]["metrics"]) == 100
    assert call("logs", status=1).output.endswith("`step-11` and 8 more\n")


def test_a_run_is_not_compared_with_itself(home: Path) -> None:
    output = call("diff", SECOND, "last", status=1).output
    assert output.startswith(f"error: `{SECOND}` and `last` are the same run, `{SECOND}`\n")
    assert "there is no run `2030`" in call("diff", "2030", "last", status=1).output


def test_the_newest_runs_are_compared_unless_others_are_named(home: Path, tmp_path: Path) -> None:
    assert call("diff").output == call("diff", FIRST).output == call("diff", FIRST, SECOND).output
    empty = str(tmp_path / "empty")
    assert "has 0 runs, and two are compared" in call("diff", "--runs-dir", empty, status=1).output
    assert "`worldsize run` makes one" in call("show", "--runs-dir", empty, status=1).output


def test_an_unknown_state_is_refused(home: Path) -> None:
    assert "'faild' is not one of 'queued'" in call("runs", "--state", "faild", status=2).output


def test_runs_that_are_alike_are_said_to_be(home: Path) -> None:
    for name in ("20260103-000000-000", "20260103-000000-001"):
        run = FolderOfRun(home, name)
        run.step("a")
        run.finish()
    output = call("diff", "20260103-000000-000", "last").output
    assert output.endswith("do not differ in anything that is recorded\n")


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["--where", "accuracy>0.9"], [SECOND]),
        (["--where", "train.accuracy <= 0.8"], [FIRST]),
        (["--where", "accuracy>0.9", "--where", "accuracy<0.9"], []),
        (["--state", "failed"], [FIRST]),
        (["--state", "failed", "--state", "succeeded"], [FIRST, SECOND]),
        (["--pipeline", "DIGITS"], [FIRST, SECOND]),
        (["--pipeline", "other"], []),
        (["--since", "2026-01-01"], [FIRST, SECOND]),
        (["--since", "2026-02-01"], []),
        (["--since", "999999w"], [FIRST, SECOND]),
        (["--sort", "accuracy"], [FIRST, SECOND]),
        (["--sort", "started", "-n", "1"], [SECOND]),
    ],
)
def test_runs_are_filtered_and_sorted(home: Path, words: list[str], ids: list[str]) -> None:
    assert [each["id"] for each in json.loads(call("runs", "--json", *words).output)] == ids


def test_metrics_are_columns(home: Path) -> None:
    lines = call("runs", "--metric", "accuracy").output.splitlines()
    assert lines[0].split() == ["run", "state", "steps", "started", "took", "accuracy", "pipeline"]
    assert lines[2].split()[-2:] == ["0.95", "digits.yml"]
    assert json.loads(call("runs", "--metric", "accuracy", "--json").output)[0]["metrics"] == {
        "accuracy": 0.8
    }
    assert call("runs", "--state", "running").output == "no run matches\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--metric", "acuracy"], "error: no run has a metric `acuracy`\n  = help: did you mean `accuracy`?"),
        (["--where", "accuracy"], "`accuracy` is not a condition such as `accuracy>0.9`"),
        (["--where", "accuracy>high"], "is not a condition"),
        (["--since", "lately"], "`lately` is neither an age such as `2d` nor a date such as `2026-01-02`"),
    ],
)
def test_filters_that_mean_nothing_are_refused(home: Path, words: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["runs", *words])
    assert result.exit_code in (1, 2)
    assert said in result.output


def test_the_newest_run_is_meant_where_none_is_named(home: Path) -> None:
    assert call("show").output.startswith(f"run {SECOND} succeeded")
    assert (
        call("logs").output
        == call("logs", "train").output
        == call("logs", "last", "train").output
        == "hello\n"
    )
    assert "there is no run `tarin`" in call("logs", "tarin", status=1).output


def complete(*words: str) -> list[str]:
    *before, incomplete = words
    return [
        each.value for each in ShellComplete(main, {}, "worldsize", "_X").get_completions(before, incomplete)
    ]


def test_the_shell_completes_runs_steps_and_rules(home: Path) -> None:
    assert complete("show", "") == ["last", SECOND, FIRST]
    assert complete("diff", FIRST, "20260102-04") == [SECOND]
    assert complete("logs", FIRST, "tr") == ["train"]
    assert complete("logs", "2030", "tr") == []
    assert complete("logs", "tr") == ["train"]  # of the newest run
    assert complete("logs", "") == ["train", "last", SECOND, FIRST]
    assert complete("plan", "--from", "20260102-04") == [SECOND]
    assert complete("check", "--ignore", "WS203") == ["WS203"]
    assert complete("report", "--runs-dir", "elsewhere", "") == []
    assert complete("explain", "WS203") == ["WS203"]
    assert "processes-exceed-gpus" in complete("explain", "processes")


def test_json_has_one_spelling(home: Path) -> None:
    """Every command prints JSON by `--json`, but for those that go on, ask, or print nothing else."""
    lacking = []
    for name in COMMANDS:
        command = main.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        if not any("--json" in option.opts for option in command.params):
            lacking.append(name)
    assert set(lacking) <= {"init", "lsp", "schema", "serve"}
    assert json.loads(call("cache", "--json").output) == []
    assert json.loads(call("explain", "WS203", "--json").output)["slug"] == "processes-exceed-gpus"
    assert json.loads(call("logs", "train", "--json").output) == {"process": "rank-0", "line": "hello"}
    Path("digits.yml").write_text(SPEC)
    Path("train.py").write_text("import torch\n")
    assert (
        "pipeline.yml" in json.loads(call("compile", "digits.yml", "-o", "build", "--json").stdout)["files"]
    )
    both = CliRunner().invoke(main, ["check", "digits.yml", "--json"])
    assert json.loads(both.stdout) == json.loads(
        CliRunner().invoke(main, ["check", "digits.yml", "--format", "json"]).stdout
    )
    assert "not both" in call("check", ".", "--json", "--format", "sarif", status=2).output


def test_a_plan_is_a_table_as_text_and_in_a_notebook(tmp_path: Path) -> None:
    (tmp_path / "tiny.yml").write_text(SPEC)
    (tmp_path / "train.py").write_text("import torch\n")
    plan = worldsize.plan(tmp_path / "tiny.yml")
    assert "learning rate" in str(plan)
    assert str(plan).startswith("tiny\n")
    html = plan._repr_html_()
    assert "<th scope" in html
    assert '">global batch size</td>' in html


def test_findings_are_a_table_in_a_notebook(tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_text(SPEC.replace("name: tiny", f"name: tiny\nnope: {EVIL}"))
    html = worldsize.check([tmp_path / "bad.yml"])._repr_html_()
    assert "`" not in html
    assert "</code>" in html
    assert "bad.yml:2:" in html
    assert "WS101" in html
    assert "nothing found" in worldsize.check([])._repr_html_()


def test_a_run_is_a_table_in_a_notebook() -> None:
    step = StepResult(EVIL, "failed", 1.0, Path("x"), {}, Failure(None, None, None, None, (), "it broke"))
    models = (Registration("digits", None, "accuracy is 0.5"),)
    result = RunResult("1", Path("x"), "failed", {EVIL: step}, 2.0, {"accuracy": 0.5}, models)
    html = result._repr_html_()
    assert EVIL not in html
    assert "it broke" in html
    assert "not registered" in html
