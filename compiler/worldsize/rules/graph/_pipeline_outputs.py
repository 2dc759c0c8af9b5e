"""Outputs of steps that are bound to outputs of the pipeline, and pipeline outputs that no step writes."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Fix, Problem, Related
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE, span_of, suggest_fix, text_node


def check_job(context: Context, job: Job) -> Iterator[Problem]:
    writers: dict[str, tuple[str, Span]] = {}
    for step in job.steps.values():
        for field in step.outputs.values():
            bound = field.value.binding
            if bound is None or bound.value.scope != "parent.outputs":
                continue
            node, name, written = text_node(field.node), bound.value.port, str(bound.value)
            if node is not None and node.text != written:
                message = (
                    f"`{node.text}` has spaces inside, so Azure ML reads it as a path and the binding is lost"
                )
                fix = Fix(node.span, written)
                yield Problem("output-binding-blanks", node.span, message, f"write `{written}`", fix=fix)
            if name is None:
                continue
            if node is not None and name not in job.outputs:
                yield _report_unknown(job, name, node.subspan(*bound.value.part_range(2)))
            if name in writers:
                first, place = writers[name]
                message = (
                    f"`{step.name}` writes the pipeline's output `{name}`, which `{first}` writes already"
                )
                help_ = "declare a second output under `outputs:` of the pipeline"
                related = (Related(place, "written here first"),)
                yield Problem("output-written-twice", span_of(bound), message, help_, related)
            else:
                writers[name] = (step.name, span_of(bound))
    yield from _report_unwritten(job)


def _report_unknown(job: Job, name: str, span: Span) -> Problem:
    help_ = did_you_mean(name, job.outputs) or f"declare `{name}` under `outputs:` of the pipeline"
    fix = suggest_fix(span, name, job.outputs)
    return Problem("pipeline-output-unknown", span, f"the pipeline has no output `{name}`", help_, fix=fix)


def _report_unwritten(job: Job) -> Iterator[Problem]:
    """Report the outputs of a pipeline, or of a pipeline component, that no step writes."""
    bindings = [field.value.binding for step in job.steps.values() for field in step.outputs.values()]
    written = {bound.value.port for bound in bindings if bound is not None}
    slug, spans = "job-output-unwritten", {name: field.key_span for name, field in job.outputs.items()}
    if job.interface is not None:
        slug = "pipeline-output-unwritten"
        spans = {name: port.span for name, port in job.interface.outputs.items()}
    for name, span in spans.items() if job.type == "pipeline" else ():
        if name not in written:
            message = f"no step writes the output `{name}`"
            help_ = f"write `${{{{parent.outputs.{name}}}}}` as the output of the step that produces it"
            yield Problem(slug, span or NOWHERE, message, help_)
