"""What a spec is planned as: the value that the checker judges and that compile, run and show receive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from worldsize.azureml.files import Files
from worldsize.azureml.job import Compute
from worldsize.azureml.model import Data, Job, Step
from worldsize.azureml.references import local_path
from worldsize.azureml.snapshot import Snapshot
from worldsize.base import untrusted
from worldsize.base.problem import Problem
from worldsize.facts.vm_sizes import NOT_LEARNED, Learned
from worldsize.planning.memory.workload import Samples, literal_inputs
from worldsize.planning.model import Plan, StepPlan
from worldsize.spec.model import Spec

_LARGEST_CONFIG = 2**20  # bytes of a `config.json`; real ones have some thousand


class Planned(Struct, frozen=True, eq=False):
    """A spec with its plan and job graph. Each is one of a kind: two are equal if they are the same.

    A spec with problems is planned as far as it goes: the graph is then good for further checks, and not for
    emitting.
    """

    spec: Spec
    job: Job
    plan: Plan | None  # None where planning failed
    files: Files  # what was read on the way, and what may be copied
    computes: Mapping[str, Compute] = field(default_factory=dict)  # the cluster of each profile
    added: Mapping[str, Snapshot] = field(default_factory=dict)  # user files beside built-in code, by step
    templates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # ${{plan.…}}: step -> input
    samples: Mapping[str, Samples] = field(default_factory=dict)  # of small local tables, by sharding step
    problems: tuple[Problem, ...] = ()
    consequences: tuple[Problem, ...] = ()  # of a count that a rule reports: said only if that is silenced
    vm_sizes: Learned = NOT_LEARNED  # those that the project describes

    @property
    def complete_plan(self) -> Plan:
        """The plan of a spec without errors."""
        assert self.plan is not None
        return self.plan

    @property
    def step_plans(self) -> Mapping[str, StepPlan]:
        """The plans of the steps; none where planning failed."""
        return self.plan.steps if self.plan is not None else {}

    def read_table(self, sharding: Step) -> Samples | None:
        """The samples of the small local table that a sharding step is given."""
        return self.samples.get(sharding.name)

    def read_config(self, step: Step) -> Mapping[str, Any] | None:
        """The ``config.json`` of the Hugging Face model of a step; None where it is not on this machine.

        It is in the folder of ``model: hf:FOLDER``, or in the one that ``initial_model`` is.
        """
        name = str(literal_inputs(step, ("model",))["model"] or "").removeprefix("hf:")
        folder = local_path(name, self.spec.path.parent) if name else self.find_data(step, "initial_model")
        return self.read_json(folder / "config.json", _LARGEST_CONFIG) if folder is not None else None

    def find_data(self, step: Step, name: str) -> Path | None:
        """Where the data that a step gives to an input lies on this machine."""
        argument = step.inputs.get(name)
        data = argument.value if argument is not None else None
        path = data.path.value if isinstance(data, Data) and data.path is not None else None
        if not isinstance(path, str):
            return None
        return local_path(path, self.spec.path.parent) or self.files.mapped_data(path)

    def read_json(self, file: Path, limit: int) -> Mapping[str, Any] | None:
        """The content of a file of data; None where it cannot be read, or is not a mapping."""
        if not file.is_file() or not self.files.readable_data(file):
            return None
        try:
            content = json.loads(untrusted.read_bytes(file, limit))
        except (OSError, ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) else None
