"""Turns a job graph into tasks: pipeline components expanded, every input traced to its source.

Nothing is started or written; all problems are reported before the first step starts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml import binding, fields, literals
from worldsize.azureml import graph as graphs
from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Argument, Binding, Component, Data, Field, Job, Literal, Port, Step
from worldsize.azureml.references import classify, exists
from worldsize.base import limits, resources
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.suggest import closest, did_you_mean
from worldsize.base.wording import shorten
from worldsize.documents.secrecy.names import is_secret
from worldsize.documents.yaml import Mapping as YamlMapping
from worldsize.documents.yaml import Scalar
from worldsize.running.launch.launchers import LAUNCHERS
from worldsize.running.model.assets import AssetMap
from worldsize.running.model.task import (
    KINDS,
    File,
    Graph,
    Joined,
    Output,
    Source,
    SweepPlan,
    Task,
    Text,
    read_default,
)
from worldsize.running.prepare.graph import kinds
from worldsize.running.prepare.graph.kinds import (
    Refusals,
    describe_unsupported,
    notice_unwritten_outputs,
    read_parallel,
    read_sweep,
)
from worldsize.running.prepare.graph.trace import (
    Absent,
    Reason,
    Scope,
    Traced,
    Tracer,
    Unknown,
    find_argument,
    list_leaves,
    trace_output,
)

LONGEST_LIST = 12  # names shown in a message about a cycle
LONGEST_NAME = 240  # of a folder; the names of trials are longer
MAX_STEPS = 20_000  # nested pipeline components multiply: ten lines can expand to a billion steps
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_REPORTED = Text("")  # replaces a missing source whose problem is reported, so that the task never runs


def flatten(job: Job, assets: AssetMap) -> tuple[Graph, list[Problem]]:
    """The tasks of a job in its own order, and every reason why they cannot run here."""
    faults, file_start = Refusals(), Span(str(job.path or "pipeline"), 1, 1, 1, 1)
    outer = Scope(job)
    if not job.steps:
        problem = Problem("run-empty", file_start, "there is no step to run", "a pipeline has `jobs:`")
        return Graph({}, {}), [problem]
    if _count_steps(job, {}) > MAX_STEPS:
        message = f"the pipeline has more than {MAX_STEPS} steps once its components are expanded"
        return Graph({}, {}), [Problem("run-refused", file_start, message, "run one of its components alone")]
    tasks: dict[str, Task] = {}
    sweeps: dict[str, SweepPlan] = {}
    tracer = Tracer(assets)
    for reader in _list_readers(outer, file_start, tracer, faults):
        limits.check_time()
        if (task := reader.task()) is not None:
            tasks[task.name] = task
            if task.kind == "sweep" and (plan := reader.sweep()) is not None:
                sweeps[task.name] = plan
    outputs = job.outputs if job.type == "pipeline" else {}
    graph = Graph(
        tasks=tasks,
        outputs={} if faults.problems else dict(_trace_outputs(outer)),
        notices=(*faults.notices, *notice_unwritten_outputs(outputs, outer.folder, "outputs")),
        sweeps=sweeps,
        # The default is true, by "CLI (v2) pipeline job YAML schema" since 2023, when Microsoft started to
        # write `false` into its own examples (azureml-examples, pull request 2368). Older copies of the page,
        # and that of the schedule, still say false.
        keep_going=_read_switch(job, "continue_on_step_failure", default=True),
        force_rerun=_read_switch(job, "force_rerun", default=False),
        secrets=frozenset(tracer.secrets),
    )
    return graph, faults.problems or _report_cycle(tasks, file_start)


def _list_readers(scope: Scope, at: Span, tracer: Tracer, faults: Refusals) -> Iterator[StepReader]:
    """The readers of all steps that run; a pipeline step is replaced by those of its component."""
    for step in scope.job.steps.values():
        reader = StepReader(scope, step, step.span or at, tracer, faults)
        if _NAME.fullmatch(step.name) is None or len(reader.name) > LONGEST_NAME:
            message = f"`{shorten(reader.name)}` cannot be the name of a folder"
            reader.refuse(message, "use a few letters and digits")
        elif step.type != "pipeline":
            yield reader
        elif (inner := _open_component(reader)) is not None:
            yield from _list_readers(inner, reader.span, tracer, faults)


def _open_component(reader: StepReader) -> Scope | None:
    """The inner graph of a pipeline step, after its inputs and outputs were checked."""
    component = reader.step.component
    inner = reader.scope.inside(reader.step)
    if inner is None or inner.job.interface is None or inner.job.path is None:
        if component is not None and component.graph is not None:
            message = f"the pipeline component of step `{reader.name}` is defined in the step itself"
            reader.refuse(message, "put it into a file of its own")
        else:
            reader.runnable()
        return None
    ports = inner.job.interface.inputs
    reader.check_names(ports)
    for port in ports.values():
        reader.value(port)
    for name in inner.job.interface.outputs:
        writers = inner.writers(name)
        if len(writers) != 1:
            writer_count = "no step writes" if not writers else f"{len(writers)} steps write"
            message = f"{writer_count} the output `{name}` of the component of step `{reader.name}`"
            reader.refuse(message, f"bind one output of a step to it: `${{{{parent.outputs.{name}}}}}`")
    return inner


def _trace_outputs(outer: Scope) -> list[tuple[str, Output]]:
    outputs = []
    for step in outer.job.steps.values():
        for name, setting in step.outputs.items():
            bound = setting.value.binding
            output = trace_output(outer, step.name, name) if bound is not None else None
            if bound is not None and bound.value.port and isinstance(output, Output):
                outputs.append((bound.value.port, output))
    return outputs


def _count_steps(job: Job, counts: dict[Job, int]) -> int:
    """Count the steps after expansion; a component is counted once, however often it is used."""
    total = 0
    for step in job.steps.values():
        inner = step.component.graph if step.component is not None else None
        if inner is None:
            total += 1
            continue
        if inner not in counts:
            counts[inner] = _count_steps(inner, counts)
        total += counts[inner]
    return total


def _read_switch(job: Job, name: str, *, default: bool) -> bool:
    setting = fields.read_member(job.settings, name)
    return default if setting is None or setting.value is None else str(setting.value).lower() == "true"


def _report_cycle(tasks: Mapping[str, Task], file_start: Span) -> list[Problem]:
    names_in_cycle = graphs.find_cycle(tasks, lambda name: sorted(tasks[name].needs))
    if names_in_cycle is None:
        return []
    first = names_in_cycle.index(next(name for name in tasks if name in names_in_cycle))
    names_in_cycle = names_in_cycle[first:] + names_in_cycle[:first]
    names = ", ".join(f"`{name}`" for name in names_in_cycle[:LONGEST_LIST])
    span = tasks[names_in_cycle[0]].span or file_start
    message = f"step {names} waits for itself"
    if len(names_in_cycle) > 1:
        message = f"steps {names} wait for each other"
    return [Problem("run-cycle", span, message, "remove one of these bindings")]


class StepReader(Struct, frozen=True):
    """Reads one step; problems are added to ``faults``."""

    scope: Scope
    step: Step
    span: Span
    tracer: Tracer
    faults: Refusals

    @property
    def name(self) -> str:
        """The step's name, unique among all graphs."""
        return self.scope.name(self.step)

    def task(self) -> Task | None:
        """The task, or None if the step cannot run here."""
        component = self.runnable()
        if component is not None and self.step.type == "parallel":
            component, problems = read_parallel(self.step, self.setting)
            self.faults.add(*problems)
        if component is None:
            return None
        before, searched = len(self.faults.problems), self._list_swept()
        block = fields.read_distribution(self.step.distribution or component.distribution)
        launcher = self._read_launcher(block)
        count = fields.read_member(self.step.resources or component.resources, "instance_count")
        # Without `distribution` the command is started once, however many instances it requests.
        instances = 1 if launcher == "none" else self._read_count("instance_count", count, 1)
        workers, servers = None, 0
        if block is not None and launcher == "tensorflow":
            servers = self._read_count("parameter_server_count", block.parameter_server_count, 0, least=0)
            workers = self._read_count("worker_count", block.worker_count, instances)
        if not graphs.is_inline(self.step):
            self.check_names(component.inputs, searched)
        inputs = {name: self.value(port) for name, port in component.inputs.items() if name not in searched}
        outputs = {name: self._find_output_type(port) for name, port in component.outputs.items()}
        unfilled = find_unfilled(component, inputs, outputs, searched)
        if unfilled is not None and len(self.faults.problems) == before:
            self.refuse(f"step `{self.name}`: {unfilled[0]}", unfilled[1], Field(None, unfilled[2]))
        outputs_folder = f"steps/{self.name}/outputs"
        elsewhere = notice_unwritten_outputs(self.step.outputs, self.scope.folder, outputs_folder)
        self.faults.notices += [f"{self.name}: {notice}" for notice in elsewhere]
        path, title = component.path or self.scope.job.path, self.step.display_name
        processes = block.process_count_per_instance if block is not None else None
        return Task(
            name=self.name,
            kind=self.step.type,
            component=self._with_code_here(component),
            folder=path.parent if path else Path(),
            launcher=launcher,
            instance_count=instances,
            process_count_per_instance=self._read_count("process_count_per_instance", processes, 1),
            worker_count=workers,
            parameter_server_count=servers,
            inputs=inputs,
            outputs=outputs,
            environment_variables=self._read_variables(launcher, component),
            display_name=str(title.value) if title is not None and title.value is not None else None,
            timeout=self._read_timeout(),
            step=self.step,
            span=self.span,
        )

    def runnable(self) -> Component | None:
        """The step's component, if its kind can run here."""
        step, component = self.step, self.step.component
        if step.type not in KINDS:
            self.refuse(*describe_unsupported(self.name, step.type))
            return None
        if component is None:
            self._report_missing_component()
            return None
        kind = component.type.lower()
        if component.type == "flow":
            message = f"step `{self.name}` is a prompt flow, whose connections only the service has"
            self.refuse(message, kinds.SUBMIT)
            return None
        if kind != step.type and not (step.type == "sweep" and kind == "command"):
            help_ = f"write `type: {kind}`" if kind in KINDS or kind == "pipeline" else kinds.SUBMIT
            if step.type == "sweep":
                help_ = "name a component of type `command` as its `trial`"
            message = f"step `{self.name}` is of type `{step.type}`, but its component is of type `{kind}`"
            self.refuse(message, help_)
            return None
        if kind == "command" and (component.command is None or not isinstance(component.command.value, str)):
            self.refuse(f"step `{self.name}` has no `command`", "write the command as text")
            return None
        return modernise_command(component) if self.scope.job.type != "pipeline" else component

    def check_names(self, ports: Mapping[str, Port], more: frozenset[str] = frozenset()) -> None:
        """Add notices for values without an input of the component, which Azure ML ignores too."""
        for name, field in self.step.inputs.items():
            for leaf in list_leaves(name, field, ports):
                if leaf in ports or leaf in more or any(port.startswith(f"{leaf}.") for port in ports):
                    continue
                near = closest(leaf, ports)
                hint = f"; did you mean `{near}`?" if near else ""
                self.faults.notices.append(
                    f"{self.name}: its component has no input `{leaf}`, which is ignored{hint}"
                )

    def value(self, port: Port) -> Source | None:
        """The source of an input; None for an optional one without a value."""
        field = find_argument(self.step.inputs, port.name)
        if field is None:
            return self._without_value(port)
        source = self.tracer.trace(self.scope, field.value, is_data=port.is_data)
        if is_secret(port.name):
            source = self.tracer.keep_secret(source)
        if isinstance(source, Unknown):
            return _REPORTED
        if isinstance(source, Reason):
            if source.address is not None and _is_direct(port, field.value, source):
                return Text(source.address)  # the script gets the address itself, as on Azure ML
            path = field.value.path if isinstance(field.value, Data) else None
            message = f"input `{port.name}` of step `{self.name}` {source.message}"
            self.refuse(message, source.help, source.at or path or field)
            return _REPORTED
        if isinstance(source, Absent):
            return self._without_value(port, source)
        self._check_value(port, source, field)
        if isinstance(field.value, Literal | Data) and isinstance(source, Joined | File):
            self._notice_joined(port, field)
        return source

    def _notice_joined(self, port: Port, field: Field[Any]) -> None:
        """Add a notice that text around a binding is joined, which Azure ML may not do."""
        written = field.value.path if isinstance(field.value, Data) else field.value
        if written is not None and "${{" in str(written.value):
            self.faults.notices.append(
                f"{self.name}: input `{port.name}` puts text around a binding; it is joined here,"
                " but whether Azure ML does so is not documented"
            )

    def _check_value(self, port: Port, source: Source, field: Field[Any]) -> None:
        """Check a literal against the port's type, range and enumeration, and a path against the type."""
        if isinstance(source, File):
            what = f"input `{port.name}` of step `{self.name}`"
            # The type of the job counts: official examples bind data to ports of another type, and they run.
            declared = source.type or ("uri_file" if port.type.lower() == "uri_file" else "")
            self.tracer.assets.check_type(source.path, declared.lower(), what)
        if not isinstance(source, Text) or port.type not in literals.PRIMITIVES:
            return
        if source.value is None or graphs.is_inline(self.step):
            return
        wrong = literals.check_value(port.name, source.value, port, field.span or self.span)
        if wrong is None or (wrong.slug == "input-not-in-enum" and not self._is_ours()):
            return  # the service runs values that an `enum` lacks, so the check only warns
        self.refuse(f"step `{self.name}`: {wrong.message}", wrong.help or "correct the value", field)

    def _is_ours(self) -> bool:
        name = self.step.component.name if self.step.component is not None else None
        return name is not None and name.value in resources.component_names()

    def _without_value(self, port: Port, absent: Absent | None = None) -> Source | None:
        if port.default is not None and port.default.value is not None:
            return read_default(port)
        if not port.optional:
            through = f": `{absent.of}` has none" if absent else ""
            message = f"input `{port.name}` of step `{self.name}` has no value{through}"
            self.refuse(message, f"give one under `inputs:`, such as `{port.name}: …`")
        return None

    def sweep(self) -> SweepPlan | None:
        """The plan of a sweep step; None if it is wrong."""
        plan, problems = read_sweep(self.step, self.setting)
        self.faults.add(*problems)
        return plan

    def setting(self, value: Any) -> Any:
        """A setting with a binding to an input of the pipeline resolved; any other value is unchanged."""
        source = self._trace_value(value) if binding.parse_expression(value) is not None else None
        return source.value if isinstance(source, Text) else value

    def _list_swept(self) -> frozenset[str]:
        """The inputs that a sweep varies, which only its trials have."""
        raw = self.step.raw if self.step.type == "sweep" else None
        space = raw.get("search_space") if isinstance(raw, YamlMapping) else None
        return frozenset(space) if isinstance(space, YamlMapping) else frozenset()

    def _find_output_type(self, port: Port) -> str:
        """The type of an output; an inline job that only binds it has that of the pipeline's output."""
        setting = self.step.outputs.get(port.name)
        if not graphs.is_inline(self.step) or setting is None or setting.value.type:
            return port.type
        bound = setting.value.binding
        name, scope = bound.value.port if bound else None, self.scope
        if scope.job.interface is not None:
            declared = scope.job.interface.outputs.get(name or "")
            return declared.type.lower() if declared else port.type
        whole = scope.job.outputs.get(name or "")
        return (whole.value.type if whole and whole.value.type else port.type).lower()

    def _with_code_here(self, component: Component) -> Component:
        """The component with its code on this machine; other code is refused."""
        code = component.code
        text = code.value if code is not None else None
        if code is None or not isinstance(text, str) or classify(text) == "local":
            return component
        path = self.tracer.assets.local(text)
        if path is not None:
            return replace(component, code=replace(code, value=str(path.absolute())))
        help_ = "clone it and refer to its folder: `code: ./folder`"
        if classify(text) != "git":
            help_ = self.tracer.assets.missing(text, "code")
        message = f"the code of step `{self.name}` is `{shorten(text)}`, which is not on this machine"
        self.refuse(message, help_, code)
        return component

    def _report_missing_component(self) -> None:
        reference = self.step.reference
        text = reference.value if reference else None
        mapped = self.tracer.assets.local(text) if isinstance(text, str) else None
        if mapped is not None:
            if exists(mapped):  # if it does not exist, the entry of the map is reported
                message = f"`{mapped.name}`, which stands for component `{text}`, is not a component file"
                self.refuse(message, "map it to its YAML file", reference)
        elif isinstance(text, str):
            message = f"component `{shorten(text)}` of step `{self.name}` is not on this machine"
            self.refuse(message, self.tracer.assets.missing(text, "component"), reference)
        else:
            self.refuse(f"step `{self.name}` has nothing to run", "give it a `component` or `command`")

    def _read_launcher(self, block: fields.Distribution | None) -> str:
        if block is None or block.kind is None:
            return "none"
        if block.kind in LAUNCHERS:
            return block.kind
        names = ", ".join(f"`{name}`" for name in LAUNCHERS if name != "none")
        message = f"step `{self.name}` is distributed with `{block.kind}`, which is not started here"
        self.refuse(message, f"use {names}, or a step without `distribution`", block.type)
        return "none"

    def _read_timeout(self) -> int | None:
        """Seconds after which the step is stopped; sweeps and mini-batches have limits of their own."""
        if self.step.type == "sweep":
            return None
        return self._read_count("timeout", fields.read_member(self.step.limits, "timeout"), 0) or None

    def _read_variables(self, launcher: str, component: Component) -> dict[str, str]:
        """The step's own variables. Those without a value are dropped, as the Azure ML client does."""
        variables: dict[str, tuple[Any, Field[Any] | None]] = {}
        for block in self._list_blocks(component):
            for name, value in block.value.items() if isinstance(block.value, dict) else ():
                variables[name] = value, fields.read_member(block, name)
        rendered = {}
        for name, (value, setting) in variables.items():
            if name in LAUNCHERS[launcher].variables:  # one value is wrong for all processes
                self.refuse(
                    f"`environment_variables` of step `{self.name}` sets `{name}`,"
                    f" which `distribution: {{type: {launcher}}}` sets for each process",
                    f"remove `{name}`, or remove `distribution` and start the processes yourself",
                    setting,
                )
            source = self._trace_value(value)
            if isinstance(source, Text) and source.value is not None:
                rendered[str(name)] = source.rendered
            elif isinstance(source, File):
                rendered[str(name)] = str(source.path.absolute())
            elif not isinstance(source, Text):  # a path that does not exist yet, or a wrong binding
                why = f"is `{value}`, which is not a literal"
                why = source.message if isinstance(source, Reason) else why
                help_ = "bind it to an input of the pipeline that is a number or a text"
                self.refuse(f"variable `{name}` of step `{self.name}` {why}", help_, setting)
        return rendered

    def _list_blocks(self, component: Component) -> Iterator[Field[Any]]:
        """The blocks of variables: that of the step, then that of a sweep's trial, which overrides it."""
        if self.step.environment_variables is not None:
            yield self.step.environment_variables
        raw = component.raw if self.step.type == "sweep" else None
        trial = fields.read_field(raw, "environment_variables") if isinstance(raw, YamlMapping) else None
        if trial is not None:
            yield trial

    def _read_count(self, name: str, setting: Field[Any] | None, default: int, *, least: int = 1) -> int:
        if setting is None or setting.value is None:
            return default
        source = self._trace_value(setting.value)
        number = literals.parse_number(source.value) if isinstance(source, Text) else None
        if number is None or number < least or number != int(number):
            message = f"`{name}` of step `{self.name}` is `{setting.value}`"
            if isinstance(source, Text) and source.value != setting.value:
                message += f", {source.value}"
            self.refuse(message, f"give a whole number from {least}", setting)
            return default
        return int(number)

    def _trace_value(self, value: Any) -> Traced:
        expression = binding.parse_expression(value)
        argument: Argument = Literal(value) if expression is None else Binding(expression)
        return self.tracer.trace(self.scope, argument, is_data=False)

    def refuse(self, message: str, help_: str, at: Field[Any] | None = None) -> None:
        """Report why the step cannot run, at a field if one is given."""
        self.faults.refuse(self.span, message, help_, at)


def _is_direct(port: Port, argument: Argument, reason: Reason) -> bool:
    """Whether data is passed as its address: by the nearest of node, pipeline and component that says so."""
    argument_mode = None if isinstance(argument, Literal) else argument.mode
    mode = argument_mode or reason.mode or port.mode
    return mode is not None and str(mode.value).lower() == "direct"


# azure-ai-ml 1.35.2, `map_single_brackets_and_warn`; so `${inputs.x}` keeps its dollar sign.
_OLD = re.compile(r"(?<!\{)\{(inputs|outputs|search_space)\.([^{}]*)\}(?!\})")


def modernise_command(component: Component) -> Component:
    """A standalone job's component, with ``{inputs.x}`` written as ``${{inputs.x}}``."""
    command = component.command
    if command is None or not isinstance(command.value, str) or _OLD.search(command.value) is None:
        return component
    text = _OLD.sub(r"${{\1.\2}}", command.value)
    return replace(component, command=Field(text, command.span, command.key_span, None))


def find_unfilled(
    component: Component,
    inputs: Mapping[str, Source | None],
    outputs: Collection[str],
    searched: Collection[str],
) -> tuple[str, str, Span | None] | None:
    """The first placeholder of a command that nothing replaces: message, help and position, or None.

    ``searched`` is what a sweep varies; an input that is None has no value.
    """
    command = component.command
    if command is None or not isinstance(command.value, str):
        return None
    template = binding.parse_template(command.value)
    guarded = {expression.start for part in template.sections for expression in part.expressions}
    for expression in template.expressions:
        fault = _explain_unfilled(expression, inputs, outputs, searched, guarded=expression.start in guarded)
        if fault is not None:
            node, span = command.node, command.span
            if isinstance(node, Scalar):
                span = node.subspan(expression.start, expression.end)
            return *fault, span
    return None


def _explain_unfilled(
    expression: Expression,
    inputs: Mapping[str, Source | None],
    outputs: Collection[str],
    searched: Collection[str],
    *,
    guarded: bool,
) -> tuple[str, str] | None:
    scope, port = expression.scope, expression.port
    scopes: dict[str, tuple[str, Collection[str]]] = {
        "inputs": ("input", {*inputs, *searched}),
        "outputs": ("output", outputs),
        "search_space": ("entry of `search_space`", searched),
    }
    if scope not in scopes or port is None:
        help_ = "write `${{inputs.x}}` or `${{outputs.y}}`"
        return f"`{expression}` in the command is replaced by nothing", help_
    what, names = scopes[scope]
    if port not in names:
        help_ = did_you_mean(port, names) or f"declare it under `{scope}:`"
        return f"`{expression}` in the command names no {what}", help_
    if scope == "inputs" and port not in searched and inputs.get(port) is None and not guarded:
        help_ = "put it and its option into `$[[ ]]`, which is omitted if there is no value"
        return f"`{expression}` in the command has no value here", help_
    return None
