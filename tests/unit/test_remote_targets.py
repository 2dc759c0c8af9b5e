"""What `worldsize submit` makes of a file before anything is sent."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from worldsize.cli.main import main
from worldsize.documents.errors import SpecError
from worldsize.remote.errors import RemoteError
from worldsize.remote.submit import require_creatable
from worldsize.remote.targets import Target, load_target
from worldsize.running.model.errors import RunError

DIGITS = Path(__file__).parents[2] / "pipelines" / "digits_ddp.yml"
PIPELINE = """\
    $schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
    type: pipeline
    inputs:
      epochs: 3
      data: {type: uri_folder, path: azureml:digits:1}
    settings: {default_compute: azureml:cpu-cluster}
    jobs:
      train:
        type: command
        command: python -c "print(${{inputs.epochs}}, ${{inputs.rate}})"
        environment: azureml:sklearn:1
        compute: azureml:gpu-cluster
        inputs: {epochs: "${{parent.inputs.epochs}}", rate: 0.5}
      report:
        type: command
        command: echo done
        environment: azureml:sklearn:1
    """


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("pipeline.yml").write_text(textwrap.dedent(PIPELINE))
    return Path("pipeline.yml")


def load(path: Path, out: Path = Path("out"), schedule: bool = False, **settings: str) -> Target:
    return load_target(path, out, settings, schedule=schedule)


def test_a_spec_is_compiled_with_its_clusters_and_schedule(tmp_path: Path) -> None:
    target = load(DIGITS, tmp_path / "out")
    assert target.path.read_text().startswith("# ")
    assert sorted(target.compute_names) == sorted(target.clusters) == ["cpu-cluster", "gpu-cluster"]
    assert load(DIGITS, tmp_path / "out", schedule=True).path.name == "schedule.yml"


def test_what_the_project_leaves_out_of_checks_is_submitted_all_the_same(pipeline: Path) -> None:
    Path("worldsize.yml").write_text("exclude: [pipeline.yml]\n")
    target = load(pipeline, epochs="4")
    assert sorted(target.compute_names) == ["cpu-cluster", "gpu-cluster"]
    assert target.overrides


def test_a_pipeline_is_taken_as_it_is(pipeline: Path) -> None:
    target = load(pipeline)
    assert (target.path, target.is_schedule) == (pipeline, False)
    assert sorted(target.compute_names) == ["cpu-cluster", "gpu-cluster"]


def test_settings_become_overrides_of_the_client(pipeline: Path) -> None:
    settings = {"inputs.epochs": "5", "data": "azureml:digits:2", "train.rate": "0.25"}
    target = load_target(pipeline, Path("out"), settings)
    assert target.overrides == [
        {"inputs.epochs": 5}, {"inputs.data.path": "azureml:digits:2"}, {"jobs.train.inputs.rate": 0.25}
    ]  # fmt: skip


def test_a_setting_without_an_input_is_refused(pipeline: Path) -> None:
    with pytest.raises(RunError, match="epoch"):
        load_target(pipeline, Path("out"), {"epoch": "5"})


def test_an_error_of_the_check_refuses(pipeline: Path) -> None:
    pipeline.write_text(pipeline.read_text().replace("parent.inputs.epochs", "parent.inputs.epoch"))
    with pytest.raises(SpecError):
        load(pipeline)


def test_a_schedule_names_the_clusters_of_its_job(pipeline: Path) -> None:
    trigger = "trigger: {type: cron, expression: '0 3 * * 1'}"
    Path("schedule.yml").write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/schedule.schema.json\n"
        f"name: weekly\n{trigger}\ncreate_job: ./pipeline.yml\n"
    )
    target = load(Path("schedule.yml"))
    assert target.is_schedule
    assert sorted(target.compute_names) == ["cpu-cluster", "gpu-cluster"]


@pytest.mark.parametrize(
    ("create_job", "setting", "help_"),
    [
        (
            "./pipeline.yml",
            "epochs",
            "write `create_job: {type: pipeline, job: ./pipeline.yml, inputs: {epochs: 7}}` in `weekly.yml`",
        ),
        (
            "{type: pipeline, job: ./pipeline.yml}",
            "inputs.epochs",
            "write `inputs: {epochs: 7}` under `create_job:` of `weekly.yml`",
        ),
        (
            "./pipeline.yml",
            "train.rate",
            "write `rate: 7` under `inputs:` of step `train` in `pipeline.yml`",
        ),
        (
            "./pipeline.yml",
            "rate",
            "the pipeline has no input `rate`: write the values of its steps into `pipeline.yml`",
        ),
        (
            "./pipeline.yml",
            "train.new",
            "write `new: 7` under `inputs:` of step `train` in `pipeline.yml`",
        ),
    ],
)
def test_a_value_for_a_schedule_is_written_where_it_counts(
    pipeline: Path, create_job: str, setting: str, help_: str
) -> None:
    trigger = "trigger: {type: cron, expression: '0 3 * * 1'}"
    Path("weekly.yml").write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/schedule.schema.json\n"
        f"name: weekly\n{trigger}\ncreate_job: {create_job}\n"
    )
    with pytest.raises(RemoteError, match="`--set` is for a job") as caught:
        load_target(Path("weekly.yml"), Path("out"), {setting: "7"})
    assert caught.value.help == help_


def test_data_that_is_set_is_relative_to_the_working_folder(pipeline: Path) -> None:
    Path("rows").mkdir()
    target = load_target(pipeline, Path("out"), {"data": "rows"})
    assert target.overrides == [{"inputs.data.path": str(Path("rows").absolute())}]


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: 1\n", "is not a spec"), ("- 1\n", "is not a spec"), ("", "is not a spec")],
)
def test_what_is_no_job_is_refused(pipeline: Path, text: str, message: str) -> None:
    pipeline.with_name("other.yml").write_text(text)
    with pytest.raises(RemoteError, match=message):
        load(pipeline.with_name("other.yml"))


def test_a_job_has_no_schedule(pipeline: Path) -> None:
    with pytest.raises(RemoteError, match="without a schedule"):
        load(pipeline, schedule=True)


def test_missing_clusters_are_created_only_on_request(tmp_path: Path) -> None:
    target = load(DIGITS, tmp_path / "out")
    with pytest.raises(RemoteError, match="no compute `gpu-cluster`") as caught:
        require_creatable(target, ["gpu-cluster"], create=False)
    assert "--create-compute" in str(caught.value.help)
    require_creatable(target, ["gpu-cluster"], create=True)
    require_creatable(target, [], create=False)


def test_a_cluster_of_unknown_size_cannot_be_created(pipeline: Path) -> None:
    with pytest.raises(RemoteError, match="`cpu-cluster` and `gpu-cluster`") as caught:
        require_creatable(load(pipeline), ["cpu-cluster", "gpu-cluster"], create=True)
    assert "worldsize.yml" in str(caught.value.help)


def test_worldsize_yml_says_what_to_create(pipeline: Path) -> None:
    sizes = "{cpu-cluster: {instance_type: Standard_D16s_v5}, gpu-cluster: {instance_type: Standard_NC6s_v3}}"
    Path("worldsize.yml").write_text(f"compute: {sizes}\nseverity: {{WS202: info}}\n")
    require_creatable(load(pipeline), ["cpu-cluster", "gpu-cluster"], create=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--download", "out", "--no-wait"], "followed to its end"),
        (["--download", "out", "--schedule"], "followed to its end"),
        (["--set", "epochs"], "no `=`"),
    ],
)
def test_options_that_contradict_are_usage_errors(pipeline: Path, words: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["submit", str(pipeline), *words])
    assert result.exit_code == 2, result.output
    assert message in result.output


def test_a_workspace_that_is_not_named_is_one_message(pipeline: Path, monkeypatch: Any) -> None:
    for name in ("AZUREML_ARM_SUBSCRIPTION", "AZURE_SUBSCRIPTION_ID"):
        monkeypatch.delenv(name, raising=False)
    result = CliRunner().invoke(main, ["submit", str(pipeline)])
    assert result.exit_code == 1
    assert result.output.startswith("error: which workspace is meant?")


def test_names_of_a_workspace_need_azure(pipeline: Path) -> None:
    result = CliRunner().invoke(main, ["runs", "--workspace", "w"])
    assert (result.exit_code, "add `--azure`" in result.output) == (2, True)
