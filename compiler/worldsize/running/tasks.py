"""From a job graph to tasks: every input traced to its source, everything that cannot run here refused.

Nothing is started and nothing is written; the refusals are complete before the first step begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worldsize.azureml import distribution, literals
from worldsize.azureml.model import Component, Field, Job, Port, Step
from worldsize.diagnostics.problem import Problem
from worldsize.running import launchers, sources
from worldsize.running.sources import Source
from worldsize.yaml.span import Span

LONGEST_LIST = 12  # names shown in a message about a cycle


@dataclass(frozen=True, slots=True)
class Task:
    """One step that can be run here.

    ``inputs`` holds every declared input; None is an optional one without a value. ``outputs`` gives
    the type of each output. ``timeout`` is in seconds.
    """

    name: str
    component: Component
    folder: Path  # what the component's code is relative to
    launcher: str = "none"
    instance_count: int = 1
    process_count_per_instance: int = 1
    worker_count: int | None = None  # TensorFlow's, which starts workers and not processes of an instance
    parameter_server_count: int = 0
    gpus_per_process: int = 1  # where there are any
    inputs: Mapping[str, Source | None] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    display_name: str | None = None
    timeout: int | None = None

    @property
    def command(self) -> str:
        """The command with its placeholders."""
        assert self.component.command is not None
        return str(self.component.command.value)

    @property
    def world_size(self) -> int:
        """Processes that train; parameter servers are not among them."""
        if self.worker_count is not None:
            return self.worker_count
        return self.instance_count * self.process_count_per_instance

    @property
    def process_count(self) -> int:
        """Processes that are started."""
        return self.world_size + self.parameter_server_count

    @property
    def needs(self) -> frozenset[str]:
        """The steps whose outputs this one reads."""
        return frozenset(
            name for source in self.inputs.values() if source for name in sources.steps_of(source)
        )


def of(job: Job) -> tuple[dict[str, Task], list[Problem]]:
    """The tasks of a job, in its own order.

    Returns:
        The tasks, and every reason why the job cannot run here.
    """
    problems: list[Problem] = []
    whole = Span(str(job.path or "pipeline"), 1, 1, 1, 1)
    tasks = {}
    for name, step in job.steps.items():
        task = _Reader(job, step, step.span or whole, problems).task()
        if task is not None:
            tasks[name] = task
    if not job.steps:
        problems.append(Problem("run-empty", whole, "there is no step to run", "a pipeline has `jobs:`"))
    return tasks, problems or _cycle(tasks, job, whole)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one step; what is wrong goes to ``problems``."""

    job: Job
    step: Step
    span: Span
    problems: list[Problem]

    def task(self) -> Task | None:
        """The task, or None where the step cannot be run here."""
        step, component = self.step, self.step.component
        if step.type != "command" or (component is not None and component.type != "command"):
            kind = step.type if step.type != "command" or component is None else component.type
            self.refuse(
                f"step `{step.name}` is of type `{kind}`, and only `command` steps are run here",
                "run its parts as `command` steps, or submit the pipeline to Azure ML",
            )
            return None
        if component is None:
            self._no_component()
            return None
        if component.command is None or not isinstance(component.command.value, str):
            self.refuse(f"step `{step.name}` has no `command`", "say what to run, as text")
            return None
        block = distribution.view(step.distribution or component.distribution)
        folder = component.path or self.job.path
        launcher = self._launcher(block)
        # Without `distribution` the command is started once, however many instances are asked for.
        instances = 1 if launcher == "none" else self._count("instance_count", self._resources(), 1)
        workers, servers = self._workers(launcher, block, instances)
        return Task(
            name=step.name,
            component=component,
            folder=folder.parent if folder else Path(),
            launcher=launcher,
            instance_count=instances,
            process_count_per_instance=self._per_instance(block),
            worker_count=workers,
            parameter_server_count=servers,
            inputs=self._inputs(component),
            outputs={name: self._output_type(port) for name, port in component.outputs.items()},
            environment_variables=self._environment(launcher),
            display_name=step.display_name.value if step.display_name else None,
            timeout=self._count("timeout", step.limits, 0) or None,
        )

    def refuse(self, message: str, help_: str, at: Field[Any] | None = None) -> None:
        """Report a reason not to run."""
        self.problems.append(Problem("run-refused", (at and at.span) or self.span, message, help_))

    def _no_component(self) -> None:
        reference = self.step.reference
        text = reference.value if reference else None
        if isinstance(text, str):
            message = f"component `{text}` of step `{self.step.name}` is not on this machine"
            self.refuse(message, "download it and refer to its file: `component: ./component.yml`", reference)
        else:
            self.refuse(f"step `{self.step.name}` says nothing to run", "give it a `component` or `command`")

    def _launcher(self, block: distribution.Distribution | None) -> str:
        if block is None or block.kind is None:
            return "none"
        if block.kind not in launchers.LAUNCHERS:
            known = ", ".join(f"`{name}`" for name in launchers.LAUNCHERS if name != "none")
            self.refuse(
                f"step `{self.step.name}` is distributed with `{block.kind}`, which is not started here",
                f"what is: {known}, and steps without `distribution`",
                block.type,
            )
            return "none"
        return block.kind

    def _per_instance(self, block: distribution.Distribution | None) -> int:
        """Azure ML starts one process an instance where nothing is said."""
        name = "process_count_per_instance"
        return 1 if block is None else self._count(name, block.process_count_per_instance, 1, inside=False)

    def _workers(
        self, launcher: str, block: distribution.Distribution | None, instances: int
    ) -> tuple[int | None, int]:
        """Azure ML starts one worker an instance where nothing is said, and no parameter server."""
        if launcher != "tensorflow" or block is None:
            return None, 0
        workers = self._count("worker_count", block.worker_count, instances, inside=False)
        name = "parameter_server_count"
        return workers, self._count(name, block.parameter_server_count, 0, inside=False, least=0)

    def _resources(self) -> Field[Any] | None:
        component = self.step.component
        return self.step.resources or (component.resources if component else None)

    def _count(
        self, name: str, block: Field[Any] | None, default: int, *, inside: bool = True, least: int = 1
    ) -> int:
        """A count, ``inside`` a block or the field itself, which may be bound to an input of the pipeline."""
        found = distribution.member(block, name) if inside else block
        if found is None or found.value is None:
            return default
        source = sources.literal(self.job, found.value)
        number = literals.number(source.value) if isinstance(source, sources.Text) else None
        if number is None or number < least or number != int(number):
            message = f"`{name}` of step `{self.step.name}` is `{found.value}`"
            self.refuse(message, f"give a whole number from {least}", found)
            return default
        return int(number)

    def _environment(self, launcher: str) -> dict[str, str]:
        block = self.step.environment_variables
        given = block.value if block is not None and isinstance(block.value, dict) else {}
        rendered = {}
        for name, value in given.items():
            if name in launchers.find(launcher).VARIABLES:
                self._contradiction(launcher, name)
            source = sources.literal(self.job, value)
            if isinstance(source, sources.Text) and source.value is not None:
                rendered[str(name)] = source.rendered
        return rendered

    def _contradiction(self, launcher: str, name: str) -> None:
        """A variable that the launcher gives every process anew: one value for all cannot be meant."""
        self.refuse(
            f"`environment_variables` of step `{self.step.name}` sets `{name}`,"
            f" which `distribution: {{type: {launcher}}}` sets for each process",
            f"remove `{name}`, or remove `distribution` and start the processes yourself",
            distribution.member(self.step.environment_variables, name),
        )

    def _output_type(self, port: Port) -> str:
        """The type of an output; an inline job that only binds it takes that of the pipeline's output."""
        component, setting = self.step.component, self.step.outputs.get(port.name)
        if component is None or component.raw is not self.step.raw or setting is None:
            return port.type
        bound = setting.value.binding
        whole = self.job.outputs.get(bound.value.port or "") if bound else None
        return (setting.value.type or (whole.value.type if whole else None) or port.type).lower()

    def _inputs(self, component: Component) -> dict[str, Source | None]:
        return {name: self._input(port) for name, port in component.inputs.items()}

    def _input(self, port: Port) -> Source | None:
        given = self.step.inputs.get(port.name)
        if given is None:
            if port.default is not None and port.default.value is not None:
                return sources.default(port)
            if not port.optional:
                message = f"input `{port.name}` of step `{self.step.name}` has no value"
                self.refuse(message, f"give one under `inputs:`, such as `{port.name}: …`")
            return None
        source, reason = sources.trace(self.job, given.value, port)
        if reason is not None:
            self.refuse(
                f"input `{port.name}` of step `{self.step.name}` {reason.message}", reason.help, given
            )
        return source


def _cycle(tasks: Mapping[str, Task], job: Job, whole: Span) -> list[Problem]:
    """A problem where steps wait for each other."""
    waiting = {name: set(task.needs) & set(tasks) for name, task in tasks.items()}
    while free := [name for name, needs in waiting.items() if not needs]:
        for name in free:
            del waiting[name]
        for needs in waiting.values():
            needs.difference_update(free)
    if not waiting:
        return []
    names = ", ".join(f"`{name}`" for name in list(waiting)[:LONGEST_LIST])
    span = job.steps[next(iter(waiting))].span or whole
    return [Problem("run-cycle", span, f"steps {names} wait for each other", "break the circle of bindings")]
