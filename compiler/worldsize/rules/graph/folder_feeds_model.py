"""An output declared as a plain folder feeds an input that wants a model.

Azure ML passes the folder on and does not look for an ``MLmodel`` file in it.

Why: Where the folder is no model, the step fails after the training was paid for; and Studio shows no model.

Bad::

    model: {type: uri_folder}

Good::

    model: {type: mlflow_model}

Fix: Declare the output as ``mlflow_model``.

Source: Microsoft Learn, CLI (v2) pipeline job YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem, Related
from worldsize.rules.context import Context
from worldsize.rules.graph._common import declares, source_type, wires
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS633", "folder-feeds-model", "warning", since="0.1.0", summary="a plain folder that feeds a model input"
)


_MODELS = frozenset({"mlflow_model", "triton_model"})


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for wire in wires(job):
        target = wire.port
        if target is None or target.type not in _MODELS or declares(wire.step) is None:
            continue
        source = job.steps.get(wire.expression.step or "")
        name = wire.expression.port or ""
        if source is None or source.component is None or wire.expression.side != "outputs":
            continue
        port = source.component.outputs.get(name)
        setting = source.outputs.get(name)
        if port is None or source_type(job, wire.expression) != "uri_folder":
            continue
        if declares(source) is None and (setting is None or setting.value.type is None):
            continue  # bound to an output of the pipeline, which may have the right type
        message = f"`{source.name}.{name}` is declared uri_folder, and `{wire.name}` wants {target.type}"
        related = (Related(port.span, "the output is declared here"),) if port.span else ()
        help_ = f"declare the output `{name}` as `{target.type}`"
        yield RULE.problem(wire.part(4), message, help_, related=related)
