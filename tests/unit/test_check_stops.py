"""Where a check stops looking: nobody reads more findings, or has looked at the same thing before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import worldsize
from worldsize.base import limits
from worldsize.checking import settings
from worldsize.scripts import program as _program
from wstrain_deepspeed.config import schema

JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
environment: azureml:my-training:4
compute: azureml:gpu-cluster
distribution: {type: pytorch, process_count_per_instance: 2}
resources: {instance_type: Standard_NC96ads_A100_v4, instance_count: 2}
"""


def count(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[object]:
    """The first arguments with which a function is called from now on."""
    seen: list[object] = []
    real: Callable[..., object] = getattr(owner, name)

    def counted(*arguments: object) -> object:
        seen.append(arguments[0])
        return real(*arguments)

    monkeypatch.setattr(owner, name, counted)
    return seen


@pytest.fixture(autouse=True)
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yml"
    path.write_text(f"{JOB}command: echo\n", encoding="utf-8")
    return path


def test_a_settings_file_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("worldsize.yml").write_text("ignore: [WS9x1, WS9x2]\n", encoding="utf-8")
    judged = count(monkeypatch, settings, "describe_unknown_rule")
    report = worldsize.check(".")
    assert sum(each.slug == "settings-unknown-rule" for each in report.diagnostics) == 2
    assert judged == ["WS9x1", "WS9x2"]


@pytest.mark.parametrize(
    "text",
    [
        "ignore:\n{}".format("".join(f"  - WS9x{each}\n" for each in range(1_500))),
        "severity:\n{}".format("".join(f"  WS9x{each}: error\n" for each in range(1_500))),
        "allow:\n{}".format("".join(f"  - ./f{each}\n" for each in range(1_500))),
        "compute:\n{}".format("".join(f"  c{each}: 1\n" for each in range(1_500))),
        "".join(f"ignored{each}: []\n" for each in range(1_500)),
    ],
    ids=["ignore", "severity", "allow", "compute", "keys"],
)
def test_settings_are_read_up_to_as_many_faults_as_anybody_reads(text: str) -> None:
    Path("worldsize.yml").write_text(text, encoding="utf-8")
    (rest,) = [each for each in worldsize.check(".").diagnostics if each.slug == "findings-left-out"]
    assert f"{limits.FOUND - limits.SAME}" in rest.message


@pytest.mark.parametrize(
    "text",
    [
        "tags:\n{}".format("".join(f"  t{each}: 1_000\n" for each in range(1_500))),
        "command: echo # worldsize: ignore[{}]\n".format(", ".join(f"WS2x{each}" for each in range(1_500))),
    ],
    ids=["structure", "suppressions"],
)
def test_a_file_is_looked_at_up_to_as_many_faults_as_anybody_reads(job: Path, text: str) -> None:
    job.write_text(JOB + ("" if text.startswith("command") else "command: echo\n") + text, encoding="utf-8")
    (rest,) = [each for each in worldsize.check(".").diagnostics if each.slug == "findings-left-out"]
    assert f"{limits.FOUND - limits.SAME}" in rest.message


def test_unknown_keys_of_a_deepspeed_configuration_are_compared_up_to_as_many_as_anybody_reads(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = "".join(f'"k{each}": 1, ' for each in range(2_000))
    job.write_text(
        f"{JOB}code: ./src\ncommand: deepspeed train.py --deepspeed_config ds.json\n", encoding="utf-8"
    )
    Path("src").mkdir()
    Path("src/train.py").write_text("import deepspeed\n", encoding="utf-8")
    Path("src/ds.json").write_text(f'{{{many} "zero_optimization": {{"stage": 7}}}}', encoding="utf-8")
    compared = count(monkeypatch, schema, "closest_word")
    found = [each for each in worldsize.check(".").diagnostics if "ZeRO" in each.message]
    assert found  # what stands behind them is judged
    assert 100 < len(compared) < 1_000


def test_a_script_that_is_started_in_many_ways_is_looked_at_a_bounded_number_of_times(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("src").mkdir()
    Path("src/train.py").write_text("import torch\ntorch.save(m, 'a')\n" + "#" * 10_000, encoding="utf-8")
    starts = "; ".join(f"python train.py --a {each}" for each in range(50))
    job.write_text(f"{JOB}code: ./src\ncommand: {starts}\n", encoding="utf-8")
    monkeypatch.setattr(_program, "_REPEATED", 60_000)
    made = count(monkeypatch, _program, "_program")
    found = [each for each in worldsize.check(".").diagnostics if each.code == "WS904"]
    assert len(found) == 1
    assert len(made) < 20
