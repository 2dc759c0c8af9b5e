"""Environments that are really built: offline, from an archive made here, by the pip of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import threading
import time
import venv
import zipfile
from pathlib import Path
from typing import Any, Protocol

import click
import pytest

from worldsize.running.environments import interpreters, layers
from worldsize.running.environments.interpreters import LayerStore
from worldsize.running.environments.layers import list_parents, make_layer, packages_folder
from worldsize.running.launch.supervisor import Supervisor

pytestmark = [pytest.mark.run, pytest.mark.timeout(120)]


class Project(Protocol):
    folder: Path
    newest: Path

    def write(self, name: str, text: str) -> Path: ...
    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]: ...
    def run(self, *words: str) -> tuple[int, str]: ...
    def log(self, step: str, rank: int = 0) -> str: ...


def list_layers(root: Path) -> list[Path]:
    return [path for path in root.glob("*") if (path / "pyvenv.cfg").exists() and path.suffix != ".building"]


def wheel(folder: Path, name: str, version: str, source: str, script: str = "") -> Path:
    """The archive of a package with one module and, where asked for, one program."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{script} = {name}:main\n" if script else "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in files.items():
            archive.writestr(place, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{place},,\n" for place in [*files, f"{info}/RECORD"]))
    return path


def listing(folder: Path) -> list[str]:
    """The files of a layer, with sizes and times; not what Python compiles by the way."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return sorted(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in found)


def installed() -> list[str]:
    """The packages of this Python, by name and version."""
    return sorted(path.name for folder in list_parents() for path in folder.iterdir())


PIPELINE = """\
type: pipeline
settings: {{default_compute: azureml:cpu}}
jobs:
  changes:
    command: >-
      python -c "import shadowed; print('before', shadowed.version)" && spoken &&
      pip install -q --no-index {newer} {extra} &&
      python -c "import shadowed, extra, click; print('after', shadowed.version, click.__file__)" && spoken
    environment: &own
      image: python:3.11
      conda_file: {{dependencies: [pip, {{pip: [{older}, click]}}]}}
  finds:
    command: >-
      python -c "import shadowed; print('later', shadowed.version)" &&
      python -c "import extra" || echo without extra
    environment: *own
"""


def test_what_a_command_installs_is_gone_with_its_step(project: Project) -> None:
    module = "version = '{}'\ndef main():\n    print('spoken', version)\n"
    older = wheel(project.folder, "shadowed", "1.0", module.format("1.0"), "spoken")
    newer = wheel(project.folder, "shadowed", "2.0", module.format("2.0"), "spoken")
    extra = wheel(project.folder, "extra", "1.0", "")
    text = PIPELINE.format(older=older, newer=newer, extra=extra)
    project.write("pipeline.yml", text)
    before = installed()

    status, said = project.run("pipeline.yml")
    assert status == 0, said
    assert said.count("building the environment") == 1
    (kept,) = list_layers(project.folder / ".worldsize" / interpreters.FOLDER)
    built = listing(kept)
    first = project.log("changes").split("\n")
    assert first[:4] == ["before 1.0", "spoken 1.0", f"after 2.0 {click.__file__}", "spoken 2.0"]
    assert project.log("finds").startswith("later 1.0")
    assert "without extra" in project.log("finds")

    status, said = project.run("pipeline.yml", "--force")
    assert status == 0, said
    assert "building" not in said
    assert project.log("changes").split("\n")[:2] == ["before 1.0", "spoken 1.0"]
    assert listing(kept) == built
    assert installed() == before
    assert not list(project.folder.rglob("node-0"))


INSTALLING = """\
type: pipeline
settings: {{default_compute: azureml:cpu, continue_on_step_failure: true}}
jobs:
{steps}
"""
SCRIPT = """\
import subprocess
import sys

subprocess.run([sys.executable, "-m", "pip", *sys.argv[1:]], check=True)
"""
SAYS = "python -c 'import click; print(click.version)'"


@pytest.mark.timeout(240)
def test_no_command_changes_the_python_that_runs_worldsize(project: Project) -> None:
    own, bins = Path(sys.executable), Path(sys.executable).parent
    later = wheel(project.folder, "click", "99.0", "version = 'ninety-nine'\n")
    install = f"install -q --no-index --no-deps {later}"
    conda = project.write("bin/conda", f'#!/bin/sh\n{own} -S -c \'open("changed", "w")\'\n')
    conda.chmod(0o755)
    uv = project.write("bin/uv", '#!/bin/sh\nshift 4\n$UV_PYTHON -m pip install --no-deps "$@"\n')
    uv.chmod(0o755)
    project.write("src/install.py", SCRIPT)
    project.write(
        "src/setup.py",
        "from setuptools import setup\nsetup(name='click', version='99.0', py_modules=['install'])\n",
    )
    ways = {
        "pip": f"pip {install} && pip{layers.VERSION} {install} && {SAYS}",
        "module": f"python -m pip {install} && python3 -m pip {install} && {SAYS}",
        "path": f"{own} -m pip {install} && {own} -c 'import click; print(click.version)'",
        "script": f"python install.py {install} && {SAYS}",
        "child": f"{own} install.py {install} && {SAYS}",
        "own": f"python -m venv v && v/bin/pip {install} && v/bin/{SAYS}",
        "wished": f"pip {install} --user || {bins}/pip {install} && {SAYS}",
        "removed": "pip uninstall -y click; python -c 'import click; click.Path; print(\"ninety-nine\")'",
        "edited": "pip install -q --no-index --no-build-isolation --no-deps -e . && echo ninety-nine",
        "setup": "python setup.py -q install; echo ninety-nine",
        "refused": "conda install click; test ! -e changed && conda info && ls changed && echo ninety-nine",
        "isolated": f"{own} -I -m pip {install} && {own} -I -c 'import click; print(click.version)'",
        "aimed": _ways_into(install, Path(click.__file__).parents[1]),
        "uv": f"uv pip install --target={list_parents()[-1]} {later} || echo ninety-nine",
        "system": f"uv pip install -q --system --no-index {later} && echo ninety-nine",
    }
    if not (bins / "pip").exists():
        ways["wished"] = f"pip {install} --user || pip {install} && {SAYS}"
    steps = [
        f"  {name}: {{code: ./src, environment: azureml:any@latest, command: {json.dumps(command)}}}"
        for name, command in ways.items()
    ]
    project.write("pipeline.yml", INSTALLING.format(steps="\n".join(steps)))
    before = contents()

    path = os.pathsep.join([str(conda.parent), os.environ["PATH"]])
    settings = {"PATH": path, "PIP_USER": "1", "UV_SYSTEM_PYTHON": "1"}
    with project.start("pipeline.yml", "--environment", "current", env={**os.environ, **settings}) as process:
        said, _ = process.communicate(timeout=220)
    logs = {name: project.log(name) for name in ways}
    assert {name: text.split()[-1] for name, text in logs.items()} == dict.fromkeys(ways, "ninety-nine"), said
    assert "conda install is refused" in logs["refused"]
    assert "uv is refused" in logs["uv"]
    assert logs["aimed"].count("A step cannot change the Python that runs Worldsize") == logs["aimed"].count(
        "way"
    )
    assert logs["aimed"].count("way") == 7
    assert "Traceback" not in logs["aimed"]
    assert "was changed while" not in said
    assert contents() == before
    assert not list(project.folder.rglob("node-0"))


def _ways_into(install: str, packages: Path) -> str:
    """A command that tells pip in many ways to install below the layer."""
    where, prefix = "import click; print(click.__file__)", Path(sys.prefix)
    called = ", ".join(repr(word) for word in [*install.split(), "--target", str(packages)])
    ways = [
        f"pip {install} --target {packages}",
        f"pip {install} -Ut{packages}",
        f"python -I -m pip {install} --targ=$(dirname $(dirname $({sys.executable} -c '{where}')))",
        f"PIP_TARGET={packages} python -m pip {install}",
        f"pip {install} --ignore-installed --prefix {sys.prefix}",
        f"pip {install} --ignore-installed --root {prefix.parent} --prefix /{prefix.name}",
        f'python -c "from pip._internal.cli.main import main; raise SystemExit(main([{called}]))"',
    ]
    return "".join(f"{way} || echo way; " for way in ways) + f"pip {install} && {SAYS}"


def test_what_a_script_changes_past_every_layer_is_said(project: Project) -> None:
    own = project.folder / "own"  # a Python that may be changed
    venv.create(own, with_pip=False)
    python = own / "bin" / "python"
    shown = "".join(f"import site; site.addsitedir({str(each)!r})\n" for each in list_parents())
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(own)}))
    (packages / "shown.pth").write_text(shown, encoding="utf-8")
    extra = wheel(project.folder, "extra", "1.0", "")
    project.write("src/install.sh", f"{python} -I -m pip install -q --no-index {extra}\n")
    project.write("job.yml", "{command: sh install.sh, code: ./src, environment: azureml:any@latest}")
    command = [str(python), "-m", "worldsize", "run", "job.yml", "--no-track", "--environment", "current"]
    done = subprocess.run(
        command, cwd=project.folder, capture_output=True, text=True, timeout=100, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert (
        "the Python that runs Worldsize was changed while the step ran, by it or by another program" in said
    )
    assert f"`{packages / 'extra-1.0.dist-info'}`" in said


def contents() -> dict[str, tuple[int, int]]:
    """The sizes and times of this Python's packages and programs; not what Python compiles by the way."""
    folders = [Path(sys.executable).parent, *list_parents()]
    return {
        str(path): (found.st_size, found.st_mtime_ns)
        for folder in folders
        for path in folder.rglob("*")
        if path.name != "__pycache__" and path.suffix != ".pyc" and not path.is_dir()
        for found in [path.lstat()]
    }


@pytest.mark.smoke
def test_what_pip_cannot_install_stops_the_run_before_its_first_step(project: Project) -> None:
    project.write("requirements.txt", "--no-index\nno-such-package-anywhere==1.0\n")
    project.write("job.yml", "command: touch started\nenvironment: azureml:own:1\n")
    status, said = project.run("job.yml", "--map", "azureml:own=requirements.txt")
    assert status == 1
    assert "job.yml:2:14: error: pip cannot install the packages of `azureml:own:1`" in said
    assert "ERROR: No matching distribution found for no-such-package-anywhere==1.0" in said
    assert not list((project.folder / ".worldsize" / "runs").iterdir())
    assert not list_layers(project.folder / ".worldsize" / interpreters.FOLDER)


@pytest.mark.smoke
def test_a_layer_is_built_once_used_at_little_cost(tmp_path: Path) -> None:
    lines = ["--no-index", str(wheel(tmp_path, "single", "1.0", "x = 1\n"))]
    said: list[str] = []
    made: list[Path] = []
    with Supervisor() as supervisor:
        kept = LayerStore(tmp_path / "store", supervisor, said.append)
        want = lambda: made.append(kept.layer("`own`", lines))  # noqa: E731
        threads = [threading.Thread(target=want) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        assert len(made) == 3
        (layer,) = set(made)
        assert sum("building" in line for line in said) == 1
        assert (packages_folder(layer) / "single.py").exists()
        assert not list(kept.root.glob("*.building"))
        assert list_layers(kept.root) == [layer]
        seconds = []
        for number in range(20):
            began = time.perf_counter()
            make_layer(tmp_path / str(number), [layer])
            seconds.append(time.perf_counter() - began)
        assert sorted(seconds)[10] < 0.03
