"""The environments of a run as its steps enter them."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.running.environments import docker, layers, own_mlflow, store
from worldsize.running.environments.definition import Definition
from worldsize.running.environments.planning import Plan
from worldsize.running.environments.store import BuildError, Store
from worldsize.running.errors import RunError
from worldsize.running.recording.folder import RunFolder
from worldsize.running.showing.logs import last_lines
from worldsize.running.starting.processes import Process, every
from worldsize.running.starting.sources import File
from worldsize.running.supervising.supervise import Warden
from worldsize.running.tasks import Task

if TYPE_CHECKING:
    from typing_extensions import Self

WITHOUT = "`--environment current` runs every step with the packages that are installed here"
LAYER = "environment"  # in a step's folder, while it runs


class Remover:
    """Removes folders while the run goes on; a context manager that ends when all are gone."""

    def __init__(self) -> None:
        self._folders: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="remover")

    def remove(self, folder: Path) -> None:
        """Have a folder removed; returns at once."""
        self._folders.put(folder)

    def _work(self) -> None:
        while (folder := self._folders.get()) is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._folders.put(None)
        self._thread.join()


class Interpreters(Protocol):
    """Gives the processes of a step their environment for as long as they run."""

    def enter(
        self, task: Task, run: RunFolder, plan: tuple[Process, ...]
    ) -> contextlib.AbstractContextManager[tuple[Process, ...]]:
        """The processes as they are to be started; what is made for them goes with the context.

        Raises:
            OSError: it cannot be made.
        """


@dataclass(frozen=True, slots=True)
class Layered:
    """Each instance of a step has a layer of its own, thrown away at its end, over that of its environment.

    Where its environment has none, over this Python: whatever a step installs, this Python stays as it is.

    Attributes:
        plan: the environments.
        kept: the layer of each that has packages of its own.
        strangers: those of them whose MLflow cannot read the run's database.
        programs: a folder whose ``bin`` has the programs of this Python's packages.
        remover: removes the layers of steps that are over.
    """

    plan: Plan
    kept: Mapping[Definition, Path]
    strangers: frozenset[Path]
    programs: Path
    remover: Remover

    @contextlib.contextmanager
    def enter(self, task: Task, run: RunFolder, plan: tuple[Process, ...]) -> Iterator[tuple[Process, ...]]:
        """Lay the layers, and lead the processes to them."""
        step = run.step(task.name).root
        for left in step.glob(f"{LAYER}-*"):  # of a try whose runner was killed
            self.remover.remove(left)
        root = step / f"{LAYER}-{time.monotonic_ns()}"
        below = [self.kept[found]] if (found := self.plan.of(task.name)) in self.kept else []
        places = {process.node: root / f"node-{process.node}" for process in every(plan)}
        try:
            for layer in places.values():
                layers.lay(layer, below)
            if self.strangers & {*below}:
                plan = tuple(_apart(process, step) for process in plan)
            yield tuple(_led(process, places, [*below, self.programs]) for process in plan)
        finally:
            self.remover.remove(root)


@dataclass(frozen=True, slots=True)
class Contained:
    """Each process runs in a container of its step's image."""

    plan: Plan
    images: Mapping[Definition, str]
    home: Path

    @contextlib.contextmanager
    def enter(self, task: Task, run: RunFolder, plan: tuple[Process, ...]) -> Iterator[tuple[Process, ...]]:
        """Lead the processes into containers, and remove these at the end."""
        container = docker.Container(
            image=self.images[self.plan.of(task.name)],
            name=f"worldsize-{run.id}-{task.name}",
            workdir=run.step(task.name).code,
            writable=(
                self.home.absolute(),
                *([] if run.root.is_relative_to(self.home.absolute()) else [run.root]),
            ),
            readable=tuple(
                dict.fromkeys(each.path.absolute() for each in task.inputs.values() if isinstance(each, File))
            ),
            user=f"{os.getuid()}:{os.getgid()}",
            runner=docker.identity(),
            gpus=any("CUDA_VISIBLE_DEVICES" in process.env for process in plan),
        )
        try:
            yield tuple(docker.contained(process, container) for process in plan)
        finally:
            docker.remove(docker.name_of(process, container) for process in plan)


@contextlib.contextmanager
def made(plan: Plan, home: Path, warden: Warden, say: Callable[[str], None]) -> Iterator[Interpreters]:
    """Make what the steps' environments need, before the first step starts; it is kept until the end.

    Args:
        plan: which environments.
        home: where layers are kept.
        warden: starts what builds them.
        say: tells the user what takes long.

    Raises:
        RunError: an environment cannot be made.
        OSError: the folder cannot be written.
    """
    root = home.absolute() / store.FOLDER
    with contextlib.ExitStack() as held:
        if plan.mode == "docker":
            yield _contained(plan, root, warden, say)
        else:  # of this Python as it is, no step has packages of its own
            yield _layered(plan, Store(root, warden, say), held)


def _layered(plan: Plan, stored: Store, held: contextlib.ExitStack) -> Layered:
    kept: dict[Definition, Path] = {}
    problems: list[Problem] = []
    known: dict[tuple[str, ...], Path | Problem | None] = {}
    for found in dict.fromkeys(plan.definitions.values()):
        if not found.requirements:
            continue
        if found.requirements not in known:
            known[found.requirements] = _layer(found, stored, held)
        made = known[found.requirements]
        if isinstance(made, Path):
            kept[found] = made
        elif made is not None and made not in problems:
            problems.append(made)
    if problems:
        raise RunError(problems, plan.sources)
    strangers = frozenset(layer for layer in set(kept.values()) if own_mlflow.differs(layer))
    for found in (each for each, layer in kept.items() if layer in strangers):
        stored.say(
            f"{found.name} has another MLflow: what its steps log with it stays in `{own_mlflow.FOLDER}` of"
            " their folders"
        )
    return Layered(plan, kept, strangers, stored.programs(), held.enter_context(Remover()))


def _layer(found: Definition, stored: Store, held: contextlib.ExitStack) -> Path | Problem | None:
    """The layer of an environment, or why there is none; None where the step may try without."""
    guessed = bool(found.modules)
    try:
        return stored.layer(found.name, found.requirements, held, wheels_only=guessed)
    except BuildError as error:
        if guessed:
            stored.say(
                f"{found.name}: what its image holds cannot be installed here ({error}), so steps use the"
                " packages that are; under `assets:` or with `--map` another file can stand for it"
            )
            return None
        message = f"pip cannot install what {found.name} asks for"
        return _refusal(found, message, (*error.lines, WITHOUT), error.log)


def _refusal(found: Definition, message: str, lines: tuple[str, ...], log: Path) -> Problem:
    help_ = "\n".join([f"all that it said is in `{log}`; the last of it:", *lines])
    return Problem("run-refused", found.span or Span("environment", 1, 1, 1, 1), message, help_)


def _contained(plan: Plan, root: Path, warden: Warden, say: Callable[[str], None]) -> Contained:
    docker.sweep()
    root.mkdir(parents=True, exist_ok=True)
    images = {}
    for found in dict.fromkeys(plan.definitions.values()):
        made = _image(found, root, warden, say)
        if isinstance(made, Problem):
            raise RunError([made], plan.sources)
        images[found] = made
    return Contained(plan, images, root.parent)


def _image(found: Definition, root: Path, warden: Warden, say: Callable[[str], None]) -> str | Problem:
    """The image of an environment, built where it has no name of its own; or why it cannot be."""
    context, dockerfile = found.context, found.dockerfile
    if context is None:
        assert found.image is not None
        if found.conda is None:
            return found.image
        context = root / f"image-{store.key((found.image, found.conda))}"
        context.mkdir(exist_ok=True)
        (context / "Dockerfile").write_text(docker.recipe(found.image), encoding="utf-8")
        (context / "conda.yml").write_text(found.conda, encoding="utf-8")
    tag = f"worldsize-{store.key((str(context), dockerfile))}"
    say(f"building the image of {found.name}")
    log = root / f"{tag}.log"
    log.unlink(missing_ok=True)
    argv = docker.build_argv(tag, context.absolute(), dockerfile)
    if not store.carried_out(warden, tag, argv, {}, root):
        lines = tuple(last_lines(log, store.LAST_LINES))
        return _refusal(found, f"the image of {found.name} cannot be built", lines, log)
    return tag


def _apart(process: Process, step: Path) -> Process:
    """A process, and those that it starts, with MLflow's records in the step's folder."""
    members = tuple(_apart(member, step) for member in process.members)
    return replace(process, env=own_mlflow.apart(process.env, step), members=members)


def _led(process: Process, places: Mapping[int, Path], below: Sequence[Path]) -> Process:
    """A process, and those that it starts, in the layer of their instance."""
    members = tuple(_led(member, places, below) for member in process.members)
    layer = places[process.node]
    env = layers.variables(process.env, [layer, *below])
    argv = process.argv
    if argv[-2:-1] == ("-c",):  # the step's command, for a shell
        argv = (*argv[:-1], layers.redirect(argv[-1], layer))
    return replace(process, argv=argv, env=env, members=members)
