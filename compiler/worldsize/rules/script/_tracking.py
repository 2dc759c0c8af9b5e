"""A script that chooses the experiment or the tracking server of a run which the job has chosen."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding
from worldsize.facts.library_calls import find_call
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, find_passed, speaks_of_main
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import mentions_rank
from worldsize.scripts.settings import read_value


def check_experiment_set_in_job(context: Tree, program: Program) -> Iterator[Finding]:
    job = program.launch.job
    experiment = job.experiment_name.value if job.experiment_name is not None else None
    if program.called("mlflow.set_tracking_uri"):  # an experiment of that server
        experiment = None
    for module in program.modules:
        for name, call in module.calls:
            row = find_call(name, "sets_experiment", "sets_tracking")
            passed = find_passed(
                call, 0, "experiment_name" if row and row.effect == "sets_experiment" else "uri"
            )
            value = read_value(program, module, passed) if row is not None else None
            if row is None or not isinstance(value, str) or not read_reached(program).runs(module, call):
                continue
            if not all(_is_of_rank(module, above) for above, _ in module.ancestors(call)):
                continue  # perhaps only outside of Azure ML
            if row.effect == "sets_experiment" and isinstance(experiment, str) and value != experiment:
                message = (
                    f"the run of the job is in `{experiment}`, not in `{value}`: `mlflow.start_run()` fails"
                )
                help_ = f"remove the call, and write `experiment_name: {value}` in the job"
                yield Finding(module.span(call), message, help_, related=program.related)
            elif row.effect == "sets_tracking" and "://" not in value:
                message = f"what is logged after this goes to `{value}` on the node, not to the job"
                yield Finding(
                    module.span(call),
                    message,
                    "remove the call: Azure ML sets the server",
                    related=program.related,
                )


def _is_of_rank(module: Module, above: ast.AST) -> bool:
    """Whether a condition only selects processes; anything else that is not a condition is fine."""
    if isinstance(above, ast.If | ast.IfExp):
        return mentions_rank(module, above.test) or above.test in module.once(speaks_of_main)
    return not isinstance(above, ast.Try)
