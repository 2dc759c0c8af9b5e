"""`worldsize.adopt`, `init`, `advise` and `submit` as functions: what they return, write and raise."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

import worldsize
from worldsize.adopting.apply import AlreadyAdoptedError, Prepared
from worldsize.adopting.model import AdoptError
from worldsize.adopting.project.spec import UnknownSizeError
from worldsize.adopting.proving.prove import Proof
from worldsize.adopting.starting.pipeline import StartError
from worldsize.adopting.starting.project import Question
from worldsize.api.advice import AdviceError, NotExpressibleError, WrongChoiceError, edit_spec, write_spec
from worldsize.cli.submit import show_schedule
from worldsize.remote.errors import RemoteError
from worldsize.remote.names import WorkspaceNames
from worldsize.remote.submit import Submitted

SCRIPT = Path(__file__).parents[1] / "adopt" / "scripts" / "argparse_digits.py"
SPEC = Path(__file__).parents[2] / "pipelines" / "digits_ddp.yml"
TABLE = "age,price\n" + "".join(f"{number % 7},{1.37 * number + 0.25}\n" for number in range(60))
LANGUAGE = """\
name: language
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4, max_instances: 1}
  cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}
steps:
  shard: {uses: shard_data, compute: cpu, with: {source: "builtin:python-source"}}
  train:
    uses: train_ddp
    compute: gpu
    with: {model: gpt, optimizer: adamw, epochs: 4, strategy: fsdp}
    scale: {reference: {batch_size: 16, learning_rate: 0.001}}
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path(SCRIPT.name)
    path.write_bytes(SCRIPT.read_bytes())
    return path


def test_adopting_shows_the_adoption_and_writes_a_project(script: Path) -> None:
    before, shown = script.read_bytes(), list[Prepared | Proof]()

    adopted = worldsize.adopt(script, output="job", prove=False, instance_count=2, show=shown.append)

    assert [type(stage) for stage in shown] == [Prepared]
    assert adopted.proof is None
    assert not adopted.failed
    assert adopted.checked is not None
    assert adopted.checked.planned.step_plans["train"].topology.instance_count == 2
    assert sorted(adopted.written) == [
        Path("job/argparse_digits.yml"),
        Path("job/conda.yml"),
        Path(f"job/src/{script.name}"),
    ]
    assert Path("job/argparse_digits.yml").read_text() != adopted.spec  # which is the one beside the script
    assert script.read_bytes() == before
    with pytest.raises(worldsize.OutputError, match="`job` is not empty"):
        worldsize.adopt(script, output="job", prove=False)


@pytest.mark.parametrize("name", ["my train.py", "a$(touch pwned).py", "it's.py"])
def test_the_name_of_a_script_is_one_word_of_its_command(script: Path, name: str) -> None:
    adopted = worldsize.adopt(script.rename(name), write=True, prove=False)
    (spec,) = (path for path in adopted.written if path.suffix == ".yml" and path.stem != "conda")
    command = yaml.safe_load(spec.read_text(encoding="utf-8"))["steps"]["train"]["command"]
    assert shlex.split(command)[:2] == ["python", name]
    assert not worldsize.check([spec]).errors


def test_adopting_twice_is_an_error_with_the_project(script: Path) -> None:
    adopted = worldsize.adopt(str(script), write=True, prove=False)
    assert adopted.adoption.changes
    assert "DistributedSampler" in script.read_text(encoding="utf-8")

    with pytest.raises(AlreadyAdoptedError) as caught:
        worldsize.adopt(script, write=True, prove=False)

    assert caught.value.project.spec == "argparse_digits.yml"
    again = worldsize.adopt(script, prove=False)
    assert (again.adoption.changes, again.written) == ((), ())


def test_what_cannot_be_adopted_is_an_error(script: Path) -> None:
    with pytest.raises(UnknownSizeError, match="`Standard_X` is not a VM size"):
        worldsize.adopt(script, instance_type="Standard_X")
    script.write_text("import gym\n", encoding="utf-8")
    with pytest.raises(AdoptError):
        worldsize.adopt(script, prove=False)


def test_a_project_starts_from_a_table(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(TABLE, encoding="utf-8")

    started = worldsize.init(tmp_path, source=tmp_path / "prices.csv", label="price")

    assert started.spec == "prices.yml"
    assert started.kept == ()
    assert tmp_path / "prices.yml" in started.written
    assert all(path.is_file() for path in started.written)
    assert worldsize.check(tmp_path).exit_code == 0
    with pytest.raises(worldsize.OutputError, match="exists already"):
        worldsize.init(tmp_path, source=tmp_path / "prices.csv", label="price")
    replaced = worldsize.init(tmp_path, source=tmp_path / "prices.csv", label="price", force=True)
    assert replaced.written == started.written


def test_a_project_asks_for_what_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(TABLE, encoding="utf-8")
    asked: list[Question] = []

    def answer(question: Question) -> object:
        asked.append(question)
        return question.read(str(tmp_path / "prices.csv") if question.usual == "-" else question.usual)

    started = worldsize.init(tmp_path, ask=answer)

    assert started.spec == "prices.yml"
    assert [question.usual for question in asked] == ["-", "prices", "Standard_NC64as_T4_v3", "price"]
    with pytest.raises(StartError, match="has no column `size`"):
        asked[-1].read("size")


def test_nothing_starts_from_what_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="does not exist") as caught:
        worldsize.init(tmp_path, source=tmp_path / "absent.csv")
    assert caught.value.help is not None
    assert list(tmp_path.iterdir()) == []


def test_advice_is_written_into_the_spec(tmp_path: Path) -> None:
    path = tmp_path / "spec.yml"
    path.write_text(LANGUAGE, encoding="utf-8")

    advised = worldsize.advise(path, deadline=90.0)

    (step,) = advised.steps
    assert step.subject.name == "train"
    assert step.advice.chosen is not None
    edited = edit_spec(advised)
    assert path.read_text(encoding="utf-8") == LANGUAGE
    write_spec(edited)
    topology = worldsize.plan(path).steps["train"].topology
    assert topology.instance_type == step.advice.chosen.instance_type
    with pytest.raises(worldsize.OutputError, match="it changed in the meantime"):
        write_spec(edited)


def test_advice_that_a_spec_cannot_express_says_why(tmp_path: Path) -> None:
    path = tmp_path / "spec.yml"
    path.write_text(LANGUAGE.replace("compute: cpu", "compute: gpu"), encoding="utf-8")
    advised = worldsize.advise(path, deadline=90.0)
    with pytest.raises(NotExpressibleError, match="is also that of step `shard`"):
        edit_spec(advised)


def test_wrong_questions_are_errors(tmp_path: Path) -> None:
    with pytest.raises(WrongChoiceError, match="`spot` is not a tier"):
        worldsize.advise(SPEC, tiers=["spot"])  # type: ignore[list-item]
    with pytest.raises(WrongChoiceError, match="exclude each other"):
        worldsize.advise(SPEC, samples=1.0, tokens=1.0)
    with pytest.raises(AdviceError, match="no step `absent` trains"):
        worldsize.advise(SPEC, step="absent")
    broken = tmp_path / "spec.yml"
    broken.write_text(LANGUAGE.replace("epochs: 4", "epochs: many"), encoding="utf-8")
    with pytest.raises(worldsize.SpecError):
        worldsize.advise(broken)


def test_submitting_needs_a_workspace_and_a_file_without_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("AZURE_SUBSCRIPTION_ID", "AZUREML_ARM_SUBSCRIPTION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RemoteError, match="workspace"):
        worldsize.submit(SPEC)
    options = worldsize.SubmitOptions("00000000-0000-0000-0000-000000000000", "group", "mine")
    with pytest.raises(worldsize.PipelineError):
        worldsize.submit("absent.py:pipeline", options)
    broken = tmp_path / "spec.yml"
    broken.write_text(LANGUAGE.replace("epochs: 4", "epochs: many"), encoding="utf-8")
    with pytest.raises(worldsize.SpecError):
        worldsize.submit(broken, options)


def test_every_verb_of_the_command_line_is_a_function() -> None:
    assert {"adopt", "advise", "check", "compile", "init", "plan", "run", "submit"} <= set(dir(worldsize))
    assert all(callable(getattr(worldsize, name)) for name in ("adopt", "advise", "init", "submit"))


WEEKLY = {"triggerType": "Cron", "expression": "0 3 * * 1", "timeZone": "W. Europe Standard Time"}
AT_ONCE = "  without a start time, a new schedule starts its first job at once\n"


def report(trigger: dict[str, Any], *, as_json: bool = False) -> None:
    workspace = WorkspaceNames("id", "group", "mine")
    show_schedule(Submitted("weekly", workspace, {"trigger": trigger}), as_json=as_json)


def test_the_next_time_is_on_the_clock_of_the_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    report(WEEKLY)
    shown = capsys.readouterr().out
    assert AT_ONCE in shown
    assert "  next  Mon " in shown
    assert " 03:00 W. Europe Standard Time\n" in shown


def test_a_start_time_is_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    report(
        {"triggerType": "Recurrence", "frequency": "Day", "interval": 2, "startTime": "2999-01-01T05:00:00"}
    )
    assert capsys.readouterr().out.endswith("  next  Tue 2999-01-01 05:00 UTC\n")


def test_the_next_time_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    report(WEEKLY, as_json=True)
    assert "T03:00:00+0" in json.loads(capsys.readouterr().out)["next"]
    report({**WEEKLY, "timeZone": "Nowhere"}, as_json=True)
    assert json.loads(capsys.readouterr().out)["next"] is None
