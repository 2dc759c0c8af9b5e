"""One run of MLflow for all processes; that of the job, where the script runs in one."""

from __future__ import annotations

import ast

from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script

_OUTPUT = "the first process logs for all"
_JOB = "a job has a run already, in an experiment of its own"
_ALONE = '"MLFLOW_RUN_ID" not in os.environ'


def start_run_once(script: Script, header: Header) -> None:
    """Start a run of MLflow on the first process only: there would be one for each."""
    test = header.names.is_first
    for call in script.module.called("mlflow.start_run"):
        above = script.module.parents.get(call)
        target = above.targets[0] if isinstance(above, ast.Assign) else getattr(above, "optional_vars", None)
        if not isinstance(above, ast.withitem | ast.Assign):
            continue
        if target is not None and _reads_part(script, script.written(target)):
            help_ = f"start it only where `{test}`, and let the others do without it"
            script.leave(call, "every process starts a run of MLflow here", help_)
            continue
        other = "None"
        if isinstance(above, ast.withitem):
            header.imports["import contextlib"] = None
            other = "contextlib.nullcontext()"
        script.insert_behind(call, f" if {test} else {other}", "WS904", _OUTPUT)


def _reads_part(script: Script, name: str) -> bool:
    """Whether a part of what has a name is kept, or given to what every process calls."""
    return any(
        script.written(node.value) == name and not isinstance(script.statement(node), ast.Expr)
        for node in script.module.kinds.get(ast.Attribute, ())
    )


def keep_run_of_job(script: Script, header: Header) -> None:
    """Leave the experiment and the server that a job has: its run is not found in others."""
    for call in script.module.called("mlflow.set_experiment", "mlflow.set_tracking_uri"):
        statement = script.module.parents.get(call)
        if isinstance(statement, ast.Expr) and script.has_own_line(statement):
            header.imports["import os"] = None
            makes = script.module.name_of(call.func).endswith("set_experiment")
            test = f"{header.names.is_first} and {_ALONE}" if makes else _ALONE
            script.enclose([statement], f"if {test}:", "WS904" if makes else None, _JOB)
