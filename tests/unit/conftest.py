"""A planner of one training step for the tests of planning."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import pytest

import worldsize
from worldsize import spec as spec_layer
from worldsize.base.problem import Problem
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.planning.derive import derive
from worldsize.planning.model import Plan, Training
from worldsize.spec.model import Spec

T = TypeVar("T")


class Planner:
    """Specs of one step ``train`` with its own command, loaded and planned."""

    gpu = "Standard_NC96ads_A100_v4"
    reference = "reference: {batch_size: 32, learning_rate: 0.05}"
    sgd = f"{{{reference}, optimizer: sgd}}"

    def load(self, text: str) -> Spec:
        document = yaml.load(Path("spec.yml"), text)
        found, problems = spec_layer.from_document(document)
        assert found is not None, problems
        return found

    def scaled(self, *parts: str) -> str:
        return "{" + ", ".join((self.reference, *parts)) + "}"

    def write(
        self,
        scale: str | None = sgd,
        *,
        size: str | None = gpu,
        distribution: str | None = "{type: pytorch}",
        more: str = "",
        profile: str = "",
    ) -> str:
        parts = [
            "name: test",
            f"compute: {{gpu: {{target: azureml:gpu{f', instance_type: {size}' if size else ''}{profile}}}}}",
            "steps:",
            "  train:",
            "    command: python train.py",
            "    code: .",
            "    environment: azureml:env:1",
            *([f"    distribution: {distribution}"] if distribution else []),
            *([f"    {more}"] if more else []),
            *([f"    scale: {scale}"] if scale else []),
        ]
        return "\n".join(parts) + "\n"

    def planned(self, text: str, **options: Any) -> tuple[Plan, list[Problem]]:
        plan, problems = derive(self.load(text), **options)[:2]
        assert plan is not None, problems
        return plan, problems

    def check(self, folder: Path, text: str) -> list[Diagnostic]:
        """What is reported of a spec, the rules included, except that Azure adds no more of its VM size."""
        (folder / "spec.yml").write_text(text, encoding="utf-8")
        (folder / "train.py").write_text("print()\n", encoding="utf-8")
        found = worldsize.check(folder / "spec.yml", ignore=["WS225", "WS720"])
        return list(found.diagnostics)

    def training(self, plan: Plan) -> Training:
        found = plan.steps["train"].training
        assert found is not None
        return found

    def only(self, problems: list[T]) -> T:
        assert len(problems) == 1, problems
        return problems[0]

    def marked(self, text: str, problem: Problem | Diagnostic) -> str:
        """The text under a problem's caret."""
        line = text.splitlines()[problem.span.line - 1]
        return line[problem.span.column - 1 : problem.span.end_column - 1]


@pytest.fixture(scope="session")
def planner() -> Planner:
    return Planner()
