"""What is done with a file of each kind: which layers judge it, and what the rules get to see."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml.tree import Tree
from worldsize.base.limits import OverBudgetError
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.checking import discover
from worldsize.documents import yaml
from worldsize.rules import engine

if TYPE_CHECKING:
    from worldsize.azureml.model import Component, Job
    from worldsize.resolving.planned import Planned

UNREADABLE = ("yaml-unreadable", "yaml-too-large")  # said of a file, whatever it was to be


class CheckRun(Struct):
    """What one call collects on its way through the files."""

    context: Tree
    problems: list[Problem] = field(default_factory=list)
    subjects: dict[str, list[tuple[Any, Span]]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    referred: list[tuple[str, str]] = field(default_factory=list)  # what else is in use: path and kind
    in_use: set[Path] = field(default_factory=set)  # component files that a job names
    kinds: dict[str, str] = field(default_factory=dict)  # what each file was recognised as, by path
    planned: dict[str, Planned] = field(default_factory=dict)  # specs, by path
    jobs: dict[str, Job] = field(default_factory=dict)  # the graphs of specs and job files, by path
    incomplete: set[str] = field(default_factory=set)  # files that some checks could not reach
    passed_over: set[str] = field(default_factory=set)  # Azure ML's, of kinds whose keys are not known here
    components: set[Component] = field(default_factory=set)  # those that were fed

    def check_file(self, file: discover.CheckedFile, kind: str = "") -> None:
        """Check one file. A crash is reported, and the other files are still checked."""
        try:
            with self.context.budgets.charge(file.path):
                self._check_file(file, kind)
        except OverBudgetError:
            self._add_incomplete(file.path, self.context.budgets.give_up(file.path))
        except Exception as error:  # a fault of a check must not hide what the others find
            crash = engine.crash("reading this file", _start_of(file.path), error)
            self._add_incomplete(file.path, crash)

    def check_referred(self) -> None:
        """Check the jobs of schedules and the components of steps that were not given as files.

        What they use in turn is added to the list meanwhile.
        """
        resolve = self.context.files.real_paths.resolve
        seen = {resolve(path) for path in self.files}
        for path, kind in self.referred:
            real = resolve(path)
            if real not in seen and self.context.inside(path):
                seen.add(real)
                self.check_file(discover.CheckedFile(os.path.normpath(path), named=False), kind)
        if any(problem.slug == "aml-component-name" for problem in self.problems):
            in_use = {resolve(path) for path in self.in_use}
            self.problems = [  # a component that a job names by its path needs no name of its own
                problem
                for problem in self.problems
                if problem.slug != "aml-component-name" or resolve(problem.span.path) not in in_use
            ]

    def feed(self, subject: Any, span: Span) -> None:
        """Give something to the rules that are registered for its type."""
        self.subjects.setdefault(type(subject).__name__, []).append((subject, span))

    def _add_incomplete(self, path: str, problem: Problem) -> None:
        self.incomplete.add(path)
        self.files += [] if path in self.files else [path]
        self.problems.append(problem)

    def _check_file(self, file: discover.CheckedFile, kind: str = "") -> None:
        """Recognise one file, unless its kind is known from its use, and run the stage of its kind."""
        document = self.context.document(file.path)
        kind = kind or discover.recognise_kind(document, named=file.named) or ""
        if not kind:
            self._unrecognised(document, named=file.named)
            return
        self.files.append(file.path)
        self.kinds[document.path] = kind
        self.problems += document.problems
        if document.root is not None:
            self.feed(document, _start_of(document.path))
        if kind == "spec":
            _check_spec(self, document)
        elif kind != "settings":  # which were checked when the files of their project were listed
            _check_native(self, document, kind)

    def _unrecognised(self, document: yaml.Document, *, named: bool) -> None:
        schema = discover.find_schema_in_list(document.root)
        if schema is not None:
            self.files.append(document.path)
            message = "the file is a list, but Azure ML reads one mapping per file"
            help_ = "remove the dash and the indentation below it; move any other item to a file of its own"
            self.problems.append(Problem("aml-wrong-type", schema, message, help_))
            return
        unreadable = any(problem.slug in UNREADABLE for problem in document.problems) and not document.text
        if (
            named
            or unreadable
            or (document.root is None and discover.looks_like_azureml(document.path, document.text))
        ):
            self.files.append(document.path)
            self.incomplete.add(document.path)
            # What is too large may be anyone's.
            self.problems += [
                replace(problem, slug="file-not-read")
                if problem.slug == "yaml-too-large" and not named
                else problem
                for problem in document.problems
            ]
            if document.root is not None:
                message = "this is neither a spec nor an Azure ML file, so nothing in it was checked"
                help_ = "a spec has `compute:` and `steps:`, a job has `$schema:` or `type:`"
                at_start = _start_of(document.path)
                self.problems.append(Problem("file-not-recognised", at_start, message, help_))


def _check_spec(run: CheckRun, document: yaml.Document) -> None:
    from worldsize.resolving.resolve import plan_document  # only files that are specs need it

    planned, problems = plan_document(document, run.context.files, run.context.vm_sizes)
    run.problems += problems
    if planned is None:
        run.incomplete.add(document.path)
        return
    spec = planned.spec
    run.planned[document.path], run.jobs[document.path] = planned, planned.job
    run.problems += planned.problems
    if planned.plan is None:
        run.incomplete.add(document.path)
    run.feed(planned, spec.span)
    underived = {problem.span for problem in planned.problems if problem.slug == "process-count-unknown"}
    for name, profile in spec.compute.items():
        if profile.instance_type is None or profile.instance_type.span not in underived:
            run.feed(planned.computes[name], profile.span)
    _feed_job(run, planned.job, spec.span)


def _check_native(run: CheckRun, document: yaml.Document, kind: str) -> None:
    from worldsize.azureml import component, job, shape  # only Azure ML's files need it

    if document.root is None:
        return
    at_start = _start_of(document.path)
    if isinstance(document.root, yaml.Mapping) and list(document.root) == ["$schema"]:
        message = "the file has a `$schema` and nothing else, so there is nothing to check"
        run.problems.append(Problem("template-not-filled", document.root.span, message, "write its keys"))
        return
    if kind in shape.CHECKED:
        run.problems += shape.check_shape(document.root, kind)
        run.problems += shape.check_schema_name(document.root, kind)
    if kind.endswith("-job"):
        graph, problems = job.read_job(document.path, run.context.files)
        run.problems += problems
        if graph is not None:
            run.jobs[document.path] = graph
            _feed_job(run, graph, at_start)
    elif kind.endswith("-component"):
        interface, problems = component.read_component(document.path, run.context.files)
        run.problems += problems
        if interface is not None and not run.context.is_built_in_copy(interface):
            _feed_component(run, interface, at_start)
    elif kind in _STAGES and isinstance(document.root, yaml.Mapping):
        _STAGES[kind](run, document.root, Path(document.path))


def _other(run: CheckRun, root: yaml.Mapping, path: Path) -> None:
    """Check when a monitor or an import of data runs, and the file that the import names."""
    from worldsize.azureml import job, schedule_times, shape  # few trees have such files

    if "create_monitor" not in root and "import_data" not in root:
        run.passed_over.add(str(path))
    else:
        schedule, _ = job.read_schedule(root, path, run.context.files, lambda _: False)
        run.problems += shape.check_member(root, "schedule", "trigger")
        run.problems += schedule_times.check_trigger(schedule.trigger)
        run.feed(schedule, root.span)


def _compute(run: CheckRun, root: yaml.Mapping, path: Path) -> None:
    from worldsize.azureml import job, schedule_times  # few trees have such files

    schedules = root.get("schedules")
    actions = schedules.get("compute_start_stop") if isinstance(schedules, yaml.Mapping) else None
    for action in actions.items if isinstance(actions, yaml.Sequence) else ():
        trigger = action.get("trigger") if isinstance(action, yaml.Mapping) else None
        run.problems += schedule_times.check_trigger(trigger)
    cluster = job.read_compute(root, path)
    if cluster is not None:
        run.context.describe(cluster)
        run.feed(cluster, root.span)


def _environment(run: CheckRun, root: yaml.Mapping, path: Path) -> None:
    """Check an environment of its own as a component that consists of nothing else."""
    from worldsize.azureml import fields
    from worldsize.azureml.model import Component

    environment = fields.read_node(root)
    bare = Component(
        path, "environment", None, None, {}, {}, environment=environment, raw=root, folder=path.parent
    )
    _feed_component(run, bare, root.span)


def _schedule(run: CheckRun, root: yaml.Mapping, path: Path) -> None:
    """Check a schedule and, even if only the schedule was named, the job that it starts."""
    from worldsize.azureml import job, schedule_times

    schedule, problems = job.read_schedule(root, path, run.context.files, run.context.inside)
    run.problems += problems
    run.problems += schedule_times.check_trigger(schedule.trigger)
    run.feed(schedule, root.span)
    if schedule.job is not None and schedule.target is not None:
        run.referred.append((str(schedule.target), ""))


def _data(run: CheckRun, root: yaml.Mapping, _path: Path) -> None:
    from worldsize.azureml.graph import read_argument
    from worldsize.azureml.model import Data

    asset = read_argument(root)
    if isinstance(asset, Data):
        run.feed(asset, root.span)


def _model(run: CheckRun, root: yaml.Mapping, _path: Path) -> None:
    """Check the path of a model, which is a file or a folder."""
    from worldsize.azureml import fields
    from worldsize.azureml.model import Data

    kind = fields.read_text(root, "type") or ""
    asset = Data(kind if kind.endswith("_model") else "custom_model", fields.read_field(root, "path"), None)
    run.feed(asset, root.span)


def _deployment(run: CheckRun, root: yaml.Mapping, path: Path) -> None:
    """Check a deployment as a component of its code and environment, and its model and VM size."""
    from worldsize.azureml import fields
    from worldsize.azureml.job import Compute  # few trees have such files
    from worldsize.azureml.model import Component, Data

    model, configuration = root.get("model"), root.get("code_configuration")
    if isinstance(model, yaml.Mapping):
        _model(run, model, path)
    elif isinstance(model, yaml.Scalar) and model.text.startswith("azureml:"):
        run.feed(Data("custom_model", fields.read_field(root, "model"), None), root.span)
    size, on_vms = fields.read_field(root, "instance_type"), fields.read_text(root, "type") != "kubernetes"
    vm_size = run.context.vm_size(str(size.value)) if size is not None else None
    # Nearly all official examples name a size that retires in some years, which is said of clusters.
    if size is not None and on_vms and (vm_size is None or vm_size.status != "retiring"):
        run.feed(Compute(fields.read_text(root, "name") or "", path, size), root.span)
    code = fields.read_field(configuration, "code") if isinstance(configuration, yaml.Mapping) else None
    environment = fields.read_field(root, "environment")
    bare = Component(
        path, "deployment", None, None, {}, {},
        code=code, environment=environment, raw=root, folder=path.parent,
    )  # fmt: skip
    _feed_component(run, bare, root.span)


_STAGES = {
    "batch-deployment": _deployment,
    "compute": _compute,
    "data": _data,
    "environment": _environment,
    "model": _model,
    "online-deployment": _deployment,
    "schedule": _schedule,
    "other": _other,
}


def _feed_job(run: CheckRun, job: Job, place: Span) -> None:
    """A graph, its steps and their components, whatever kind of file it was read from."""
    run.feed(job, place)
    for step in job.steps.values():
        at_step = step.span or place
        run.feed(step, at_step)
        component = step.component
        if component is not None and component.path is not None:
            run.in_use.add(component.path)
        if component is not None and _is_checked(run, component):
            _feed_component(run, component, at_step)


def _is_checked(run: CheckRun, component: Component) -> bool:
    """Whether a component is checked with the files that use it: a built-in one is where it is made."""
    path = component.path
    return path is None or (run.context.inside(path) and not run.context.is_built_in(component))


def _feed_component(run: CheckRun, component: Component, place: Span) -> None:
    """Feed a component once, however many steps use it, with the graph inside a pipeline component."""
    if component in run.components:
        return
    run.components.add(component)
    if component.path is not None:
        place = _start_of(component.path)
        run.referred.append((str(component.path), _kind(component)))
    run.feed(component, place)
    from worldsize.azureml import snapshot  # only a component has one

    assert component.folder is not None
    run.problems += snapshot.check_references(component, component.folder)
    run.problems += snapshot.check_uploads(component, component.folder, run.context.files)
    if component.graph is not None:
        _feed_job(run, component.graph, place)


def _kind(component: Component) -> str:
    """The kind of a component's file; its keys alone may be those of a job, too."""
    from worldsize.azureml import shape  # only Azure ML's files need it

    kind = f"{component.type.lower()}-component"
    return kind if kind in shape.CHECKED else ""


def _start_of(path: str | Path) -> Span:
    return Span(str(path), 1, 1, 1, 1)
