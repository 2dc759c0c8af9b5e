"""What a failure says of packages whose installed versions the step's environment excludes."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from worldsize.azureml import job as jobs
from worldsize.azureml.files import Files
from worldsize.running.engine.failures import MAX_SHOWN, explain_pins, find_broken_pins
from worldsize.running.model.assets import AssetMap
from worldsize.running.model.task import Task
from worldsize.running.prepare.graph.flatten import flatten

pytest.importorskip("packaging", reason="pip install 'worldsize[run]'")

HERE = metadata.version("click")
TRACEBACK = ["Traceback (most recent call last):", "AttributeError: module 'click' has no attribute 'x'"]


def task(folder: Path, environment: str) -> Task:
    (folder / "job.yml").write_text(f"type: command\ncommand: python x.py\nenvironment: {environment}\n")
    job, problems = jobs.read_job(folder / "job.yml", Files())
    assert job is not None
    assert not problems
    graph, problems = flatten(job, AssetMap())
    assert not problems
    (found,) = graph.tasks.values()
    return found


def conda(*dependencies: str) -> str:
    return f"{{image: 'python:3.11', conda_file: {{dependencies: [{', '.join(dependencies)}]}}}}"


def test_the_pin_and_the_version_here_are_named_in_one_sentence(tmp_path: Path) -> None:
    environment = conda("pip: ['click<1', 'pytest>=1', 'msgspec==0.0.1']")
    assert explain_pins(task(tmp_path, environment), TRACEBACK, AssetMap()) == (
        f"its environment pins `click<1` (this Python has click {HERE}):"
        " `--environment isolated` installs what it pins"
    )


def test_without_a_mention_all_broken_pins_are_named_up_to_a_few(tmp_path: Path) -> None:
    names = ("click", "msgspec", "pytest", "packaging")
    found = explain_pins(
        task(tmp_path, conda("pip: [" + ", ".join(f"{n}<0.1" for n in names) + "]")), ["x"], AssetMap()
    )
    assert found is not None
    assert [name in found for name in names] == [True] * MAX_SHOWN + [False]
    assert "and 1 more" in found


def test_a_program_that_says_why_it_stops_needs_no_guess(tmp_path: Path) -> None:
    refusal = ["error: nothing is registered: accuracy is 0.75", "help: train longer or lower the gate"]
    broken = task(tmp_path, conda("pip: ['click<1']"))
    assert explain_pins(broken, refusal, AssetMap()) is None
    assert explain_pins(broken, [*refusal, "Traceback (most recent call last):"], AssetMap()) is not None
    assert explain_pins(broken, ["error: click has no group"], AssetMap()) is not None


@pytest.mark.parametrize(
    "environment",
    [
        conda("pip: ['click>1', 'gone-from-here==1', './local', '-f x']"),
        conda("pip: [\"click<1; python_version < '3'\", 'click @ https://example.org/click.whl']"),
        "azureml:unknown:1",
        "./gone.yml",
        conda("pip: [-r gone.txt]"),
    ],
)
def test_what_is_not_broken_is_not_named(environment: str, tmp_path: Path) -> None:
    assert explain_pins(task(tmp_path, environment), TRACEBACK, AssetMap()) is None


def test_packages_are_known_by_what_they_are_imported_as() -> None:
    pytest.importorskip("sklearn")
    (pin,) = find_broken_pins(["scikit-learn==0.24.2"])
    assert "sklearn" in pin.modules
    assert pin.pin == "scikit-learn==0.24.2"
