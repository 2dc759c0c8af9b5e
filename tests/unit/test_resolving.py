"""From a spec to the graph: wiring, planned inputs, and one problem at its place for every fault."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from worldsize.azureml.fields import read_member
from worldsize.azureml.model import Binding, Literal
from worldsize.base import resources
from worldsize.base.span import Span
from worldsize.checking.checker import check_files
from worldsize.checking.selection import Choice
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.resolving.planned import Planned
from worldsize.resolving.resolve import plan_spec
from worldsize.spec import from_document

HEAD = """\
name: s
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4, max_instances: 4}
  cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5, max_instances: 4}
steps:
"""
SHARD = "  shard: {uses: shard_data, compute: cpu, with: {source: 'builtin:digits'}}\n"
TRAIN = """\
  train:
    uses: train_ddp
    compute: gpu
    instance_count: 2
    with: {epochs: 2, optimizer: sgd}
    scale: {reference: {batch_size: 32, learning_rate: 0.05}, warmup_epochs: 1}
"""
EVALUATE = "  evaluate: {uses: evaluate, compute: cpu}\n"
REGISTER = "  register: {uses: register, compute: cpu, with: {model_name: m}}\n"
OWN = """\
  own:
    compute: cpu
    environment: azureml:e:1
"""


GROUP = """\
  shard_N: {uses: shard_data, compute: cpu, with: {source: 'builtin:digits'}}
  train_N:
    uses: train_ddp
    compute: gpu
    with: {epochs: 2, optimizer: sgd, shards: "${{parent.jobs.shard_N.outputs.shards}}"}
    scale: {reference: {batch_size: 32, learning_rate: 0.05}, warmup_epochs: 1}
  evaluate_N:
    uses: evaluate
    compute: cpu
    with:
      model: ${{parent.jobs.train_N.outputs.model}}
      shards: ${{parent.jobs.shard_N.outputs.shards}}
  register_N:
    uses: register
    compute: cpu
    with:
      model: ${{parent.jobs.train_N.outputs.model}}
      metrics: ${{parent.jobs.evaluate_N.outputs.metrics}}
      model_name: m
    when: {accuracy: ">= 0.5"}
"""


def built(folder: Path, steps: str) -> tuple[Planned, list[Diagnostic]]:
    """The resolved spec, and everything that resolving and the rules say of it."""
    (folder / "spec.yml").write_text(HEAD + steps)
    report, (run,) = check_files([folder / "spec.yml"], Choice(ignore=["WS225", "WS720"]))
    (resolved,) = run.planned.values()
    return resolved, list(report.diagnostics)


def bindings(found: Planned, step: str) -> dict[str, str]:
    arguments = found.job.steps[step].inputs
    return {
        name: str(field.value.expression)
        for name, field in arguments.items()
        if isinstance(field.value, Binding)
    }


def literals(found: Planned, step: str) -> dict[str, object]:
    arguments = found.job.steps[step].inputs
    return {name: field.value.value for name, field in arguments.items() if isinstance(field.value, Literal)}


def test_steps_are_wired_by_the_names_of_ports(tmp_path: Path) -> None:
    found, problems = built(tmp_path, SHARD + TRAIN + EVALUATE + REGISTER)
    assert not problems
    assert bindings(found, "train") == {"shards": "${{parent.jobs.shard.outputs.shards}}"}
    assert bindings(found, "evaluate") == {
        "model": "${{parent.jobs.train.outputs.model}}",
        "shards": "${{parent.jobs.shard.outputs.shards}}",
    }
    assert bindings(found, "register") == {
        "model": "${{parent.jobs.train.outputs.model}}",
        "metrics": "${{parent.jobs.evaluate.outputs.metrics}}",
    }


def test_planned_inputs_are_filled_and_say_where_they_come_from(tmp_path: Path) -> None:
    found, problems = built(tmp_path, SHARD + TRAIN)
    assert not problems
    given = literals(found, "train")
    assert given["world_size"] == 8
    assert given["global_batch_size"] == 256
    assert given["learning_rate"] == pytest.approx(0.4)
    assert literals(found, "shard")["shard_count"] == 8
    rate = found.job.steps["train"].inputs["learning_rate"]
    assert rate.comment is not None
    assert "κ = 256 / 32 = 8" in rate.comment
    assert rate.comment.endswith("(linear)")
    assert found.templates["train"]["learning_rate"] == "${{plan.learning_rate}}"


def test_shards_suit_every_step_that_reads_them(tmp_path: Path) -> None:
    second = TRAIN.replace("train:", "train_3:").replace("instance_count: 2", "instance_count: 3")
    found, problems = built(tmp_path, SHARD + TRAIN + second)
    assert not [problem for problem in problems if problem.slug != "batch-dropped"]
    assert literals(found, "shard")["shard_count"] == 24  # 8 and 12 ranks


def test_an_own_command_takes_the_plan_as_inputs(tmp_path: Path) -> None:
    own = (
        OWN.replace("cpu", "gpu")
        + """\
    distribution: {type: pytorch}
    command: >-
      python -m t ${{inputs.shards}} --lr ${{plan.learning_rate}}
      --n ${{inputs.world_size}} ${{outputs.model}}
    with: {note: "rate ${{plan.learning_rate}}", batch: "${{plan.global_batch_size}}"}
    outputs: {model: mlflow_model}
    environment_variables: {RATE: "${{plan.learning_rate}}", N: 2}
    scale: {reference: {batch_size: 32, learning_rate: 0.05}, optimizer: sgd, epochs: 9}
"""
    )
    found, problems = built(tmp_path, SHARD + own + EVALUATE)
    assert not problems
    given = literals(found, "own")
    assert given["learning_rate"] == pytest.approx(0.2)
    assert given["batch"] == 128
    assert given["note"] == "rate 0.2"
    assert given["world_size"] == 4
    step = found.job.steps["own"]
    assert step.component is not None
    assert step.component.command is not None
    assert "--lr ${{inputs.learning_rate}}" in step.component.command.value
    assert step.component.inputs["learning_rate"].type == "number"
    assert step.component.inputs["batch"].type == "integer"
    assert step.component.inputs["shards"].type == "uri_folder"
    assert step.environment_variables is not None
    assert step.environment_variables.value == {"RATE": "0.2", "N": "2"}
    assert bindings(found, "own") == {"shards": "${{parent.jobs.shard.outputs.shards}}"}
    assert bindings(found, "evaluate")["model"] == "${{parent.jobs.own.outputs.model}}"


def test_a_gate_becomes_inputs_of_the_step_that_registers(tmp_path: Path) -> None:
    gated = REGISTER.rstrip("}\n") + '}, when: {accuracy: ">= 0.97", loss: "< 0.2"}, on_fail: skip}\n'
    found, problems = built(tmp_path, SHARD + TRAIN + EVALUATE + gated)
    assert not problems
    given = literals(found, "register")
    assert given["gate"] == "accuracy >= 0.97; loss < 0.2"
    assert given["on_fail"] == "skip"


def test_a_step_that_reads_from_a_later_one_is_never_its_source(tmp_path: Path) -> None:
    step = (
        '  {name}: {{command: "x ${{{{inputs.data}}}} ${{{{outputs.data}}}}", compute: cpu,\n'
        "    environment: azureml:e:1, outputs: {{data: uri_folder}}, with: {{{given}}}}}\n"
    )
    later = step.format(name="a", given="data: '${{parent.jobs.b.outputs.data}}'")
    steps = later + step.format(name="b", given="")
    _, problems = built(tmp_path, steps)
    assert [problem.slug for problem in problems] == ["input-missing"]


def test_a_component_elsewhere_is_taken_at_its_word(tmp_path: Path) -> None:
    steps = """\
  far: {uses: "azureml:far:3", compute: cpu, with: {anything: 1}}
  evaluate:
    uses: evaluate
    compute: cpu
    with: {model: "${{parent.jobs.far.outputs.model}}", shards: "azureml:s:1"}
"""
    found, problems = built(tmp_path, steps)
    assert not problems
    assert literals(found, "far") == {"anything": 1}


def shard(more: str) -> str:
    return SHARD.replace("'builtin:digits'", f"'builtin:digits', {more}")


def evaluate(inputs: str, more: str = "") -> str:
    return SHARD + EVALUATE.replace("cpu", f"cpu, with: {{model: 'azureml:m:1', {inputs}}}{more}")


# By slug the steps, the token the caret must stand under, and a part of the help.
FAULTS = {
    "unknown-component": (
        "  a: {uses: train_dpp, compute: cpu}\n", "train_dpp", "did you mean `train_ddp`?"
    ),
    "component-missing": (
        "  a: {uses: ./nope.yml, compute: cpu}\n", "./nope.yml", "the path is relative to the spec"
    ),
    "input-unknown": (SHARD.replace("source:", "sourse:"), "sourse", "did you mean `source`?"),
    "input-missing": (
        "  e: {uses: evaluate, compute: cpu, with: {shards: 'azureml:s:1'}}\n",
        "evaluate", "`model: ${{parent.jobs.STEP.outputs.OUTPUT}}`",
    ),
    "input-ambiguous": (
        SHARD + SHARD.replace("shard:", "again:", 1) + TRAIN,
        "train_ddp", "shards: ${{parent.jobs.again.outputs.shards}}",
    ),
    "input-type": (shard("seed: 1.5"), "1.5", "write a whole number such as 2"),
    "input-out-of-range": (shard("validation_fraction: 2"), "2", "write 0.9 or less"),
    "input-not-in-enum": (shard("format: cvs"), "cvs", "did you mean `csv`?"),
    "binding-unknown-step": (
        evaluate("shards: '${{parent.jobs.sahrd.outputs.shards}}'"), "sahrd", "did you mean `shard`?"
    ),
    "binding-unknown-output": (
        evaluate("shards: '${{parent.jobs.shard.outputs.shard}}'"), "shard", "did you mean `shards`?"
    ),
    "binding-unknown-scope": (
        evaluate("shards: '${{jobs.shard.outputs.shards}}'"),
        "${{jobs.shard.outputs.shards}}", "write `${{parent.jobs.shard.outputs.shards}}`",
    ),
    "binding-in-text": (
        evaluate("shards: '${{parent.jobs.shard.outputs.shards}}/x'"),
        "${{parent.jobs.shard.outputs.shards}}", "join the path inside the script",
    ),
    "binding-malformed": (
        OWN + "    command: python -m t\n    with: {note: 'a ${plan.learning_rate} b'}\n",
        "${plan.learning_rate}", "write `${{plan.learning_rate}}`",
    ),
    "plan-unknown-quantity": (
        OWN + "    command: python -m t --lr ${{plan.learnig_rate}}\n",
        "${{plan.learnig_rate}}", "did you mean `learning_rate`?",
    ),
    "data-missing": (evaluate("shards: ./shrads"), "./shrads", ""),
    "code-missing": (OWN + "    command: python -m t\n    code: ./scr\n", "./scr", ""),
    "environment-missing": (
        OWN.replace("azureml:e:1", "{image: 'i:1', conda_file: ./conda.yml}") + "    command: python -m t\n",
        "./conda.yml", "",
    ),
    "gate-not-supported": (evaluate("split: train", ", when: {accuracy: '> 1'}"), "accuracy", ""),
    "gate-metric-unknown": (
        SHARD + TRAIN + EVALUATE + REGISTER.replace("m}", "m}, when: {acuracy: '> 0.9'}"),
        "acuracy", "did you mean `accuracy`?",
    ),
    "planned-input-overridden": (
        SHARD + TRAIN.replace("epochs: 2", "epochs: 2, learning_rate: 0.1"),
        "0.1", "pin it as `learning_rate` under `scale:`",
    ),
    "user-model-missing": (
        SHARD + TRAIN.replace("epochs: 2", "epochs: 2, model: 'net.py:biuld'"),
        "biuld", "did you mean `build`?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("slug", FAULTS)
def test_each_fault_is_one_problem_at_its_token(tmp_path: Path, slug: str) -> None:
    steps, token, help_ = FAULTS[slug]
    (tmp_path / "net.py").write_text("def build():\n    return None\n")
    _, problems = built(tmp_path, steps)
    assert [problem.slug for problem in problems] == [slug], problems
    (problem,) = problems
    assert problem.help is not None
    assert help_ in problem.help
    span = problem.span
    line = (HEAD + steps).splitlines()[span.line - 1]
    assert line[span.column - 1 : span.end_column - 1] == token
    assert len(problem.message) <= 200
    assert problem.message[0].islower() or problem.message[0] == "`"


def test_a_misspelt_built_in_model_is_found(tmp_path: Path) -> None:
    _, problems = built(tmp_path, SHARD + TRAIN.replace("epochs: 2", "epochs: 2, model: cnnn"))
    assert [(problem.slug, problem.help) for problem in problems] == [
        ("input-not-in-enum", "did you mean `cnn`?")
    ]


def test_two_descriptions_of_one_cluster_must_agree(tmp_path: Path) -> None:
    twice = HEAD.replace(
        "steps:", "  more: {target: azureml:cpu-cluster, instance_type: Standard_D4s_v5}\nsteps:"
    )
    (tmp_path / "spec.yml").write_text(twice + SHARD)
    spec, _ = from_document(yaml.load(tmp_path / "spec.yml"))
    assert spec is not None
    problems = plan_spec(spec).problems
    assert [problem.slug for problem in problems] == ["compute-conflict"]
    assert problems[0].related


def test_a_cycle_is_listed_in_the_order_data_flows(tmp_path: Path) -> None:
    step = (
        "  {name}: {{command: x, compute: cpu, environment: azureml:e:1, outputs: {{o: uri_folder}},\n"
        "    with: {{i: '${{{{parent.jobs.{other}.outputs.o}}}}'}}}}\n"
    )
    pairs = [("a", "c"), ("b", "a"), ("c", "b")]
    _, problems = built(tmp_path, "".join(step.format(name=name, other=other) for name, other in pairs))
    (problem,) = problems
    assert problem.slug == "graph-cycle"
    steps = problem.message.removeprefix("steps wait for each other: ").replace("`", "").split(" → ")
    assert steps[0] == steps[-1]
    assert set(steps) == {"a", "b", "c"}
    flows = {"a": "b", "b": "c", "c": "a"}
    assert [flows[name] for name in steps[:-1]] == steps[1:]
    assert len(problem.related) == 2


def test_a_step_that_reads_itself_is_a_cycle(tmp_path: Path) -> None:
    own = (
        OWN
        + "    command: x\n    outputs: {o: uri_folder}\n    with: {i: '${{parent.jobs.own.outputs.o}}'}\n"
    )
    _, problems = built(tmp_path, own)
    assert [problem.slug for problem in problems] == ["graph-cycle"]


def test_an_unknown_component_does_not_drag_others_along(tmp_path: Path) -> None:
    _, problems = built(tmp_path, SHARD + TRAIN.replace("train_ddp", "nothing_like_it") + EVALUATE + REGISTER)
    assert [problem.slug for problem in problems] == ["unknown-component"]


def test_a_long_chain_is_resolved(tmp_path: Path) -> None:
    step = (
        "  s{n}:\n    command: x ${{{{outputs.o{n}}}}}\n    compute: cpu\n    environment: azureml:e:1\n"
        "    outputs: {{o{n}: uri_folder}}\n    with: {{{inputs}}}\n"
    )
    lines = [step.format(n=0, inputs="")]
    lines += [
        step.format(n=n, inputs=f"i: '${{{{parent.jobs.s{n - 1}.outputs.o{n - 1}}}}}'")
        for n in range(1, 1500)
    ]
    found, problems = built(tmp_path, "".join(lines))
    assert not problems
    assert len(found.job.steps) == 1500


def test_the_work_of_planning_grows_with_the_number_of_steps(tmp_path: Path) -> None:
    _, of_100, of_400 = (
        _count_calls(tmp_path, groups) for groups in (1, 25, 100)
    )  # the first reads the facts
    assert of_400 < 4.2 * of_100


def _count_calls(folder: Path, groups: int) -> int:
    """The calls of functions that planning a spec takes."""
    path = folder / "spec.yml"
    path.write_text(HEAD + "".join(GROUP.replace("_N", f"_{number}") for number in range(groups)))
    spec, _ = from_document(yaml.load(path))
    assert spec is not None
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        planned = plan_spec(spec)
    finally:
        sys.setprofile(None)
    assert not planned.problems
    return calls


def test_the_built_in_components_are_those_on_disk() -> None:
    assert set(resources.component_names()) >= {"evaluate", "register", "shard_data", "train_ddp"}


def test_a_pinned_value_has_its_place_and_a_derived_one_the_places_it_comes_from(tmp_path: Path) -> None:
    pinned = TRAIN.replace(
        "    instance_count: 2\n", "    process_count_per_instance: 4\n    instance_count: 2\n"
    )
    resolved, _ = built(tmp_path, SHARD + pinned + EVALUATE)
    text = (tmp_path / "spec.yml").read_text().splitlines()
    train = resolved.job.steps["train"]

    def shown(spans: tuple[Span | None, ...]) -> list[str]:
        return [text[span.line - 1][span.column - 1 : span.end_column - 1] for span in spans if span]

    processes = read_member(train.distribution, "process_count_per_instance")
    instances = read_member(train.resources, "instance_count")
    assert processes is not None
    assert instances is not None
    assert train.compute is not None
    assert shown((processes.span, instances.span, train.compute.span)) == ["4", "2", "gpu"]
    assert shown(train.inputs["world_size"].sources) == ["Standard_NC96ads_A100_v4", "2", "4"]
    assert shown(train.inputs["warmup_epochs"].sources) == ["1"]

    derived, _ = built(tmp_path, SHARD + TRAIN + EVALUATE)
    processes = read_member(derived.job.steps["train"].distribution, "process_count_per_instance")
    text = (tmp_path / "spec.yml").read_text().splitlines()
    assert processes is not None
    assert processes.span is None
    assert shown(processes.sources) == ["Standard_NC96ads_A100_v4", "2"]
