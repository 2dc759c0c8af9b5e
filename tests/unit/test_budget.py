"""A file that costs too much time is given up with one diagnostic; the other files are checked as always."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import worldsize
from worldsize.azureml.model import Job
from worldsize.azureml.tree import Tree
from worldsize.base import limits
from worldsize.base.problem import Finding
from worldsize.cli.main import main

PIPELINE = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
jobs:
  train:
    type: command
    command: python -c "print('hello')"
    environment: azureml:my-training:4
    compute: azureml:gpu-cluster
    inputs: {rate: "${{parent.jobs.nowhere.outputs.rate}}"}
"""


def found(report: worldsize.Report) -> list[tuple[str, str]]:
    return [(each.span.path, each.code) for each in report.diagnostics]


def test_a_slow_rule_ends_with_its_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.yml", "slow.yml", "z.yml"):
        Path(name).write_text(PIPELINE, encoding="utf-8")
    usual = found(worldsize.check("."))

    def check_slowly(_context: Tree, job: Job) -> Iterator[Finding]:
        while job.path is not None and job.path.name == "slow.yml":
            limits.check_time()
        yield from ()

    monkeypatch.setattr(limits, "SECONDS", 0.3)
    monkeypatch.setattr("worldsize.rules.graph.graph_cycle.check_job", check_slowly)
    begun = time.thread_time()
    report = worldsize.check(".")
    assert time.thread_time() - begun < 20
    given_up = [each for each in report.diagnostics if each.slug == "file-over-budget"]
    assert [(each.span.path, each.severity) for each in given_up] == [("slow.yml", "warning")]
    assert "0.3 s" in given_up[0].message
    others = [each for each in found(report) if each[0] != "slow.yml"]
    assert others == [each for each in usual if each[0] != "slow.yml"]
    assert report.exit_code == 1


def test_a_file_that_is_long_to_read_is_given_up_once_however_many_ask_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    step = "  s%d: {type: command, component: ./component.yml}\n"
    head = PIPELINE.partition("  train:")[0]
    Path("job.yml").write_text(head + "".join(step % each for each in range(3)), encoding="utf-8")
    inputs = "".join(f"  i{each}: {{type: string}}\n" for each in range(400))
    Path("component.yml").write_text(f"type: command\nname: c\ninputs:\n{inputs}", encoding="utf-8")
    monkeypatch.setattr(limits, "SECONDS", -1.0)
    report = worldsize.check("component.yml")
    assert found(report) == [("component.yml", "WS013")]


def test_time_that_others_have_the_processor_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS", 0.05)
    budgets = limits.Budgets()
    with budgets.charge("job.yml"):
        for _ in range(10):
            time.sleep(0.02)
            limits.check_time()


def test_a_thread_can_stop_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS", 0.05)
    stopped: list[bool] = []

    def work() -> None:
        try:
            with limits.Budgets().charge("job.yml"):
                while True:
                    limits.check_time()
        except limits.OverBudgetError:
            stopped.append(True)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    assert stopped == [True]


def test_without_a_check_nothing_is_bounded() -> None:
    limits.check_time()
    assert limits.take_comparisons(10**9)


def test_suggestions_end_before_they_cost_more_than_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPARISONS", 25)
    with limits.Budgets().charge("job.yml"):
        assert [limits.take_comparisons(10) for _ in range(4)] == [True, True, False, False]


SPEC = """\
name: digits
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}
steps:
  train:
    command: python -c "print('hello')"
    environment: azureml:my-training:4
    compute: gpu
"""
VERBS = {
    "plan": ["plan", "spec.yml"],  # all its work is the check's
    "plan --memory": ["plan", "spec.yml", "--memory"],
    "compile": ["compile", "spec.yml", "-o", "out"],
    "run": ["run", "spec.yml", "--runs-dir", "runs"],
    "run a job": ["run", "job.yml", "--runs-dir", "runs"],
    "run --dry-run": ["run", "job.yml", "--dry-run"],
}
WHERE = {  # what asks for the time that a file has
    "the check": "worldsize.checking.checker",
    "what follows the check": "worldsize.checking.specs",
    "the preparation of a run": "worldsize.running.prepare.preparation",
}


@pytest.mark.parametrize(
    ("verb", "where"),
    [
        (verb, where)
        for verb, words in VERBS.items()
        for where in WHERE
        if (where != "what follows the check" or (words[1] == "spec.yml" and verb != "plan"))
        and (where != "the preparation of a run" or words[0] == "run")
    ],
)
def test_no_verb_works_longer_on_a_file_than_a_check(
    verb: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yml").write_text(SPEC, encoding="utf-8")
    Path("job.yml").write_text(
        PIPELINE.replace('    inputs: {rate: "${{parent.jobs.nowhere.outputs.rate}}"}\n', "")
    )

    class Exhausted(limits.Budgets):
        def charge(self, path: str) -> AbstractContextManager[None]:
            self._accounts[path] = limits._Account(0, left=-1.0)
            return super().charge(path)

    monkeypatch.setattr(f"{WHERE[where]}.Budgets", Exhausted)
    monkeypatch.setattr("sys.argv", ["worldsize", *VERBS[verb]])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 1, said.err
    assert "error" in said.err.splitlines()[0]
    assert said.err.count("checking this file takes more than 60 s, so not all of its rules were run") == 1
    assert said.out == ""
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "runs") == ["job.yml", "spec.yml"]
    assert not list(tmp_path.glob("runs/runs/*"))
