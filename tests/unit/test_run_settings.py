"""Inputs set from outside, for pipelines, standalone jobs and specs; and files that are no job at all."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from worldsize import api, checking
from worldsize.azureml import job as jobs
from worldsize.checking import check
from worldsize.documents import yaml
from worldsize.documents.errors import SpecError
from worldsize.documents.yaml.compose import Composer
from worldsize.running.launch.call import make_call, resolve_inputs
from worldsize.running.model.assets import AssetMap
from worldsize.running.model.errors import RunError
from worldsize.running.model.folder import RunFolder
from worldsize.running.model.options import RunOptions
from worldsize.running.model.task import File
from worldsize.running.prepare import preparation
from worldsize.running.prepare.graph.flatten import flatten
from worldsize.running.prepare.overrides import override_inputs, override_spec

Set = Callable[..., dict[str, str]]
PIPELINE = """
    type: pipeline
    inputs:
      epochs: 3
      name: "007"
      shuffle: true
      options.rate: 0.5
      data: {type: uri_folder, path: .}
    jobs:
      train:
        type: pipeline
        component: ./inner.yml
        inputs:
          epochs: ${{parent.inputs.epochs}}
          mode: fast
          options: ${{parent.inputs.options}}
          data: ${{parent.inputs.data}}
      say:
        command: say ${{inputs.name}} ${{inputs.shuffle}} ${{inputs.more}}
        inputs: {name: "${{parent.inputs.name}}", shuffle: "${{parent.inputs.shuffle}}", more: 1}
"""
INNER = """
    type: pipeline
    inputs:
      epochs: {type: integer}
      mode: {type: string, enum: [fast, slow]}
      options.rate: {type: number, max: 1}
      data: {type: uri_folder}
      seed: {type: string, default: "1"}
    jobs:
      fit:
        type: command
        component: ./fit.yml
        inputs:
          epochs: ${{parent.inputs.epochs}}
          mode: ${{parent.inputs.mode}}
          rate: ${{parent.inputs.options.rate}}
          data: ${{parent.inputs.data}}
          seed: ${{parent.inputs.seed}}
"""
FIT = """
    type: command
    command: fit ${{inputs.epochs}} ${{inputs.mode}} ${{inputs.rate}} ${{inputs.seed}}
    environment: azureml:any:1
    inputs:
      epochs: {type: integer, max: 10}
      mode: {type: string}
      rate: {type: number, min: 0}
      data: {type: uri_folder}
      seed: {type: string}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("pipeline", PIPELINE), ("inner", INNER), ("fit", FIT)):
        (tmp_path / f"{name}.yml").write_text(textwrap.dedent(text), encoding="utf-8")
    return tmp_path


def commands(path: Path, settings: dict[str, str]) -> dict[str, str]:
    """The rendered command of every step; messages by option where something is wrong."""
    job, problems = jobs.read_job(path)
    assert job is not None
    assert not problems
    job, problems = override_inputs(job, settings)
    if problems:
        return {each.span.path: f"{each.message}; {each.help}" for each in problems}
    graph, problems = flatten(job, AssetMap())
    assert not problems
    run = RunFolder(Path("run"))
    found = {}
    for name, task in graph.tasks.items():
        values = resolve_inputs(task, run)
        found[name] = make_call(task, run, values, experiment="e", tracking={}, cores=1).command
    return found


def test_a_value_that_the_check_warns_of_runs(folder: Path) -> None:
    pipeline = folder / "pipeline.yml"
    pipeline.write_text(pipeline.read_text().replace("mode: fast", "mode: medium"), encoding="utf-8")
    report = check([pipeline])
    assert ("input-outside-enum", "warning") in {(each.slug, each.severity) for each in report.diagnostics}
    assert commands(pipeline, {})["train.fit"].startswith("fit 3 medium ")


@pytest.mark.parametrize(
    ("name", "value", "step", "said"),
    [
        ("epochs", "5", "train.fit", "fit 5 fast 0.5 1"),
        ("inputs.epochs", "5", "train.fit", "fit 5 fast 0.5 1"),
        (
            "options.rate",
            "1e-3",
            "train.fit",
            "fit 3 fast 1e-3 1",
        ),  # text to YAML 1.1, and a number to a port
        ("train.mode", "slow", "train.fit", "fit 3 slow 0.5 1"),
        ("train.seed", "007", "train.fit", "fit 3 fast 0.5 007"),  # all it reaches is text
        ("name", "042", "say", "say 042 True 1"),
        ("shuffle", "no", "say", "say 007 False 1"),
        ("say.more", "0.5", "say", "say 007 True 0.5"),
    ],
)
def test_what_is_set_is_what_the_file_would_say(
    folder: Path, name: str, value: str, step: str, said: str
) -> None:
    assert commands(folder / "pipeline.yml", {name: value})[step] == said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("epochs", "11", "`epochs` is 11, above its maximum 10; write 10 or less"),
        ("epochs", "x", "`x` is not an integer, as input `epochs` requires; write an integer"),
        ("options.rate", "2", "`options.rate` is 2, above its maximum 1; write 1 or less"),
        ("train.mode", "fats", "`train.mode` cannot be `fats`; did you mean `fast`?"),
        (
            "shuffle",
            "maybe",
            "`maybe` is not a boolean, as input `shuffle` requires; write `true` or `false`",
        ),
        ("epoch", "1", "there is no input `epoch`; did you mean `epochs`?"),
        ("train.modus", "1", "there is no input `train.modus`; did you mean `train.mode`?"),
        (
            "data",
            "gone",
            "`gone` does not exist; write a file or folder of this machine, relative to the current folder",
        ),
        ("train", "1", "there is no input `train`; see `inputs:` of the pipeline and of its steps"),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, name: str, value: str, said: str) -> None:
    assert commands(folder / "pipeline.yml", {name: value}) == {f"--set {name}={value}": said}


def test_a_path_is_relative_to_where_it_is_typed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    job, _ = jobs.read_job(folder / "pipeline.yml")
    assert job is not None
    changed, problems = override_inputs(job, {"data": "."})
    assert not problems
    graph, problems = flatten(changed, AssetMap())
    assert not problems
    assert graph.tasks["train.fit"].inputs["data"] == File(tmp_path / "elsewhere", "uri_folder")
    assert job.inputs["data"] != changed.inputs["data"]


def test_a_path_that_leads_nowhere_is_blamed_once_and_not_what_passes_it_on(folder: Path) -> None:
    path = folder / "pipeline.yml"
    text = path.read_text(encoding="utf-8").replace("path: .}", "path: ./gone}")
    path.write_text(text, encoding="utf-8")
    used = FIT.replace("command: fit", "command: fit ${{inputs.data}}")
    (folder / "fit.yml").write_text(textwrap.dedent(used), encoding="utf-8")
    job, _ = jobs.read_job(path)
    assert job is not None
    _, problems = flatten(job, AssetMap())
    (problem,) = problems
    assert (problem.span.path, text.splitlines()[problem.span.line - 1].strip()) == (
        str(path),
        "data: {type: uri_folder, path: ./gone}",
    )
    assert problem.message.endswith("is `./gone`, which does not exist")


def test_a_standalone_job(tmp_path: Path) -> None:
    path = tmp_path / "job.yml"
    path.write_text(
        "command: a ${{inputs.n}} {inputs.t} ${inputs.t}\nenvironment: azureml:any:1\n"
        "inputs: {n: 1, t: word}\n"
    )
    assert commands(path, {"n": "2", "command.t": "other"}) == {"command": "a 2 other $other"}
    assert commands(path, {"m": "2"}) == {"--set m=2": "there is no input `m`; write one of `n`, `t`"}


SPEC = """
    name: small
    compute: {cpu: {target: "azureml:cpu", instance_type: Standard_D4s_v5, max_instances: 1}}
    steps:
      first:
        uses: ./leaf.yml
        with:
          a: 1  # one
          b: two
      second: {uses: ./leaf.yml, with: {a: 3}}
      third: {uses: ./leaf.yml}
"""
LEAF = """
    type: command
    name: leaf
    version: "1"
    environment: azureml:any:1
    command: echo ${{inputs.a}} ${{inputs.b}}
    inputs: {a: {type: integer, default: 0}, b: {type: string, default: none}}
"""


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, ["echo 1 two", "echo 3 none", "echo 0 none"]),
        ({"first.a": "5", "first.b": "a: 'b' # c"}, ["echo 5 a: 'b' # c", "echo 3 none", "echo 0 none"]),
        ({"second.b": "x, y"}, ["echo 1 two", "echo 3 x, y", "echo 0 none"]),
        ({"third.a": "7", "third.b": "z"}, ["echo 1 two", "echo 3 none", "echo 7 z"]),
    ],
)
def test_a_spec_is_planned_with_what_is_set(
    tmp_path: Path, settings: dict[str, str], said: list[str]
) -> None:
    spec = tmp_path / "spec.yml"
    spec.write_text(textwrap.dedent(SPEC), encoding="utf-8")
    (tmp_path / "leaf.yml").write_text(textwrap.dedent(LEAF), encoding="utf-8")
    found = preparation.find_target(spec, tmp_path / "build", settings)
    path, left = found.path, found.settings
    assert left == {}
    assert list(commands(path, {}).values()) == said


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are parsed."""
    names: list[str] = []
    compose = Composer.run

    def count(composer: Composer) -> None:
        names.append(Path(composer.source.path).name)
        compose(composer)

    monkeypatch.setattr(Composer, "run", count)
    return names


def test_a_spec_that_runs_is_parsed_once(tmp_path: Path, parsed: list[str]) -> None:
    spec = tmp_path / "spec.yml"
    spec.write_text(textwrap.dedent(SPEC), encoding="utf-8")
    (tmp_path / "leaf.yml").write_text(textwrap.dedent(LEAF), encoding="utf-8")
    preparation.find_target(tmp_path / "." / "spec.yml", tmp_path / "build", {})
    assert parsed.count("spec.yml") == 1


@pytest.mark.parametrize("checked", [True, False])
def test_a_job_that_runs_and_its_settings_are_parsed_once(
    tmp_path: Path, parsed: list[str], *, checked: bool
) -> None:
    job = tmp_path / "job.yml"
    job.write_text(
        "type: command\ncommand: ls ${{inputs.data}}\nenvironment: azureml:any:1\ncompute: azureml:cpu\n"
        "inputs: {data: {type: uri_file, path: azureml:data:1}}\n"
    )
    (tmp_path / "worldsize.yml").write_text("assets: {azureml:data:1: ./job.yml, azureml:any:1: ./job.yml}\n")
    preparation.prepare(job, tmp_path / "build", RunOptions(environment="current"), checked=checked)
    assert sorted(parsed) == ["job.yml", "worldsize.yml"]


def test_what_a_spec_has_no_place_for(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yml"
    spec.write_text(
        textwrap.dedent("""
            steps:
              one: {uses: ./leaf.yml, with: &shared {a: 1}}
              two: {uses: ./leaf.yml, with: *shared}
              group: {uses: ./leaf.yml, with: {a: {b: 1}}}
              own: {command: "a ${{inputs.rate}}", with: {rate: 1}, scale: {epochs: 3}}
        """)
    )
    wanted = {"on.a": "1", "rate": "2", "one": "1", "two.a": "1", "group.a": "1", "own.rte": "1"}
    wanted["own.epochs"] = "5"
    problems = override_spec(yaml.load(spec), wanted)[1]
    assert [(problem.message, problem.help) for problem in problems] == [
        ("`on.a` names no input of a step: write `STEP.INPUT`", "write one of `group`, `one`, `own`, `two`"),
        ("`rate` names no input of a step: write `STEP.INPUT`", "did you mean `--set own.rate=2`?"),
        ("`one` names no input of a step: write `STEP.INPUT`", "write `--set one.INPUT=…`"),
        ("`with:` of step `two` is shared with another step by an alias", "change it in the file"),
        ("`group.a` is not a single value in the file", "change it there"),
        ("step `own` has no input `rte`", "did you mean `rate`?"),
        (
            "step `own` has no input `epochs`",
            "`epochs` stands under `scale:` of the step: change it in the file",
        ),
    ]


def test_what_keeps_a_job_from_running_is_not_lost_among_notes(tmp_path: Path) -> None:
    job = tmp_path / "job.yml"
    job.write_text("type: command\ncommand: a\nenvironment: {image: base}\ncompute: azureml:c\ntags: 1\n")
    assert {each.severity for each in checking.check([job]).diagnostics} == {"error", "info"}
    with pytest.raises(SpecError) as caught:
        preparation.find_target(job, tmp_path / "build", {})
    assert {each.severity for each in caught.value.diagnostics} == {"error"}


def test_what_is_wrong_with_the_components_of_a_job_is_said_before_it_runs(folder: Path) -> None:
    (folder / "fit.yml").write_text(textwrap.dedent(FIT).replace("command: fit", "comand: fit"))
    (folder / "inner.yml").write_text(textwrap.dedent(INNER) + "# worldsize: ignore[WS203]\nversion: 1\n")
    with pytest.raises(SpecError) as caught:
        preparation.find_target(folder / "pipeline.yml", folder / "build", {})
    told = [(Path(each.span.path).name, each.message) for each in caught.value.diagnostics]
    assert ("fit.yml", "unknown key `comand`") in told
    assert len(told) == len({message for _, message in told})
    assert {each.severity for each in caught.value.diagnostics} == {"error"}


NO_JOBS = {
    "component": ("leaf.yml", LEAF, "`leaf.yml` is a component, which is run as a step of a pipeline"),
    "schedule": (
        "when.yml",
        "name: n\ntrigger: {type: cron, expression: '0 1 * * *'}\ncreate_job: ./pipeline.yml\n",
        "`when.yml` is a schedule",
    ),
    "environment": (
        "env.yml",
        "$schema: https://azuremlschemas.azureedge.net/latest/environment.schema.json\nname: e\n",
        "`env.yml` describes an environment and is not a job",
    ),
    "automl": (
        "auto.yml",
        "type: automl\ntask: regression\ncompute: azureml:c\n",
        "`auto.yml` is an AutoML job, whose models are chosen and trained by the service itself",
    ),
    "settings": ("worldsize.yml", "ignore: []\n", "`worldsize.yml` holds the settings of a project"),
}


@pytest.mark.parametrize("name", NO_JOBS)
def test_files_that_are_no_jobs_are_told_apart(name: str, tmp_path: Path) -> None:
    file, text, said = NO_JOBS[name]
    (tmp_path / file).write_text(textwrap.dedent(text), encoding="utf-8")
    with pytest.raises(RunError) as caught:
        preparation.find_target(tmp_path / file, tmp_path / "build", {})
    assert [problem.message for problem in caught.value.problems] == [said]
    assert all(problem.help for problem in caught.value.problems)


def test_the_plan_follows_what_is_set(tmp_path: Path) -> None:
    """The text that is planned is the spec's own, with one value changed."""
    path = Path(__file__).parents[2] / "pipelines" / "digits_ddp.yml"
    document, problems = override_spec(yaml.load(path), {"train.optimizer": "adamw"})
    assert not problems
    as_it_is = api.compile(path, tmp_path / "plain").plan.steps["train"].training
    changed = api.compile(path, tmp_path / "build", document).plan.steps["train"].training
    assert as_it_is is not None
    assert changed is not None
    assert (as_it_is.rule, changed.rule) == ("linear", "sqrt")
    assert changed.learning_rate < as_it_is.learning_rate
