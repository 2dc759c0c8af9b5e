"""Worldsize: from a declarative spec to a distributed-training pipeline for Azure Machine Learning.

The verbs of the command line, typed::

    import worldsize

    report = worldsize.check(["pipelines"])           # diagnostics with line and column
    plan = worldsize.plan("pipelines/digits_ddp.yml") # every derived number and its arithmetic
    worldsize.compile("pipelines/digits_ddp.yml", "build")
    result = worldsize.run("pipelines/digits_ddp.yml", worldsize.RunOptions(processes=2))
    result = worldsize.resume(result.folder)          # continue a stopped run
    speed = worldsize.estimate("estimate.yml").estimate  # of a workload on a cluster
    advised = worldsize.advise("pipelines/digits_ddp.yml", deadline=3600)  # clusters by time and cost
    job = worldsize.submit("pipelines/digits_ddp.yml").job  # in a workspace in Azure

A project starts with ``worldsize.init("folder", source="table.csv")``, or with a training script for one GPU:
``worldsize.adopt("train.py", output="folder")``.

``worldsize.components`` loads the built-in components for an azure-ai-ml ``@dsl.pipeline``; its job, or
``"file.py:function"``, is planned, checked, compiled and run by the same verbs.
Nothing heavy is imported until the verb that needs it is called.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from worldsize import components
    from worldsize.adopting.apply import adopt
    from worldsize.adopting.starting.project import init
    from worldsize.api import Compiled, estimate
    from worldsize.api.advice import advise
    from worldsize.api.forecast import Estimated
    from worldsize.checking import Report
    from worldsize.documents.errors import OutputError, PipelineError, SpecError
    from worldsize.dsl.run import resume, run
    from worldsize.dsl.verbs import check, compile, plan, submit  # noqa: A004 - the verbs, as users say them
    from worldsize.remote.submit import SubmitOptions
    from worldsize.running.model.errors import ResumeError
    from worldsize.running.model.options import RunOptions
    from worldsize.running.model.results import RunResult

# An installed package has one copy of the components' shared code: beside the components, which upload it.
_SHARED = Path(__file__).parent / "_data" / "components" / "_shared"
if _SHARED.is_dir() and str(_SHARED) not in sys.path:
    sys.path.append(str(_SHARED))

__all__ = [
    "Compiled",
    "Estimated",
    "OutputError",
    "PipelineError",
    "Report",
    "ResumeError",
    "RunOptions",
    "RunResult",
    "SpecError",
    "SubmitOptions",
    "adopt",
    "advise",
    "check",
    "compile",
    "components",
    "estimate",
    "init",
    "plan",
    "resume",
    "run",
    "submit",
]

_NAMES = {  # of each module
    "worldsize.adopting.apply": ("adopt",),
    "worldsize.adopting.starting.project": ("init",),
    "worldsize.api": ("Compiled", "estimate"),
    "worldsize.api.advice": ("advise",),
    "worldsize.api.forecast": ("Estimated",),
    "worldsize.checking": ("Report",),
    "worldsize.documents.errors": ("OutputError", "PipelineError", "SpecError"),
    "worldsize.dsl.run": ("resume", "run"),
    "worldsize.dsl.verbs": ("check", "compile", "plan", "submit"),
    "worldsize.remote.submit": ("SubmitOptions",),
    "worldsize.running.model.errors": ("ResumeError",),
    "worldsize.running.model.options": ("RunOptions",),
    "worldsize.running.model.results": ("RunResult",),
}


def __getattr__(name: str) -> Any:
    """Import the module behind a public name on first use (PEP 562)."""
    if name == "components":
        return importlib.import_module("worldsize.components")
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("worldsize")
    home = next((module for module, names in _NAMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'worldsize' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
