"""How a step is started: distribution, counts, VM size and command, the node's over the component's.

Every count is the number that Azure ML would use, or None where it does not follow from the files.
Rules stay silent on what is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from worldsize.azureml import binding, command_line, fields, literals
from worldsize.azureml.command_launchers import MPI, InnerLauncher, count_processes, read_launcher_call
from worldsize.azureml.command_line import Command, Flag, Word
from worldsize.azureml.model import Binding, Component, Field, Job, Literal, Step
from worldsize.azureml.references import local_path
from worldsize.base.span import NOWHERE, Span
from worldsize.documents.yaml.nodes import Scalar

if TYPE_CHECKING:
    from worldsize.azureml.model import Cluster
    from worldsize.azureml.tree import Tree
    from worldsize.base.source import Source
    from worldsize.facts.vm_sizes import VmSize

# One process a GPU; one of TensorFlow drives an instance (azure-ai-docs, how-to-train-distributed-gpu.md).
STARTS_PROCESSES = ("pytorch", "mpi")


class Count(Struct, frozen=True):
    """A number in the file, and what it means; ``value`` is None where it cannot be known here."""

    value: int | None
    field: Field[Any] | None = None

    @property
    def span(self) -> Span | None:
        """Where it is written; None where it is a default."""
        return self.field.span if self.field is not None else None


class Variable(NamedTuple):
    """An environment variable of the processes of a step."""

    name: str
    value: str
    span: Span | None
    command: Command | None  # that sets it; None for the job


class Launch(Struct, frozen=True, eq=False):
    """One step of a graph."""

    job: Job
    step: Step
    kind: str | None  # pytorch, mpi, tensorflow, ray; None where nothing is distributed
    kind_span: Span | None
    processes: Count  # of one instance
    workers: Count
    servers: Count
    instances: Count
    max_instances: Count
    cluster: Cluster | None
    size_name: str | None
    size_span: Span | None
    size: VmSize | None
    commands: tuple[Command, ...]
    flags_by_name: Mapping[str, list[Flag]]  # those that have a value

    @property
    def fallback_span(self) -> Span:
        """Where to point when there is nothing better."""
        return self.step.span or self.kind_span or (self.job.raw.span if self.job.raw else NOWHERE)

    @property
    def compute_span(self) -> Span | None:
        """Where the compute is chosen, in the step or for all steps."""
        chosen = (
            self.step.compute or fields.read_member(self.job.settings, "default_compute") or self.job.compute
        )
        return chosen.span if chosen is not None else None

    @property
    def chosen_size_span(self) -> Span | None:
        """Where the VM size is chosen: its name where the step itself has it, else the compute."""
        path = self.job.path
        is_near = self.size_span is not None and path is not None and self.size_span.path.endswith(path.name)
        return self.size_span if is_near else self.compute_span

    @property
    def world(self) -> int | None:
        """All processes of a pytorch or mpi step; None where a VM size has fewer GPUs than processes.

        That is a fault of its own, and nothing else should be judged by the wrong number.
        """
        if self.kind not in STARTS_PROCESSES or self.instances.value is None or self.processes.value is None:
            return None
        if self.size is not None and 0 < self.size.devices < self.processes.value:
            return None
        return self.instances.value * self.processes.value

    def span(self, word: Word) -> Span | None:
        """The place of a word of the command; None where the command is not the user's own text."""
        if word.source is not None:
            return word.source.span(word.start, word.end)
        command = self.step.component.command if self.step.component else None
        if command is None or not isinstance(command.node, Scalar) or not isinstance(command.value, str):
            return None
        place = map_to_written(command.node.text, command.value, word.start, word.end)
        return command.node.subspan(*place) if place is not None else None

    def list_variables(self) -> Iterator[Variable]:
        """The variables of all processes: those of the job, then those that the command sets."""
        for name, entry in fields.read_entries(self.step.environment_variables).items():
            yield Variable(name, str(entry.value), entry.span, None)
        for command in self.commands:
            for name, value, word in command.assignments:
                yield Variable(name, value, self.span(word), command)

    def flags(self, *names: str) -> list[Flag]:
        """The flags of these names (``batch_size``) that have a value."""
        return [flag for name in names for flag in self.flags_by_name.get(name, ())]

    @property
    def code_folder(self) -> Path | None:
        """The local folder of the code, if there is one."""
        return _find_code_folder(self.step.component)

    def scripts(self, tree: Tree) -> list[Source]:
        """The Python and shell files of the code folder that the command names and that can be read."""
        folder = self.code_folder
        if folder is None:
            return []
        names = {
            word.bare
            for command in self.commands
            for word in command.words
            if word.bare.endswith((".py", ".sh")) and "$" not in word.text
        }
        sources = [tree.text(folder / name) for name in sorted(names)]
        return [source for source in sources if source is not None]

    def number(self, flag: Flag) -> float | None:
        """The value of a flag: written there, or through ``${{inputs.x}}`` in the step."""
        assert flag.value is not None
        return self.read_number(flag.value.bare)

    def read_number(self, text: Any) -> float | None:
        """The number that a word of the command is, or that the step gives for it."""
        expression = binding.parse_expression(text)
        if expression is not None:
            text = read_input(self, expression.port) if expression.scope == "inputs" else None
        return literals.parse_number(text)


def read_launches(tree: Tree, job: Job) -> list[Launch]:
    """How the steps of a job that run a command are started; read once per job."""
    return tree.once(_read_launches, job)


def _read_launches(tree: Tree, job: Job) -> list[Launch]:
    return [
        _read_launch(tree, job, step)
        for step in job.steps.values()
        if step.type in ("command", "sweep", "")
        and (step.component is None or step.component.type != "pipeline")
    ]


def read_count(field: Field[Any] | None, job: Job, default: int | None = None, *, least: int = 1) -> Count:
    """A count as Azure ML reads it: ``"4"`` is 4; fractions, words and numbers below ``least`` are None."""
    if field is None:
        return Count(default)
    number = literals.parse_number(resolve_value(field, job))
    whole = number is not None and number == int(number) and number >= least
    return Count(int(number) if whole and number is not None else None, field)


def resolve_value(field: Field[Any], job: Job) -> Any:
    """The value, through ``${{parent.inputs.x}}``; None where the pipeline gives no value."""
    expression = binding.parse_expression(field.value)
    if expression is None:
        return field.value
    if expression.scope != "parent.inputs" or job.interface is not None:
        return None
    source = job.inputs.get(expression.port or "")
    return source.value.value if source is not None and isinstance(source.value, Literal) else None


def _read_launch(tree: Tree, job: Job, step: Step) -> Launch:
    component = step.component
    block = step.distribution or (component.distribution if component else None)
    view = fields.read_distribution(block)
    kind = view.kind if view else None

    def resource(name: str) -> Field[Any] | None:
        setting = fields.read_member(step.resources, name)
        setting = setting or fields.read_member(component.resources if component else None, name)
        return setting or fields.read_member(step.compute, name)  # where the preview of 2021 had it

    commands = tree.once(_read_commands, component)
    instances = read_count(resource("instance_count"), job, 1)
    cluster = _read_cluster(tree, job, step)
    typed = resource("instance_type")
    name, span = (
        (typed.value, typed.span) if typed is not None and isinstance(typed.value, str) else (None, None)
    )
    if cluster is not None and cluster.instance_type is not None:
        name, span = cluster.instance_type, cluster.size_span
    return Launch(
        job=job,
        step=step,
        kind=kind,
        kind_span=view.type.span if view and view.type else None,
        processes=read_count(view.process_count_per_instance if view else None, job, 1),
        workers=read_count(view.worker_count if view else None, job, instances.value),
        servers=read_count(view.parameter_server_count if view else None, job, 0, least=0),
        instances=instances,
        max_instances=read_count(resource("max_instance_count"), job),
        cluster=cluster,
        size_name=name,
        size_span=span,
        size=tree.vm_size(name),
        commands=commands,
        flags_by_name=tree.once(_group_flags, commands),
    )


def _find_code_folder(component: Component | None) -> Path | None:
    code = component.code.value if component is not None and component.code is not None else None
    if component is None or component.folder is None or not isinstance(code, str):
        return None
    return local_path(code, component.folder)


def _read_commands(tree: Tree, component: Component | None) -> tuple[Command, ...]:
    """The commands of a component with those of the shell scripts that they start."""
    command = fields.read_command(component)
    commands = command_line.fill_in_variables(command)
    folder = _find_code_folder(component)
    if folder is None or ".sh" not in command:
        return commands

    def read(name: str) -> Source | None:
        return tree.text(folder / name)

    return command_line.read_scripts(commands, read)


def _group_flags(_tree: Tree, commands: tuple[Command, ...]) -> dict[str, list[Flag]]:
    flags: dict[str, list[Flag]] = {}
    for command in commands:
        for flag in command.flags():
            if flag.value is not None:
                flags.setdefault(flag.name, []).append(flag)
    return flags


def _read_cluster(tree: Tree, job: Job, step: Step) -> Cluster | None:
    """What is known of the compute that a step runs on: its own, or the pipeline's default."""
    if job.clusters is not None:
        return job.clusters.get(step.name)
    fallback = fields.read_member(job.settings, "default_compute") or job.compute
    chosen = step.compute or fallback
    return tree.cluster(resolve_value(chosen, job)) if chosen is not None else None


def read_input(launch: Launch, name: str | None) -> Any:
    """The value of an input of the step, or its default; None where the files do not say."""
    argument = launch.step.inputs.get(name or "")
    value = argument.value if argument is not None else None
    if isinstance(value, Binding):
        return resolve_value(Field(str(value.expression)), launch.job)
    if isinstance(value, Literal):
        return value.value
    port = (
        launch.step.component.inputs.get(name or "") if launch.step.component and argument is None else None
    )
    return port.default.value if port is not None and port.default is not None else None


def find_gpu_launcher(launch: Launch) -> InnerLauncher | None:
    """The first launcher of the command that starts a process for each GPU; MPI's starts ranks itself."""
    return next((inner for inner in find_inner_launchers(launch) if inner.name not in MPI), None)


def find_inner_launchers(launch: Launch) -> Iterator[InnerLauncher]:
    """The launchers that a step's command starts."""
    for command in launch.commands:
        launcher = find_launcher(launch, command)
        if launcher is not None:
            yield launcher


def find_launcher(launch: Launch, command: Command) -> InnerLauncher | None:
    """The launcher that one command of a step is."""
    call = read_launcher_call(command)
    devices = launch.size.devices if launch.size is not None else None
    instances = launch.instances.value
    return call and count_processes(call, launch.read_number, devices=devices, instances=instances)


_Spans = tuple[tuple[int, int, int, int], ...]


def map_to_written(written: str, filled: str, start: int, end: int) -> tuple[int, int] | None:
    """Where ``filled[start:end]`` stands in the text as written; None where the texts differ otherwise.

    A position inside of an expression becomes the edge of the one that it replaces.
    """
    if written == filled:
        return start, end
    spans = _pair_expressions(written, filled)
    return None if spans is None else (_map(spans, start, at_end=False), _map(spans, end, at_end=True))


def _map(spans: _Spans, position: int, *, at_end: bool) -> int:
    shift = 0
    for written_start, written_end, filled_start, filled_end in spans:
        if position >= filled_end:
            shift = written_end - filled_end
        elif position > filled_start:
            return written_end if at_end else written_start
        else:
            break
    return position + shift


@lru_cache(maxsize=64)  # many words of one command are looked up
def _pair_expressions(written: str, filled: str) -> _Spans | None:
    """The expressions of both texts with their places, in order; None where anything else differs."""
    spans: list[tuple[int, int, int, int]] = []
    before_written = before_filled = 0
    first, second = binding.find_expressions(written), binding.find_expressions(filled)
    if len(first) != len(second):
        return None
    for one, other in zip(first, second, strict=True):
        if written[before_written : one.start] != filled[before_filled : other.start]:
            return None
        spans.append((one.start, one.end, other.start, other.end))
        before_written, before_filled = one.end, other.end
    return tuple(spans) if written[before_written:] == filled[before_filled:] else None
