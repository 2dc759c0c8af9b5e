"""Makes the environments of a run, and starts the processes of its steps in them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.running.environments import docker, layers
from worldsize.running.environments.definition import Definition, EnvironmentPlan, digest_requirements
from worldsize.running.environments.docker import (
    container_name,
    identify_runner,
    make_dockerfile,
    remove_containers,
    remove_orphans,
    run_in_container,
)
from worldsize.running.environments.layers import (
    find_installers,
    layer_variables,
    make_layer,
    packages_folder,
)
from worldsize.running.launch.group import Group
from worldsize.running.launch.logs import last_lines
from worldsize.running.launch.supervisor import Supervisor
from worldsize.running.model.errors import RunError
from worldsize.running.model.folder import RunFolder
from worldsize.running.model.process import Process, walk_processes
from worldsize.running.model.task import File, Task
from worldsize.tracking.database import find_mlflow, list_migrations

CURRENT_HELP = "`--environment current` runs every step with the packages that are installed here"
LAYER = "environment"  # in a step's folder, while it runs

MLFLOW_FOLDER = "mlruns"  # in a step's folder
_RUN = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_")


# The processes to start in the environment of a step; what is made for them is removed with the context.
Plan = tuple[Process, ...]
Enter = Callable[[Task, RunFolder, Plan], contextlib.AbstractContextManager[Plan]]


class LayeredInterpreters(Struct, frozen=True):
    """Gives each instance of a step a temporary layer over that of its environment, else over this Python.

    Whatever a step installs, this Python does not change.
    """

    plan: EnvironmentPlan  # the environments
    kept: Mapping[Definition, Path]  # the layer of each that has packages of its own
    foreign_mlflow: frozenset[Path]  # the layers whose MLflow cannot read the run's database
    programs: Path  # a folder whose `bin` has the programs of this Python's packages
    remover: Executor  # removes the layers of steps that are over, in the background

    @contextlib.contextmanager
    def enter(self, task: Task, run: RunFolder, plan: Plan) -> Iterator[Plan]:
        """Make the layers, and start the processes in them."""
        step = run.step(task.name).root
        for left in step.glob(f"{LAYER}-*"):  # by an attempt whose runner was killed
            self._remove(left)
        root = step / f"{LAYER}-{time.monotonic_ns()}"
        definition = self.plan.find_definition(task.name)
        below = [self.kept[definition]] if definition in self.kept else []
        places = {process.node: root / f"node-{process.node}" for process in walk_processes(plan)}
        try:
            for layer in places.values():
                make_layer(layer, below)
            if self.foreign_mlflow & {*below}:
                plan = tuple(_keep_records_apart(process, step) for process in plan)
            yield tuple(_enter_layer(process, places, [*below, self.programs]) for process in plan)
        finally:
            self._remove(root)

    def _remove(self, folder: Path) -> None:
        self.remover.submit(shutil.rmtree, folder, ignore_errors=True)


class DockerInterpreters(Struct, frozen=True):
    """Runs each process in a container of its step's image."""

    plan: EnvironmentPlan
    images: Mapping[Definition, str]
    home: Path

    @contextlib.contextmanager
    def enter(self, task: Task, run: RunFolder, plan: Plan) -> Iterator[Plan]:
        """Start the processes in containers, and remove these at the end."""
        home = self.home.absolute()
        files = [source for source in task.inputs.values() if isinstance(source, File)]
        container = docker.Container(
            image=self.images[self.plan.find_definition(task.name)],
            name=f"worldsize-{run.id}-{task.name}",
            workdir=run.step(task.name).code,
            writable=(home,) if run.root.is_relative_to(home) else (home, run.root),
            readable=tuple(dict.fromkeys(file.path.absolute() for file in files)),
            user=f"{os.getuid()}:{os.getgid()}",
            runner=identify_runner(),
            gpus=any("CUDA_VISIBLE_DEVICES" in process.env for process in plan),
        )
        try:
            yield tuple(run_in_container(process, container) for process in plan)
        finally:
            remove_containers(container_name(process, container) for process in plan)


@contextlib.contextmanager
def make_interpreters(
    plan: EnvironmentPlan, home: Path, supervisor: Supervisor, say: Callable[[str], None]
) -> Iterator[Enter]:
    """Build the environments of all steps before the first one starts, and keep them until the end.

    Raises:
        RunError: an environment cannot be made.
        OSError: the folder cannot be written.
    """
    root = home.absolute() / FOLDER
    if plan.mode == "docker":
        yield _make_docker_interpreters(plan, root, supervisor, say).enter
        return
    with ThreadPoolExecutor(1) as remover:  # with `current` no step has packages of its own
        yield _make_layered_interpreters(plan, LayerStore(root, supervisor, say), remover).enter


def _make_layered_interpreters(
    plan: EnvironmentPlan, stored: LayerStore, remover: Executor
) -> LayeredInterpreters:
    kept: dict[Definition, Path] = {}
    problems: list[Problem] = []
    layers: dict[tuple[str, ...], Path | Problem | None] = {}
    for definition in dict.fromkeys(plan.definitions.values()):
        if not definition.requirements:
            continue
        if definition.requirements not in layers:
            layers[definition.requirements] = _make_environment_layer(definition, stored)
        layer_or_problem = layers[definition.requirements]
        if isinstance(layer_or_problem, Path):
            kept[definition] = layer_or_problem
        elif layer_or_problem is not None and layer_or_problem not in problems:
            problems.append(layer_or_problem)
    if problems:
        raise RunError(problems, plan.sources)
    foreign_mlflow = frozenset(filter(has_other_mlflow, kept.values()))
    for definition, layer in kept.items():
        if layer in foreign_mlflow:
            stored.say(
                f"{definition.name} has another version of MLflow: what its steps log stays in"
                f" `{MLFLOW_FOLDER}` of their folders"
            )
    return LayeredInterpreters(plan, kept, foreign_mlflow, stored.programs(), remover)


def _make_environment_layer(definition: Definition, stored: LayerStore) -> Path | Problem | None:
    """The layer of an environment, the problem that prevents it, or None if the step may run without."""
    guessed = bool(definition.modules)
    try:
        return stored.layer(definition.name, definition.requirements, wheels_only=guessed)
    except BuildError as error:
        if guessed:
            stored.say(
                f"{definition.name}: the packages of its image cannot be installed here ({error}), so its"
                " steps use the installed ones; `assets:` or `--map` can replace it by another file"
            )
            return None
        message = f"pip cannot install the packages of {definition.name}"
        return _refusal(definition, message, (*error.lines, CURRENT_HELP), error.log)


def _refusal(definition: Definition, message: str, lines: tuple[str, ...], log: Path) -> Problem:
    help_ = "\n".join([f"its output is in `{log}` and ends with:", *lines])
    return Problem("run-refused", definition.span or Span("environment", 1, 1, 1, 1), message, help_)


def _make_docker_interpreters(
    plan: EnvironmentPlan, root: Path, supervisor: Supervisor, say: Callable[[str], None]
) -> DockerInterpreters:
    remove_orphans()
    root.mkdir(parents=True, exist_ok=True)
    images = {}
    for definition in dict.fromkeys(plan.definitions.values()):
        image = _build_image(definition, root, supervisor, say)
        if isinstance(image, Problem):
            raise RunError([image], plan.sources)
        images[definition] = image
    return DockerInterpreters(plan, images, root.parent)


def _build_image(
    definition: Definition, root: Path, supervisor: Supervisor, say: Callable[[str], None]
) -> str | Problem:
    """The image of an environment, built if it has no name; or the problem that prevents it."""
    context, dockerfile = definition.context, definition.dockerfile
    if context is None:
        assert definition.image is not None
        if definition.conda is None:
            return definition.image
        context = root / f"image-{layer_key((definition.image, definition.conda))}"
        context.mkdir(exist_ok=True)
        (context / "Dockerfile").write_text(make_dockerfile(definition.image), encoding="utf-8")
        (context / "conda.yml").write_text(definition.conda, encoding="utf-8")
    tag = f"worldsize-{layer_key((str(context), dockerfile))}"
    say(f"building the image of {definition.name}")
    log = root / f"{tag}.log"
    log.unlink(missing_ok=True)
    argv = docker.build_argv(tag, context.absolute(), dockerfile)
    if not run_program(supervisor, tag, argv, {}, root):
        lines = tuple(last_lines(log, LAST_LINES))
        return _refusal(definition, f"the image of {definition.name} cannot be built", lines, log)
    return tag


def _keep_records_apart(process: Process, step: Path) -> Process:
    """A process, and those that it starts, with MLflow's records in the step's folder."""
    members = tuple(_keep_records_apart(member, step) for member in process.members)
    return replace(process, env=keep_mlflow_apart(process.env, step), members=members)


def _enter_layer(process: Process, places: Mapping[int, Path], below: Sequence[Path]) -> Process:
    """A process, and those that it starts, in the layer of their instance."""
    members = tuple(_enter_layer(member, places, below) for member in process.members)
    layer = places[process.node]
    env = layer_variables(process.env, [layer, *below])
    argv = process.argv
    if argv[-2:-1] == ("-c",):  # the step's command, for a shell
        argv = (*argv[:-1], layers.redirect_interpreter(argv[-1], layer))
    return replace(process, argv=argv, env=env, members=members)


def has_other_mlflow(layer: Path) -> bool:
    """Whether a layer has an MLflow with another schema of its database, by the list of migrations."""
    theirs = packages_folder(layer) / "mlflow"
    ours = find_mlflow()
    if not theirs.is_dir() or ours is None:
        return False
    return [migration.name for migration in list_migrations(theirs)] != [
        migration.name for migration in list_migrations(ours)
    ]


def keep_mlflow_apart(environment: Mapping[str, str], step: Path) -> dict[str, str]:
    """Variables that keep what a step logs in its own folder, if it is tracked at all."""
    if "MLFLOW_TRACKING_URI" not in environment:
        return dict(environment)
    uri = (step / MLFLOW_FOLDER).as_uri()
    kept = {name: value for name, value in environment.items() if not name.startswith(_RUN)}
    return {**kept, "MLFLOW_TRACKING_URI": uri, "MLFLOW_REGISTRY_URI": uri}


FOLDER = "environments"
LAST_LINES = 6
LONGEST_LINE = 200
_FORMAT = "1"  # a layer of another format has another key
_PROGRAMS_FORMAT = "3"
_OPTIONS = (
    *("--no-input", "--disable-pip-version-check", "--no-color", "--no-python-version-warning"),
    *("--progress-bar", "off", "--no-warn-script-location", "--prefer-binary"),
)


class BuildError(Exception):
    """pip could not install what an environment asks for.

    Attributes:
        lines: the last lines of its output, or its errors if there are any.
        log: the file with all of its output.
    """

    def __init__(self, lines: Sequence[str], log: Path) -> None:
        super().__init__(lines[0] if lines else "pip failed")
        self.lines = tuple(lines)
        self.log = log


class LayerStore(Struct, frozen=True):
    """The kept layers of one home."""

    root: Path  # their folder
    supervisor: Supervisor  # starts pip, and sees to its end
    say: Callable[[str], None]  # tells the user what takes long

    def layer(self, name: str, lines: Sequence[str], *, wheels_only: bool = False) -> Path:
        """Return the layer with what these lines for pip ask for; build it if there is none.

        With ``wheels_only`` nothing is compiled.

        Raises:
            BuildError: pip could not install it.
            OSError: the folder cannot be written.
        """
        layer = self.root / layer_key(lines)
        if layer.exists():
            return layer
        self.root.mkdir(parents=True, exist_ok=True)
        path = layer.with_name(f"{layer.name}.lock")
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.say(f"waiting for another run that builds {name}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            if not layer.exists():  # no other run was faster
                self._build(layer, name, lines, wheels_only=wheels_only)
        return layer

    def programs(self) -> Path:
        """A folder whose ``bin`` holds the programs of this Python's packages, for any layer's Python."""
        python_folder = Path(sys.executable).parent
        changed = str(python_folder.stat().st_mtime_ns)
        parts = "\0".join([_PROGRAMS_FORMAT, str(python_folder), changed, repr(find_installers())])
        programs = self.root / f"programs-{hashlib.sha256(parts.encode()).hexdigest()[:16]}"
        if not programs.exists():
            self.root.mkdir(parents=True, exist_ok=True)
            with _build_beside(programs) as building:
                layers.borrow_scripts(building)
                _move(building, programs)
        return programs

    def _build(self, layer: Path, name: str, lines: Sequence[str], *, wheels_only: bool) -> None:
        self.say(f"building the environment {name}; it is kept for later runs")
        log = self.root / f"{layer.name}.log"
        log.unlink(missing_ok=True)
        for stale in self.root.glob(f"{layer.name}.*.building"):
            shutil.rmtree(stale, ignore_errors=True)
        with _build_beside(layer) as building:
            make_layer(building)
            (building / "requirements.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
            python = building / "bin" / "python"
            options = (*_OPTIONS, *(("--only-binary", ":all:") if wheels_only else ()))
            argv = (str(python), "-m", "pip", "install", *options, "-r", str(building / "requirements.txt"))
            env = layer_variables({}, [building])
            if not run_program(self.supervisor, layer.name, argv, env, self.root):
                raise BuildError(find_reasons(log), log)
            layers.free_scripts(building / "bin", python)
            _move(building, layer)


def layer_key(lines: Sequence[str]) -> str:
    """The name of a layer, by its contents and the Python below it."""
    parts = [_FORMAT, sys.version, sys.platform, sys.prefix, digest_requirements(lines)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def run_program(
    supervisor: Supervisor, name: str, argv: Sequence[str], env: dict[str, str], folder: Path
) -> bool:
    """Run a program with its output in ``<folder>/<name>.log``; whether it succeeded."""
    process = Process(name, rank=None, local_rank=0, node=0, argv=tuple(argv), env=env)
    with Group([process], supervisor, cwd=folder, logs=folder) as group:
        group.wait()
        return group.failure is None and not group.lost


@contextlib.contextmanager
def _build_beside(layer: Path) -> Iterator[Path]:
    """A temporary folder to build in, beside the final path."""
    outer = Path(tempfile.mkdtemp(prefix=f"{layer.name}.", suffix=".building", dir=layer.parent))
    try:
        yield outer / "layer"
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _move(building: Path, layer: Path) -> None:
    try:
        building.rename(layer)
    except OSError:
        if not layer.exists():  # another run was faster with the same layer
            raise


def find_reasons(log: Path) -> list[str]:
    """The lines in which pip explains its failure, cut because pip may list every version of a package."""
    lines = [line for line in last_lines(log, 200) if line.strip()]
    errors = [line for line in lines if line.lstrip().upper().startswith("ERROR:")]
    shown_lines = errors[:LAST_LINES] or lines[-LAST_LINES:]
    return [line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…" for line in shown_lines]
