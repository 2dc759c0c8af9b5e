"""Sweep steps as they are read: what Azure ML takes becomes a plan, what it does not has its place."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path

import pytest
from msgspec.structs import replace

from worldsize.azureml import job as jobs
from worldsize.azureml.model import Step
from worldsize.running.engine.sweep import make_sampler, make_trial
from worldsize.running.model.assets import AssetMap
from worldsize.running.model.errors import RunError
from worldsize.running.model.options import RunOptions
from worldsize.running.model.task import SweepPlan
from worldsize.running.prepare import preparation
from worldsize.running.prepare.graph.flatten import flatten
from worldsize.running.prepare.graph.kinds import read_sweep

SWEEP = """\
type: sweep
trial:
  command: python t.py ${{inputs.a}} ${{search_space.lr}} ${{search_space.size}}
  environment: azureml:e:1
  environment_variables: {FIXED: 1}
inputs: {a: 0.5}
outputs: {model: {type: uri_folder}}
sampling_algorithm: random
search_space:
  lr: {type: loguniform, min_value: -9, max_value: -2}
  size: {type: choice, values: [16, large, true]}
objective: {goal: minimize, primary_metric: loss}
limits: {max_total_trials: 4}
"""


def step(folder: Path, text: str) -> Step:
    file = folder / "job.yml"
    file.write_text(text, encoding="utf-8")
    job, problems = jobs.read_job(file)
    assert job is not None
    assert not problems
    return next(iter(job.steps.values()))


def read(folder: Path, text: str) -> SweepPlan:
    found, problems = read_sweep(step(folder, text))
    assert not problems
    assert found is not None
    return found


def test_a_sweep_job_becomes_a_plan(tmp_path: Path) -> None:
    found = read(tmp_path, SWEEP)
    assert (found.algorithm, found.goal, found.primary_metric) == ("random", "minimize", "loss")
    assert (found.max_total_trials, found.max_concurrent_trials) == (
        4,
        4,
    )  # all at once where nothing is said
    assert (found.timeout, found.trial_timeout, found.policy) == (None, None, None)
    assert [parameter.kind for parameter in found.parameters] == ["loguniform", "choice"]


def test_words_are_read_in_any_case_and_settings_through_their_bindings(tmp_path: Path) -> None:
    text = SWEEP.replace("goal: minimize", "goal: Maximize").replace(
        "limits: {max_total_trials: 4}",
        "limits: {max_total_trials: '${{parent.inputs.n}}', max_concurrent_trials: 2, timeout: 60}\n"
        "early_termination: {type: Bandit, slack_factor: 0.2, evaluation_interval: 2, delay_evaluation: 5}",
    )
    found, problems = read_sweep(step(tmp_path, text), lambda value: 7 if "parent" in str(value) else value)
    assert not problems
    assert found is not None
    assert (found.goal, found.max_total_trials, found.timeout) == ("maximize", 7, 60)
    assert found.policy is not None
    assert (found.policy.kind, found.policy.evaluation_interval) == ("bandit", 2)


RANDOM = "sampling_algorithm: random"


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("type: loguniform", "type: logunifrom", "`lr` of `search_space` is of type `logunifrom`", 10),
        ("max_value: -2", "max_value: 1e-2", "", 0),  # text in YAML 1.1, and still a number for Azure ML
        (
            "max_value: -2",
            "max_value: high",
            "`max_value` of `lr` in `search_space` is `high`, which is no",
            10,
        ),
        ("min_value: -9, ", "", "`min_value` of `lr` in `search_space` is missing", 10),
        (
            "min_value: -9",
            "min_value: 9",
            "`lr` of `search_space` has `min_value` 9 above `max_value` -2",
            10,
        ),
        ("values: [16, large, true]", "values: []", "choice `size` of `search_space` has no `values`", 11),
        ("[16, large, true]", "[{a: 1}]", "choice `size` of `search_space` holds `{'a': 1}`", 11),
        (RANDOM, "sampling_algorithm: grid", "`lr` is of type `loguniform`, which `grid` sampling does", 10),
        (RANDOM, "sampling_algorithm: annealing", "`sampling_algorithm` is `annealing`", 8),
        (RANDOM, "sampling_algorithm: {type: random, rule: halton}", "`rule` of the sampling is `halton`", 8),
        (RANDOM, "sampling_algorithm: {type: random, logbase: -1}", "`logbase` is `-1`", 8),
        ("goal: minimize, ", "", "`goal` of `objective` is missing", 12),
        (", primary_metric: loss", "", "sweep `sweep` has no `primary_metric`", 12),
        ("max_total_trials: 4", "max_total_trials: 0", "`max_total_trials` is `0`", 13),
        ("max_total_trials: 4", "timeout: 60", "sweep `sweep` has no `max_total_trials`", 13),
        ("limits:", "early_termination: {type: bandit}\nlimits:", "a `bandit` policy needs a slack", 13),
        (
            "limits:",
            "early_termination: {type: truncation_selection, truncation_percentage: 100}\nlimits:",
            "`truncation_percentage` is 100",
            13,
        ),
    ],
)
def test_what_cannot_be_meant_has_its_place(
    tmp_path: Path, old: str, new: str, message: str, line: int
) -> None:
    assert old in SWEEP
    found, problems = read_sweep(step(tmp_path, SWEEP.replace(old, new)))
    if not message:
        assert found is not None
        return
    assert found is None
    assert [problem.message[: len(message)] for problem in problems] == [message]
    assert problems[0].span.line == line
    assert problems[0].help


def test_a_missing_library_is_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    text = SWEEP.replace(RANDOM, "sampling_algorithm: bayesian").replace("loguniform", "uniform")
    _, problems = read_sweep(step(tmp_path, text))
    assert [each.message for each in problems] == [
        "`bayesian` sampling needs the library `optuna`, which is not installed here"
    ]


def drawn(found: SweepPlan, count: int) -> list[dict[str, object] | None]:
    source = make_sampler(found)
    made: list[dict[str, object] | None] = []
    for number in range(count):
        values = source.ask(number)
        made.append(None if values is None else dict(values))
        if values is not None:
            source.tell(number, float(number))
    return made


def test_the_same_seed_gives_the_same_trials_and_another_gives_others(tmp_path: Path) -> None:
    found = read(tmp_path, SWEEP)
    assert drawn(found, 20) == drawn(found, 20)
    assert drawn(found, 20) != drawn(replace(found, seed=1), 20)


def test_a_grid_is_every_combination_once(tmp_path: Path) -> None:
    text = SWEEP.replace(RANDOM, "sampling_algorithm: grid")
    text = text.replace("{type: loguniform, min_value: -9, max_value: -2}", "{type: choice, values: [1, 2]}")
    made = drawn(read(tmp_path, text), 7)
    assert made[:3] == [{"lr": 1, "size": 16}, {"lr": 1, "size": "large"}, {"lr": 1, "size": True}]
    assert made[6] is None
    assert len({str(values) for values in made}) == 7


def test_sobol_points_fill_the_space_evenly_from_the_first_trial_on(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    text = SWEEP.replace(RANDOM, "sampling_algorithm: {type: random, rule: sobol, seed: 3}")
    found = replace(read(tmp_path, text), max_total_trials=16)
    made = [values for values in drawn(found, 16) if values is not None]
    cells = sorted(int((math.log(float(str(values["lr"]))) + 9) / 7 * 16) for values in made)
    assert cells == list(range(16))  # one in each sixteenth
    assert made == drawn(found, 16)


def test_bayesian_sampling_finds_the_better_half_and_repeats_itself(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    text = SWEEP.replace(RANDOM, "sampling_algorithm: {type: bayesian, seed: 1}").replace(
        "loguniform", "uniform"
    )
    found = read(tmp_path, text)

    def search() -> list[float]:
        source, tried = make_sampler(found), []
        for number in range(30):
            values = source.ask(number)
            assert values is not None
            assert values["size"] in (16, "large", True)
            tried.append(float(values["lr"]))
            source.tell(number, None if number == 3 else (tried[-1] + 8) ** 2)
        return tried

    tried = search()
    assert tried == search()
    distance = [abs(value + 8) for value in tried]
    assert sum(distance[20:]) < sum(distance[:10])


def test_a_trial_is_the_step_with_its_parameters_filled_in(tmp_path: Path) -> None:
    file = tmp_path / "job.yml"
    file.write_text(SWEEP, encoding="utf-8")
    job, _ = jobs.read_job(file)
    assert job is not None
    graph, problems = flatten(job, AssetMap())
    assert not problems
    task, found = graph.tasks["sweep"], graph.sweeps["sweep"]
    trial = make_trial(task, found, 7, {"lr": 0.001, "size": "large"})
    assert trial.name == "sweep.trial-007"
    assert trial.kind == "command"
    assert trial.command == "python t.py ${{inputs.a}} 0.001 large"
    assert trial.environment_variables == {
        "FIXED": "1", "AZUREML_SWEEP_lr": "0.001", "AZUREML_SWEEP_size": "large",
    }  # fmt: skip
    assert trial.outputs == task.outputs


def test_variables_of_a_trial_are_resolved_and_win_over_those_of_the_step(tmp_path: Path) -> None:
    step_text = SWEEP.replace("{FIXED: 1}", "{FIXED: 1, BOUND: '${{parent.inputs.b}}'}")
    step_text += "environment_variables: {FIXED: 2, OWN: 3}\n"
    text = f"type: pipeline\ninputs: {{b: 0.5}}\njobs:\n  sweep:\n{textwrap.indent(step_text, '    ')}"
    (tmp_path / "job.yml").write_text(text, encoding="utf-8")
    job, _ = jobs.read_job(tmp_path / "job.yml")
    assert job is not None
    graph, problems = flatten(job, AssetMap())
    assert not problems
    assert graph.tasks["sweep"].environment_variables == {"FIXED": "1", "OWN": "3", "BOUND": "0.5"}


def test_a_component_that_takes_a_whole_number_gets_one(tmp_path: Path) -> None:
    (tmp_path / "train.yml").write_text(
        "type: command\nname: t\nenvironment: azureml:e:1\ninputs: {n: {type: integer}}\n"
        "command: echo ${{inputs.n}}\n",
        encoding="utf-8",
    )
    (tmp_path / "job.yml").write_text(
        "type: pipeline\njobs:\n  s:\n    type: sweep\n    trial: ./train.yml\n"
        "    search_space: {n: {type: quniform, min_value: 0.5, max_value: 9, q: 2}}\n"
        "    objective: {goal: maximize, primary_metric: m}\n    limits: {max_total_trials: 1}\n",
        encoding="utf-8",
    )
    job, _ = jobs.read_job(tmp_path / "job.yml")
    assert job is not None
    graph, problems = flatten(job, AssetMap())
    assert not problems
    trial = make_trial(graph.tasks["s"], graph.sweeps["s"], 0, {"n": 4.0})
    source = trial.inputs["n"]
    assert source is not None
    assert getattr(source, "value", None) == 4
    assert trial.environment_variables["AZUREML_SWEEP_n"] == "4"


@pytest.mark.parametrize(
    ("track", "why"), [(False, "`--no-track` records nothing"), (True, "MLflow is not installed here")]
)
def test_a_sweep_that_nothing_is_read_of_is_refused_before_any_step(
    track: bool, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation.importlib.util, "find_spec", lambda _: None if track else object())
    job = tmp_path / "job.yml"
    text = SWEEP.replace("python t.py", "echo").replace("true", "small")
    job.write_text(text + "compute: azureml:c\n")
    options = RunOptions(environment="current")
    with pytest.raises(RunError) as caught:
        preparation.prepare(job, tmp_path / "build", options, track=track)
    (problem,) = caught.value.problems
    assert problem.message == f"sweep `sweep` reads `loss` of its trials from MLflow, and {why}"
