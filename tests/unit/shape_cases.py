"""Reads shape_cases.txt: the table that the fast tests and the agreement with azure-ai-ml share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_PIPELINE = (
    "type: pipeline\nsettings: {default_compute: azureml:cpu}\ninputs: {n: 2}\noutputs: {m: }\njobs:\n  a:\n"
)
_JOB = "type: command\ncommand: echo hi\nenvironment: azureml:env:1\ncompute: azureml:cpu\n"

# What the cases refer to by path.
SIDE_FILES = {
    "component.yml": "name: c\nversion: 1\ntype: command\ncommand: echo hi\nenvironment: azureml:env:1\n"
    "outputs: {a: {type: uri_folder}}\n",
    "pipeline.yml": 'name: p\ntype: pipeline\njobs: {b: {command: echo hi, environment: "azureml:env:1"}}\n',
    "pipeline-job.yml": "type: pipeline\nsettings: {default_compute: azureml:cpu}\n"
    'jobs: {b: {command: echo hi, environment: "azureml:env:1"}}\n',
    "src/train.py": "",
    "src/score.py": "",
    "src/Dockerfile": "FROM scratch\n",
}


@dataclass(frozen=True)
class Case:
    """One file and what is to be said of it; places count within ``body``."""

    name: str
    where: str
    expected: tuple[tuple[str, int, int], ...]  # (slug, line, column)
    warns: bool  # the expectation is no more than a warning
    disagreement: str | None  # why azure-ai-ml's verdict is knowingly another
    body: str

    @property
    def kind(self) -> str:
        """The kind of the whole file."""
        return {"node": "pipeline-job", "job": "command-job"}.get(self.where, self.where)

    @property
    def text(self) -> str:
        """The whole file."""
        if self.where == "node":
            return _PIPELINE + "".join(f"    {line}\n" for line in self.body.splitlines())
        return (_JOB if self.where == "job" else "") + self.body

    def place(self, line: int, column: int) -> tuple[int, int]:
        """A place in the whole file as the table counts it."""
        if self.where == "node":
            lines = _PIPELINE.count("\n")
            return line - lines, column - 4 if line > lines else column
        return (line - _JOB.count("\n"), column) if self.where == "job" else (line, column)


def read() -> list[Case]:
    """All cases, in the order of the file."""
    text = (Path(__file__).parent / "shape_cases.txt").read_text(encoding="utf-8")
    return [_case(part) for part in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]]


def _case(part: str) -> Case:
    head, _, body = part.partition("\n")
    name, where, wanted = (field.strip() for field in head.split("|"))
    reason = None
    if body.startswith("!!! "):
        first, _, body = body.partition("\n")
        reason = first.removeprefix("!!! ")
    expected = []
    for item in [] if wanted == "ok" else wanted.split(","):
        slug, place = item.strip().removeprefix("~").split()
        line, column = place.split(":")
        expected.append((slug, int(line), int(column)))
    return Case(name, where, tuple(expected), "~" in wanted, reason, body.rstrip("\n") + "\n")
