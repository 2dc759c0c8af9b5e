"""What other repositories use of this one: the pre-commit hooks and the GitHub Action."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from worldsize.cli import main

pytestmark = [pytest.mark.run, pytest.mark.smoke]  # a process for each
ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "check"
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
BAD = "type: Command\ncommand: echo\nenvironment: azureml:e:1\ncompute: azureml:c\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docker-compose.yml").write_text("services: {}\n")
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a folder" / "job.yml").write_text(BAD)
    return tmp_path


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_hooks_run_as_pre_commit_runs_them(hook: dict[str, object], project: Path) -> None:
    words = [*shlex.split(str(hook["entry"])), *hook["args"]]  # type: ignore[misc]
    assert words[0] == "worldsize"
    result = CliRunner().invoke(main, words[1:])
    if "--fix" in words:
        assert (result.exit_code, result.output.splitlines()[-1]) == (0, "nothing found in 1 file, fixed 1")
    else:
        assert (result.exit_code, result.output.splitlines()[-1]) == (1, "1 error in 1 file")


def act(project: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action's script with the inputs that a workflow gives."""
    launcher = project / "bin with blank"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m worldsize "$@"\n')
    launcher.chmod(0o755)
    env = {
        "PATH": os.environ["PATH"],
        "WORLDSIZE": str(launcher),
        "GITHUB_OUTPUT": str(project / "output"),
        "CHECK_PATHS": ".",
        "CHECK_ARGUMENTS": "",
        "CHECK_FORMAT": "github",
        "CHECK_OUTPUT": "worldsize.sarif",
        **{f"CHECK_{name.upper()}": value for name, value in inputs.items()},
    }
    command = ["bash", str(ACTION / "check.sh")]
    return subprocess.run(
        command, cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_action_annotates_lines(project: Path) -> None:
    result = act(project, paths="a folder\n\n")
    assert result.returncode == 1
    assert result.stdout.startswith("::error file=a folder/job.yml,line=1,")
    assert act(project, arguments="--ignore WS143").returncode == 0


def test_the_action_writes_sarif(project: Path) -> None:
    assert act(project, format="sarif", output="report.sarif").returncode == 1
    report = json.loads((project / "report.sarif").read_text())
    assert [result["ruleId"] for result in report["runs"][0]["results"]] == ["WS143"]
    assert (project / "output").read_text() == "report=report.sarif\n"


def test_inputs_are_not_read_as_shell(project: Path) -> None:
    act(project, paths="$(touch made)\n", arguments="`touch made`")
    assert not (project / "made").exists()


def test_the_action_passes_every_variable_that_its_script_reads() -> None:
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    (step,) = (step for step in action["runs"]["steps"] if step.get("id") == "check")
    script = (ACTION / "check.sh").read_text()
    assert all(f"${name}" in script for name in step["env"])
    used = {f"inputs.{name}" for name in action["inputs"]}
    assert all(name in (ACTION / "action.yml").read_text() for name in used)
    assert (ACTION / "../../..").resolve() == ROOT


def test_our_own_clone_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(main, ["check", "."])
    assert result.exit_code == 0, result.output
