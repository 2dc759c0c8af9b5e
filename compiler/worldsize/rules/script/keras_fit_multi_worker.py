"""`model.fit` is called under `MultiWorkerMirroredStrategy`, which Keras 3 does not support."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.azureml import environment
from worldsize.azureml.references import folder_of
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.program import Program

_VERSION = re.compile(r"tensorflow(?:-gpu|-cpu)?\s*([-=<>~!]=?)\s*(\d+)\.(\d+)")


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if (
        program.processes < 2
        or program.says("TF_USE_LEGACY_KERAS", "tf_keras")
        or _is_older(context, program)
    ):
        return
    if not any(module.called("MultiWorkerMirroredStrategy") for module in program.modules):
        return
    variables = program.launch.step.environment_variables
    if variables is not None and "TF_USE_LEGACY_KERAS" in str(variables.value):
        return
    for module in program.modules:
        for call in module.called("fit"):
            if not isinstance(call.func, ast.Attribute):
                continue
            message = "`fit` under `MultiWorkerMirroredStrategy` fails from TensorFlow 2.16 (Keras 3) on"
            help_ = 'set `TF_USE_LEGACY_KERAS: "1"` and install `tf_keras`, or stay below TensorFlow 2.16'
            yield Finding(module.span(call), message, help_, related=program.related)
            return


def _is_older(context: Context, program: Program) -> bool:
    """Whether the environment names a TensorFlow before 2.16."""
    component = program.launch.step.component
    field = component.environment if component is not None else None
    if field is None or field.node is None:
        return False
    texts = [str(field.value)]
    for reference in environment.list_references(field, folder_of(field.node)):
        source = context.text(reference.path)
        texts += [source.text] if source is not None else []
    for text in texts:
        for bound, major, minor in _VERSION.findall(text):
            version = (int(major), int(minor))
            if version < (2, 16) or (bound.startswith("<") and version == (2, 16)):
                return True
    return False
