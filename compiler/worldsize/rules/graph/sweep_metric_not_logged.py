"""The trial of a sweep logs metrics, and never the one that the sweep compares."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, relate
from worldsize.base.suggest import closest
from worldsize.documents.yaml.nodes import Scalar, find_node
from worldsize.scripts.definitions import define_alone
from worldsize.scripts.module import list_packages
from worldsize.scripts.values import evaluate

if TYPE_CHECKING:
    from worldsize.scripts.module import Module
    from worldsize.scripts.program import Program

# What logs under names of its own: then nothing is known.
_LOGS_ITSELF = re.compile(
    r"autolog|[Cc]allback|(?<!get)Logger\(|SummaryWriter|report_to|mlflow\.(?:models\.)?evaluate|log_batch|subprocess"
    r"|os\.system|runpy|lightning|transformers|ultralytics|fastai"
)
_METHODS = frozenset({"log_metric", "log_metrics", "log", "log_row", "log_list", "log_dict"})


def check_program(context: Tree, program: Program) -> Iterator[Finding]:
    step = program.launch.step
    metric = find_node(step.raw, "objective", "primary_metric") if step.type == "sweep" else None
    if not isinstance(metric, Scalar) or not isinstance(metric.value, str) or "${{" in metric.text:
        return
    itself = any(_LOGS_ITSELF.search(module.text) for module in program.modules)
    if itself or not program.complete or not program.entry.tree.body:
        return
    logged = [_list_logged(module) for module in program.modules]
    names = {name for batch in logged if batch is not None for name in batch}
    texts = {text for module in program.modules for text in _list_texts(module, program)}
    if None in logged or metric.value in texts or not (names or program.packages - sys.stdlib_module_names):
        return
    script = program.path.name
    shown = ", ".join(f"`{name}`" for name in sorted(names)[:4])
    message = f"`{script}` never logs `{metric.value}`" + (
        f": it logs {shown}" if names else ", nor anything else"
    )
    near = closest(metric.value, names)
    help_ = (
        f"did you mean `{near}`?" if near else f'call `mlflow.log_metric("{metric.value}", …)` in the script'
    )
    yield Finding(metric.span, message, help_, relate(program.place, "the trial starts the script here"))


def _list_texts(module: Module, program: Program) -> set[object]:
    """The texts under which something may log: a setting of a package that logs nothing here is not one."""
    roots = {name: name.partition(".")[0] for name, _ in module.calls}
    logging = {root for name, root in roots.items() if name.rpartition(".")[2] in _METHODS}
    quiet = list_packages(module) - logging - program.names_beside
    settings = {
        keyword.value for name, call in module.calls if roots[name] in quiet for keyword in call.keywords
    }
    return {node.value for node in module.kinds.get(ast.Constant, ()) if node not in settings}


def _list_logged(module: Module) -> set[str] | None:
    """The names under which a file logs metrics; None if one of them is not plain text."""
    names: set[str] = set()
    for name, call in module.calls:
        method = name.rpartition(".")[2]
        if method not in _METHODS or name.startswith(("math.", "np.", "numpy.", "torch.")):
            continue
        arguments = [
            *call.args,
            *(keyword.value for keyword in call.keywords if keyword.arg in ("name", "key", "metrics")),
        ]
        first = arguments[0] if arguments else None
        keys = first.keys if isinstance(first, ast.Dict) else [first]
        for key in keys:
            text = evaluate(define_alone(module), module, key)
            if not isinstance(text, str):
                return None
            names.add(text)
    return names
