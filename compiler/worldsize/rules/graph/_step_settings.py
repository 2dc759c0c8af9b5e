"""Settings of steps: types, trials, computes, environment variables, and what a parallel step splits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.binding import find_expressions
from worldsize.azureml.fields import read_command, read_entries
from worldsize.azureml.graph import is_inline
from worldsize.azureml.job import Compute
from worldsize.azureml.model import Component, Job, Step
from worldsize.azureml.sweep import searched_type
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Fix, Problem
from worldsize.base.span import NOWHERE
from worldsize.base.wording import join_words
from worldsize.documents.yaml.load import to_python
from worldsize.documents.yaml.nodes import Mapping, Scalar, find_node
from worldsize.rules.graph._common import declared_component

_NAME = re.compile(r"[A-Za-z0-9][\w-]*")
_NEW_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")  # what a compute can be created with
_WITHOUT_PREFIX = frozenset({"local", "serverless"})


def check_job(context: Tree, job: Job) -> Iterator[Problem]:
    for node in _find_computes(job):
        if node.text not in _WITHOUT_PREFIX and _NAME.fullmatch(node.text):
            written = f"azureml:{node.text}"
            message = f"`{node.text}` has no `azureml:`; Azure ML finds the same compute without it"
            fix = Fix(node.span, written)
            yield Problem("compute-without-prefix", node.span, message, f"write `{written}`", fix=fix)
        if node.text == "local" and job.type == "pipeline":
            message = "`local` is for jobs outside a pipeline; a pipeline step needs a compute"
            help_ = "write `azureml:NAME` with the name of a cluster, or `serverless`"
            yield Problem("compute-name", node.span, message, help_)
        name = node.text.removeprefix("azureml:")
        is_placeholder = name.startswith("<") and name.endswith(">")  # to be filled in a template
        if "/" in name or "${{" in name or _NAME.fullmatch(name) or is_placeholder:
            continue
        start = len(node.text) - len(name)
        span = node.subspan(start, len(node.text)) if name else node.span
        message = f"`{name}` cannot be the name of a compute"
        yield Problem("compute-name", span, message, "use letters, digits and `-`")


def check_compute(context: Tree, compute: Compute) -> Iterator[Problem]:
    node = compute.raw.get("name") if compute.raw is not None else None
    if isinstance(node, Scalar) and node.text and not _NEW_NAME.fullmatch(node.text):
        message = f"`{node.text}` cannot be the name of a compute"
        yield Problem("compute-name", node.span, message, "use letters, digits and `-`; start with a letter")


def _find_computes(job: Job) -> Iterator[Scalar]:
    """The texts that name computes, in the steps of a job and in the job itself."""
    for field in [job.compute, *(step.compute for step in job.steps.values())]:
        # A step of a spec names a profile instead, and the profile its cluster.
        if field is not None and isinstance(field.node, Scalar) and field.node.text == field.value:
            yield field.node


def check_step_type_disagrees(context: Tree, step: Step) -> Iterator[Finding]:
    component, written = declared_component(step), find_node(step.raw, "type")
    reference = step.reference
    if component is None or reference is None or reference.span is None or not isinstance(written, Scalar):
        return
    kind = component.type.lower()
    if kind == step.type or (step.type, kind) == ("sweep", "command"):
        return
    message = f"step `{step.name}` is of type `{step.type}`, but `{reference.value}` is of type `{kind}`"
    help_ = f"write `type: {kind}`"
    if step.type == "sweep":
        help_ = "a sweep runs a component of type `command`"
        inner = component.graph.steps.values() if component.graph is not None else ()
        paths = [part.reference.value for part in inner if part.reference is not None]
        help_ += f": name {join_words([f'`{path}`' for path in paths], 'or')}, or" if paths else ","
        help_ += " sweep inside the pipeline component" if kind == "pipeline" else " name one as the `trial`"
    yield Finding(reference.span if step.type == "sweep" else written.span, message, help_)


def check_trial_without_inputs(context: Tree, job: Job) -> Iterator[Finding]:
    for step in job.steps.values() if job.type == "pipeline" else ():
        trial = step.raw.get("trial") if isinstance(step.raw, Mapping) and step.type == "sweep" else None
        if not isinstance(trial, Mapping) or "inputs" in trial or not is_inline(step):
            continue
        used = {part.port: part for part in find_expressions(read_command(step.component) or "")}
        names = [name for name, part in used.items() if name and part.scope in ("inputs", "search_space")]
        key = step.raw.key("trial") if isinstance(step.raw, Mapping) else None
        if not names or key is None:
            continue
        declared = ", ".join(f"{name}: {{type: {_choose_type(step, name)}}}" for name in names)
        listed = join_words([f"`{name}`" for name in names], "nor")
        message = f"an inline trial in a pipeline without `inputs` gets no value of {listed}"
        help_ = f"add `inputs: {{{declared}}}` under `trial:`; its command reads `${{{{inputs.NAME}}}}`"
        yield Finding(key.span, message, help_)


def _choose_type(step: Step, name: str) -> str:
    """The type of a value that a step gives its trial, or that a sweep searches."""
    searched = find_node(step.raw, "search_space", name)
    if isinstance(searched, Mapping):
        return searched_type(to_python(searched))
    port = step.component.inputs.get(name) if step.component is not None else None
    return port.type if port is not None and port.type != "open" else "string"


def check_environment_variable_not_text(context: Tree, step: Step) -> Iterator[Finding]:
    for key, variable in read_entries(step.environment_variables).items():
        node = variable.node
        if not isinstance(node, Scalar) or node.value is None or isinstance(node.value, str):
            continue
        read = str(node.value)
        if read != node.text:
            quoted = f'"{node.text}"'
            message = f"`{key}: {node.text}` is read as `{read}`, not as the text `{node.text}`"
            fix = Fix(node.span, quoted, safe=False)  # the script may rely on what it gets today
            yield Finding(node.span, message, f"quote it: {quoted}", fix=fix)


def check_parallel_without_input_data(context: Tree, subject: Component | Step) -> Iterator[Finding]:
    declares = is_inline(subject) if isinstance(subject, Step) else subject.path is not None
    node = subject.raw if declares and subject.type == "parallel" else None
    if not isinstance(node, Mapping) or "task" not in node or "input_data" in node:
        return
    key = node.key("type")
    name = next(iter(subject.inputs), "NAME")
    message = "`input_data` is missing, so nothing says which input is split into batches"
    place = key.span if key is not None else subject.span if isinstance(subject, Step) else None
    yield Finding(place or NOWHERE, message, f"add `input_data: ${{{{inputs.{name}}}}}`")
