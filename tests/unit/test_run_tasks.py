"""From YAML to tasks: sources, defaults, counts, and the sentences for what is not run here."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from worldsize.azureml import job
from worldsize.running import api
from worldsize.running.launch.call import find_overridden, make_call, make_outputs, resolve_inputs
from worldsize.running.model.assets import AssetMap
from worldsize.running.model.errors import RunError
from worldsize.running.model.folder import RunFolder
from worldsize.running.model.task import File, Output, Task, Text
from worldsize.running.prepare.graph.flatten import flatten

Read = Callable[[str], tuple[dict[str, Task], list[str]]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a pipeline given as text; the tasks and the messages."""

    def reading(text: str) -> tuple[dict[str, Task], list[str]]:
        path = tmp_path / "pipeline.yml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        found, problems = job.read_job(path)
        assert found is not None
        assert not problems
        read_graph, problems = flatten(found, AssetMap())
        return dict(read_graph.tasks), [problem.message for problem in problems]

    return reading


PIPELINE = """
    type: pipeline
    inputs:
      rate: 0.00001
      nodes: 2
      data: {type: uri_folder, path: ./data}
    jobs:
      first:
        command: make --out ${{outputs.made}} --in ${{inputs.data}}
        inputs: {data: "${{parent.inputs.data}}"}
        outputs: {made: {type: uri_folder}, list: {type: uri_file}}
      second:
        type: command
        component: ./component.yml
        resources: {instance_count: "${{parent.inputs.nodes}}"}
        environment_variables: {FLAG: true, EMPTY: null, RATE: "${{parent.inputs.rate}}", AZUREML_RUN_ID: "5"}
        inputs:
          rate: ${{parent.inputs.rate}}
          made: ${{parent.jobs.first.outputs.made}}
          flag: false
"""
COMPONENT = """
    type: command
    name: second
    command: >-
      train --rate ${{inputs.rate}} --in ${{inputs.made}} --flag ${{inputs.flag}} --epochs ${{inputs.epochs}}
      --momentum ${{inputs.momentum}} $[[--resume ${{inputs.resume}}]] $[[--seed ${{inputs.seed}}]]
    inputs:
      rate: {type: number}
      made: {type: uri_folder}
      flag: {type: boolean}
      epochs: {type: integer, default: 10.7}
      momentum: {type: number, default: 1}
      resume: {type: string, optional: true}
      seed: {type: integer, optional: true, default: 7}
    outputs: {model: {type: mlflow_model}}
    environment: azureml:any@latest
    distribution: {type: PyTorch, process_count_per_instance: 4}
"""


@pytest.fixture
def pipeline(tmp_path: Path, read: Read) -> dict[str, Task]:
    (tmp_path / "data").mkdir()
    (tmp_path / "component.yml").write_text(textwrap.dedent(COMPONENT))
    found, problems = read(PIPELINE)
    assert problems == []
    return found


def test_every_input_has_its_source(pipeline: dict[str, Task], tmp_path: Path) -> None:
    first, second = pipeline["first"], pipeline["second"]
    assert first.inputs == {"data": File(tmp_path / "data", "uri_folder")}
    assert second.inputs["made"] == Output("first", "made")
    assert second.needs == {"first"}
    assert second.inputs["rate"] == Text(0.00001)
    assert second.inputs["epochs"] == Text(10)
    assert second.inputs["resume"] is None
    assert (second.launcher, second.instance_count, second.process_count_per_instance) == ("pytorch", 2, 4)
    assert first.world_size == 1


def test_commands_are_rendered_as_azure_renders_them(pipeline: dict[str, Task]) -> None:
    run, task = RunFolder(Path("runs/1")), pipeline["second"]
    values = resolve_inputs(task, run)
    call = make_call(task, run, values, experiment="e", tracking={}, cores=8)
    assert call.command == (
        "train --rate 1e-05 --in runs/1/steps/first/outputs/made --flag False --epochs 10"
        " --momentum 1.0  --seed 7"
    )
    assert call.env["AZUREML_PARAMETER_flag"] == "False"
    assert call.env["AZURE_ML_INPUT_made"] == "runs/1/steps/first/outputs/made"
    assert call.env["AZURE_ML_OUTPUT_model"] == "runs/1/steps/second/outputs/model"
    assert call.env["AZUREML_NODE_COUNT"] == "2"
    assert call.env["AZUREML_ROOT_RUN_ID"] == "1"
    assert call.env["FLAG"] == "True"
    assert call.env["RATE"] == "1e-05"
    assert "EMPTY" not in call.env
    assert find_overridden(task) == ["AZUREML_RUN_ID"]


def test_a_file_output_is_a_path_in_a_folder_that_exists(pipeline: dict[str, Task], tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    make_outputs(pipeline["first"], run)
    values = resolve_inputs(pipeline["first"], run)
    assert Path(values.outputs["made"]).is_dir()
    assert not Path(values.outputs["list"]).exists()
    assert Path(values.outputs["list"]).parent.is_dir()


SETS = (
    "`environment_variables` of step `s` sets `{0}`, which `distribution: {{type: {1}}}`"
    " sets for each process"
)
REFUSALS = {
    "spark": (
        "{type: spark, entry: {file: a.py}}",
        "step `s` is a Spark job, and no Spark cluster is started here",
    ),
    "automl": (
        "{type: automl, task: regression}",
        "step `s` is an AutoML job, whose models are chosen and trained by the service itself",
    ),
    "loop": ("{type: do_while, body: b}", "step `s` is a loop that the service itself decides on"),
    "unheard of": ("{type: distillation}", "step `s` is of type `distillation`, which is not run here"),
    "code of a workspace": (
        "{command: a, code: 'azureml:c:1'}",
        "the code of step `s` is `azureml:c:1`, which is not on this machine",
    ),
    "code of Git": (
        "{command: a, code: 'git+https://example.com/r'}",
        "the code of step `s` is `git+https://example.com/r`, which is not on this machine",
    ),
    "variable bound to nothing": (
        "{command: a, environment_variables: {V: '${{parent.inputs.v}}'}}",
        "variable `V` of step `s` is bound to `${{parent.inputs.v}}`, which does not exist",
    ),
    "placeholder of nothing": (
        "{command: 'a ${{inputs.x}}'}",
        "step `s`: `${{inputs.x}}` in the command names no input",
    ),
    "placeholder of another scope": (
        "{command: 'a ${{name}}'}",
        "step `s`: `${{name}}` in the command is replaced by nothing",
    ),
    "ray": (
        "{command: a, distribution: {type: ray}}",
        "step `s` is distributed with `ray`, which is not started here",
    ),
    "own TF_CONFIG": (
        "{command: a, distribution: {type: tensorflow}, environment_variables: {TF_CONFIG: '{}'}}",
        SETS.format("TF_CONFIG", "tensorflow"),
    ),
    "own RANK": (
        "{command: a, distribution: {type: pytorch}, environment_variables: {RANK: 0, TF_CONFIG: x}}",
        SETS.format("RANK", "pytorch"),
    ),
    "own MPI rank": (
        "{command: a, distribution: {type: mpi}, environment_variables: {OMPI_COMM_WORLD_SIZE: 2, RANK: 1}}",
        SETS.format("OMPI_COMM_WORLD_SIZE", "mpi"),
    ),
    "no worker": (
        "{command: a, distribution: {type: tensorflow, worker_count: 0}}",
        "`worker_count` of step `s` is `0`",
    ),
    "half a server": (
        "{command: a, distribution: {type: tensorflow, parameter_server_count: 0.5}}",
        "`parameter_server_count` of step `s` is `0.5`",
    ),
    "registered": (
        "{type: command, component: 'azureml:train:1'}",
        "component `azureml:train:1` of step `s` is not on this machine",
    ),
    "datastore": (
        "{command: a, inputs: {d: {type: uri_file, path: 'azureml://x/y'}}}",
        "input `d` of step `s` is `azureml://x/y`, a datastore or asset that this machine does not have",
    ),
    "web": (
        "{command: a, inputs: {d: {type: uri_file, path: 'https://example.com/x.csv'}}}",
        "input `d` of step `s` is `https://example.com/x.csv`, a web address that this machine does not have",
    ),
    "nothing there": (
        "{command: a, inputs: {d: {type: uri_file, path: ./nowhere.csv}}}",
        "input `d` of step `s` is `./nowhere.csv`, which does not exist",
    ),
    "no such output": (
        "{command: a, inputs: {d: '${{parent.jobs.t.outputs.o}}'}}",
        "input `d` of step `s` is bound to `${{parent.jobs.t.outputs.o}}`, which does not exist",
    ),
    "inside a text": (
        "{command: a, inputs: {d: 'x/${{parent.inputs.y}}'}}",
        "input `d` of step `s` is bound to `${{parent.inputs.y}}`, which does not exist",
    ),
    "count": (
        "{command: a, distribution: {type: pytorch, process_count_per_instance: 0}}",
        "`process_count_per_instance` of step `s` is `0`",
    ),
    "timeout": ("{command: a, limits: {timeout: 0}}", "`timeout` of step `s` is `0`"),
    "no command": ("{type: command, code: .}", "step `s` has no `command`"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_not_run_here_is_one_sentence(name: str, read: Read) -> None:
    step, message = REFUSALS[name]
    _, problems = read(f"type: pipeline\njobs:\n  s: {step}\n")
    assert problems == [message]


def test_a_timeout_may_be_an_input_of_the_pipeline(read: Read) -> None:
    step = "{command: a, limits: {timeout: '${{parent.inputs.t}}'}}"
    tasks, problems = read(f"type: pipeline\ninputs: {{t: 60}}\njobs:\n  s: {step}\n  u: {{command: b}}\n")
    assert problems == []
    assert (tasks["s"].timeout, tasks["u"].timeout) == (60, None)


def test_the_counts_of_each_launcher(read: Read) -> None:
    tasks, problems = read("""
        type: pipeline
        inputs: {n: 3, s: 1, p: 3}
        jobs:
          default: {command: a, resources: {instance_count: 2}, distribution: {type: TensorFlow}}
          servers:
            command: a
            resources: {instance_count: "${{parent.inputs.n}}"}
            distribution: {type: tensorflow, worker_count: 2, parameter_server_count: "${{parent.inputs.s}}"}
          mpi:
            command: a
            resources: {instance_count: 2}
            distribution: {type: Mpi, process_count_per_instance: "${{parent.inputs.p}}"}
          alone: {command: a, environment_variables: {RANK: 0, TF_CONFIG: '{}'}}
    """)
    assert problems == []
    counts = {n: (t.launcher, t.instance_count, t.worker_count, t.process_count) for n, t in tasks.items()}
    assert counts == {
        "default": ("tensorflow", 2, 2, 2),
        "servers": ("tensorflow", 3, 2, 3),
        "mpi": ("mpi", 2, None, 6),
        "alone": ("none", 1, None, 1),
    }
    assert tasks["servers"].world_size == 2
    assert tasks["alone"].environment_variables == {"RANK": "0", "TF_CONFIG": "{}"}


def test_steps_that_wait_for_each_other(read: Read) -> None:
    step = "{{command: a, inputs: {{i: '${{{{parent.jobs.{0}.outputs.o}}}}'}}, outputs: {{o: }}}}"
    _, problems = read(f"type: pipeline\njobs:\n  a: {step.format('b')}\n  b: {step.format('a')}\n")
    assert problems == ["steps `a`, `b` wait for each other"]


def test_inputs_bound_in_a_circle(read: Read) -> None:
    step = "{{command: a, inputs: {{i: '${{{{parent.jobs.{0}.inputs.i}}}}'}}}}"
    _, problems = read(f"type: pipeline\njobs:\n  a: {step.format('b')}\n  b: {step.format('a')}\n")
    assert len(problems) == 2
    assert "is bound to itself" in problems[0]


def test_a_refusal_shows_the_line_and_starts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "job.yml"
    path.write_text(
        "type: command\ncompute: azureml:cpu\nenvironment: azureml:any@latest\ncommand: 'true'\n"
        "distribution:\n  type: ray\n  port: 1\n"
    )
    with pytest.raises(RunError) as caught:
        api.run(path, runs_dir=tmp_path / "home", track=False)
    text = str(caught.value)
    assert "job.yml:6:9: error: step `command` is distributed with `ray`" in text
    assert "6 |   type: ray\n  |         ^^^" in text
    assert "= help: use `pytorch`, `tensorflow`, `mpi`, or a step" in text
    assert list((tmp_path / "home" / "runs").iterdir()) == []


def test_outputs_that_the_file_has_elsewhere_on_this_machine_are_shown_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text(
        textwrap.dedent(
            """
            type: pipeline
            outputs:
              kept: {type: uri_folder, path: ./kept}
              there: {type: uri_folder, path: "azureml://datastores/any/paths/there"}
            jobs:
              a:
                command: touch ${{outputs.made}}/x ${{outputs.own}}/x ${{outputs.far}}/x
                outputs:
                  made: ${{parent.outputs.kept}}
                  own: {type: uri_folder, path: own}
                  far: ${{parent.outputs.there}}
            """
        )
    )
    found, _ = job.read_job(path)
    assert found is not None
    assert flatten(found, AssetMap())[0].notices == (
        "a: output `own` is not written to `own`: the run's folder has it as `steps/a/outputs/own`",
        "output `kept` is not written to `./kept`: the run's folder has it as `outputs/kept`",
    )
