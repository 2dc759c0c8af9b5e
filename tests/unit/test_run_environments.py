"""Environments of steps: what definitions ask for, which steps need it, layers, containers' lines."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml as pyyaml

import worldsize
from worldsize.azureml import fields
from worldsize.azureml import job as jobs
from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.files import Files
from worldsize.base.span import Span
from worldsize.documents import yaml
from worldsize.facts import curated
from worldsize.running.environments import definition, docker, interpreters, layers
from worldsize.running.environments.definition import (
    Definition,
    EnvironmentPlan,
    digest_requirements,
    expand_requirements,
    plan_environments,
    read_conda,
    read_definition,
)
from worldsize.running.environments.docker import (
    find_docker_fault,
    find_orphans,
    identify_runner,
    is_runner_alive,
    run_in_container,
)
from worldsize.running.environments.interpreters import find_reasons, has_other_mlflow, keep_mlflow_apart
from worldsize.running.environments.layers import layer_variables, make_layer, packages_folder
from worldsize.running.model.assets import AssetEntry, AssetMap
from worldsize.running.model.options import EnvironmentMode, RunOptions
from worldsize.running.model.process import Process
from worldsize.running.prepare.graph.flatten import flatten
from worldsize.running.prepare.preparation import list_snapshots, prepare

PIPELINES = Path(__file__).parents[2] / "pipelines"
SKLEARN = "azureml://registries/azureml/environments/sklearn-1.5/labels/latest"
OTHER = "3.8" if definition.PYTHON_VERSION != "3.8" else "3.9"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("numpy", "numpy"),
        ("numpy=1.22", "numpy==1.22.*"),
        ("numpy=1.22.*", "numpy==1.22.*"),
        ("numpy 1.22.*", "numpy==1.22.*"),
        ("numpy==1.22.3", "numpy==1.22.3"),
        ("numpy 1.22.3", "numpy==1.22.3"),
        ("numpy=1.22.3=py310_0", "numpy==1.22.3"),
        ("numpy>=1.22,<2", "numpy>=1.22,<2"),
        ("numpy >=1.22, <2", "numpy>=1.22,<2"),
        ("numpy~=1.22.0", "numpy~=1.22.0"),
        ("conda-forge::Pandas=1.5", "pandas==1.5.*"),
        ("pytorch=2.1", "torch==2.1.*"),
        ("pytables", "tables"),
        ("numpy=1.22|1.23", None),
        ("some-inhouse-package=1", None),
        ("cudatoolkit=11.8", None),
    ],
)
def test_a_dependency_of_conda_as_pip_has_it(written: str, expected: str | None) -> None:
    found = read_conda([written], Definition())
    assert found.requirements == (() if expected is None else (expected,))
    assert found.unavailable == ((written,) if expected is None else ())


def test_a_whole_conda_file() -> None:
    text = f"""
    name: x
    channels: [conda-forge]
    dependencies:
      - python={OTHER}
      - pip=22
      - scipy
      - gcc_linux-64
      - pip:
          - mlflow==2.9.2  # pinned
          - --extra-index-url https://example.com/simple
    """
    found = read_conda(pyyaml.safe_load(text)["dependencies"], Definition())
    assert found.python == OTHER
    assert found.requirements == ("scipy", "mlflow==2.9.2", "--extra-index-url https://example.com/simple")
    assert found.unavailable == ("gcc_linux-64",)
    assert read_conda(["python>=3.8"], Definition()).python is None
    assert read_conda("numpy", Definition()) == Definition()


def test_included_requirements_are_written_out(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "base.txt").write_text(
        "six # comment\n-r ../top.txt\n./wheel-1.0-py3-none-any.whl\n"
    )
    (tmp_path / "top.txt").write_text(
        "-r more/base.txt\n\n# nothing\npandas <2 ; python_version > '3' \\\n\n-e .\n"
    )
    found = list(
        expand_requirements(["-r top.txt", "pkg @ https://example.com/pkg.whl"], tmp_path, CopyAccess())
    )
    assert found == [
        "six",
        str(tmp_path / "more" / "wheel-1.0-py3-none-any.whl"),
        "pandas <2 ; python_version > '3'",
        f"-e {tmp_path}",
        "pkg @ https://example.com/pkg.whl",
    ]
    with pytest.raises(OSError, match="gone"):
        list(expand_requirements(["-r gone.txt"], tmp_path, CopyAccess()))


def test_a_digest_is_of_contents_wherever_they_lie(tmp_path: Path) -> None:
    found = []
    for name, text in [("a", "1"), ("b", "1"), ("c", "2")]:
        (tmp_path / name / "own").mkdir(parents=True)
        (tmp_path / name / "own" / "setup.py").write_text(text)
        found.append(
            digest_requirements(expand_requirements(["six", "./own"], tmp_path / name, CopyAccess()))
        )
    assert found[0] == found[1] != found[2]
    assert digest_requirements(["six"]) != digest_requirements(["six==1"])


PIPELINE = """\
type: pipeline
settings: {default_compute: azureml:cpu}
jobs:
  bare: {command: echo, environment: {image: "python:3.11"}}
  image: {command: echo, environment: {image: example.com/own:1}}
  inline:
    command: echo
    environment: {image: ubuntu, conda_file: {dependencies: [numpy=1.26, {pip: [six]}]}}
  conda: {command: echo, environment: {image: ubuntu, conda_file: env/conda.yml}}
  file: {command: echo, environment: "file:env/env.yml"}
  mapped: {command: echo, environment: "azureml:own:3"}
  unknown: {command: echo, environment: "azureml:other@latest"}
  idle: {command: python main.py, code: idle, environment: "SKLEARN"}
  needy: {command: python main.py, code: needy, environment: "SKLEARN"}
""".replace("SKLEARN", SKLEARN)
FILES = {
    "pipeline.yml": PIPELINE,
    "env/conda.yml": f"dependencies: ['python={OTHER}', libgcc, {{pip: [-r more.txt]}}]\n",
    "env/more.txt": "tabulate\n",
    "env/env.yml": "name: x\nimage: ubuntu\nconda_file: conda.yml\n",
    "own.txt": "rich\n",
    "idle/main.py": "print('numpy and pandas are only named')\n",
    "needy/main.py": "import os, pandas as pd\n",
}


def planned(folder: Path, files: dict[str, str], mode: EnvironmentMode = "isolated") -> EnvironmentPlan:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    job, problems = jobs.read_job(folder / "pipeline.yml", Files())
    assert job is not None
    assert not problems
    known = AssetMap([AssetEntry("azureml:own", folder / "own.txt", Span("worldsize.yml", 1, 1, 1, 2))])
    graph, problems = flatten(job, known)
    assert not problems
    code, problems = list_snapshots(graph.tasks, CopyAccess())
    assert not problems
    return plan_environments(graph.tasks, code, known, mode, {}, gate=CopyAccess())


def test_every_way_to_define_an_environment(tmp_path: Path) -> None:
    plan = planned(tmp_path, FILES)
    assert not plan.problems
    wanted = {name: found.requirements for name, found in plan.definitions.items()}
    known = curated.lookup(SKLEARN)
    assert known is not None
    assert wanted == {
        "bare": (),
        "image": (),
        "inline": ("numpy==1.26.*", "six"),
        "conda": ("tabulate",),
        "file": ("tabulate",),
        "mapped": ("rich",),
        "unknown": (),
        "idle": (),
        "needy": known.requirements,
    }
    assert plan.find_definition("needy.trial-003") == plan.find_definition("needy")
    said = "\n".join(plan.notices)
    assert (
        f"`env/conda.yml`: it requires Python {OTHER}, but its steps run with {definition.PYTHON_VERSION}"
        in said
    )
    assert "`libgcc`: a package of conda that pip may not have" in said
    assert "`example.com/own:1` (image): the packages of its image are unknown" in said
    assert "`azureml:other@latest` (unknown)" in said
    assert "python:3.11" not in said
    assert SKLEARN not in said


def test_the_current_environment_reads_nothing(tmp_path: Path) -> None:
    plan = planned(tmp_path, {**FILES, "env/env.yml": "- broken\n"}, "current")
    assert not plan.problems
    assert not plan.notices


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"env/env.yml": "name: x\n"}, "`env.yml` is not an environment"),
        ({"env/conda.yml": "dependencies: [{pip: [-r gone.txt]}]\n"}, "gone.txt` cannot be read"),
    ],
)
def test_a_broken_definition_is_reported_where_it_is_named(
    files: dict[str, str], message: str, tmp_path: Path
) -> None:
    plan = planned(tmp_path, {**FILES, **files})
    assert message in plan.problems[0].message
    assert plan.problems[0].span.line in (9, 10)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ("{image: python, conda_file: env/conda.yml}", "env/conda.yml"),
        ("{conda_file: {dependencies: [six]}, image: python}", "conda_file"),
        ("{image: python}", "python"),
        ("{build: {path: env, dockerfile_path: Dockerfile}}", "env"),
        ("./env/conda.yml", "./env/conda.yml"),
    ],
)
def test_the_place_of_an_environment_is_the_part_that_installs(
    environment: str, named: str, tmp_path: Path
) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "conda.yml").write_text("dependencies: [six]\n")
    (tmp_path / "job.yml").write_text(f"command: echo\nenvironment: {environment}\n")
    document = yaml.load(tmp_path / "job.yml")
    assert isinstance(document.root, yaml.Mapping)
    field = fields.read_field(document.root, "environment")
    found, problems = read_definition(field, tmp_path, AssetMap(), CopyAccess())
    assert not problems
    assert found.span is not None
    line = document.text.splitlines()[found.span.line - 1]
    assert line[found.span.column - 1 : found.span.end_column - 1] == named


def test_what_is_compiled_from_a_spec_runs_in_the_current_environment_whoever_sends_it(
    tmp_path: Path,
) -> None:
    pipeline = worldsize.compile(PIPELINES / "own_script.yml", tmp_path / "out").pipeline
    (pipeline.parent / "plan.json").unlink()  # which no client of a workspace sends
    assert prepare(pipeline, tmp_path / "unused").environments.mode == "current"
    job = tmp_path / "job.yml"
    job.write_text("type: command\ncommand: echo\ncompute: azureml:c\nenvironment: {image: python}\n")
    assert prepare(job, job).environments.mode == "isolated"
    assert prepare(job, job, RunOptions(environment="current")).environments.mode == "current"


@pytest.mark.parametrize(
    "reference",
    [SKLEARN, "azureml:AzureML-sklearn-1.5@latest", "azureml:AzureML-sklearn-1.5:4", SKLEARN[:-14]],
)
def test_a_curated_environment_by_any_of_its_names(reference: str) -> None:
    found = curated.lookup(reference)
    assert found is not None
    assert "pandas~=1.5.3" in found.requirements
    assert "sklearn" in found.modules
    assert curated.lookup("azureml:sklearn-1.5:1") is None


def test_a_layer_sees_its_own_packages_first_then_those_below(tmp_path: Path) -> None:
    lower, upper = tmp_path / "a folder" / "lower", tmp_path / "upper"
    make_layer(lower)
    make_layer(upper, [lower])
    (packages_folder(lower) / "both.py").write_text("where = 'lower'\n")
    (packages_folder(upper) / "both.py").write_text("where = 'upper'\n")
    (packages_folder(lower) / "yaml.py").write_text("where = 'lower'\n")
    code = "import both, yaml, click, worldsize, sys; print(both.where, yaml.where, sys.prefix)"
    env = {**os.environ, **layer_variables({"PATH": "/nowhere"}, [upper, lower])}
    for argv in (["python"], ["python3"]):
        program = upper / "bin" / argv[0]
        done = subprocess.run(
            [program, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout.split() == ["upper", "lower", str(upper)]
    assert env["PATH"].split(os.pathsep) == [
        str(upper / "bin"), str(lower / "bin"), str(Path(sys.executable).parent), "/nowhere",
    ]  # fmt: skip


def test_another_mlflow_keeps_its_records_apart(tmp_path: Path) -> None:
    if importlib.util.find_spec("mlflow") is None:  # importing it would take two seconds
        pytest.skip("MLflow is not installed")
    make_layer(tmp_path / "layer")
    assert not has_other_mlflow(tmp_path / "layer")
    (packages_folder(tmp_path / "layer") / "mlflow").mkdir()
    assert has_other_mlflow(tmp_path / "layer")
    given = {"MLFLOW_TRACKING_URI": "sqlite:///x", "MLFLOW_RUN_ID": "1", "MLFLOW_EXPERIMENT_ID": "2"}
    given |= {"RANK": "0", "MLFLOW_DISABLE_TELEMETRY": "true"}
    place = (tmp_path / "mlruns").as_uri()
    assert keep_mlflow_apart(given, tmp_path) == {
        "RANK": "0",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_TRACKING_URI": place,
        "MLFLOW_REGISTRY_URI": place,
    }
    assert keep_mlflow_apart({"RANK": "0"}, tmp_path) == {"RANK": "0"}


def test_scripts_leave_the_choice_of_python_to_the_path() -> None:
    own = Path("/place/bin/python3.11")
    assert (
        layers.make_portable(b"#!/place/bin/python3.11 -E\nbody\n", own) == b"#!/usr/bin/env python\nbody\n"
    )
    long = b"#!/bin/sh\n'''exec' \"/place/bin/python\" \"$0\" \"$@\"\n' '''\nbody\n"
    assert layers.make_portable(long, own) == b"#!/usr/bin/env python\nbody\n"
    for other in (b"#!/bin/sh\necho\n", b"#!/usr/bin/python3\nbody\n", b"#!/usr/bin/env python\nx\n", b"#!"):
        assert layers.make_portable(other, own) is None


def test_a_process_in_a_container() -> None:
    process = Process("rank-1", 1, 1, 0, ("bash", "-c", "python train.py"), {"RANK": "1", "TOKEN": "secret"})
    container = docker.Container(
        image="ubuntu:22.04",
        name="worldsize-1 a-train",
        workdir=Path("/runs/1/code"),
        writable=(Path("/runs"),),
        readable=(Path("/data/a,b"),),
        user="1000:1000",
        runner="host/1/2",
        gpus=True,
    )
    found = run_in_container(process, container)
    assert " ".join(found.argv) == (
        "docker run --rm --init --network host --name worldsize-1-a-train-rank-1"
        " --label worldsize.runner=host/1/2 --workdir /runs/1/code --user 1000:1000 --shm-size 2g --gpus all"
        " --mount type=bind,source=/runs,target=/runs"
        ' --mount type=bind,"source=/data/a,b","target=/data/a,b",readonly'
        " --env HOME --env RANK --env TOKEN --entrypoint bash ubuntu:22.04 -c python train.py"
    )
    assert found.env == {"HOME": "/runs/1/code", "RANK": "1", "TOKEN": "secret"}


def test_only_containers_of_dead_runners_are_swept() -> None:
    me = identify_runner()
    assert is_runner_alive(me)
    assert is_runner_alive("elsewhere/1/1")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(30)
    dead = me.replace(f"/{os.getpid()}/", f"/{gone.pid}/")
    assert find_orphans([f"a {me}", f"b {dead}", "c elsewhere/1/1", "", "d"], is_runner_alive) == ["b"]


def test_without_an_engine_containers_are_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (problem,) = planned(tmp_path, FILES, "docker").problems
    assert (
        problem.message == "`--environment docker` is not possible here: there is no `docker` on this machine"
    )


def test_an_engine_that_does_not_answer_is_told_from_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\necho 'Cannot connect to the daemon' >&2\nexit 1\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert find_docker_fault() == "no Docker engine answers: Cannot connect to the daemon"
    client.write_text("#!/bin/sh\necho 27.0\n")
    messages = [problem.message for problem in planned(tmp_path, FILES, "docker").problems]
    assert messages == [
        "`azureml:own:3` names no image",
        "`azureml:other@latest` names no image",
        f"`{SKLEARN}` names no image",
        f"`{SKLEARN}` names no image",
    ]


def test_what_pip_says_of_a_version_that_is_not_there_is_cut(tmp_path: Path) -> None:
    versions = ", ".join(f"1.{minor}.0" for minor in range(100))
    said = f"ERROR: Could not find a version that satisfies the requirement a==9 (from versions: {versions})"
    (tmp_path / "log").write_text(f"Looking\n{said}\nERROR: No matching distribution found for a==9\n")
    first, second = find_reasons(tmp_path / "log")
    assert first == said[: interpreters.LONGEST_LINE - 1] + "…"
    assert second == "ERROR: No matching distribution found for a==9"
