"""What a hostile file costs: bounded time, bounded memory and a bounded report, whatever it repeats."""

from __future__ import annotations

import resource
import runpy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import worldsize
from worldsize.base import limits
from worldsize.rules import registry

FUZZ: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "fuzz" / "hostile.py"))
SMALL = 500  # bytes
SHAPES = {name: make for name, make in FUZZ["SHAPES"].items() if make(SMALL) != make(4 * SMALL)}
PATIENCE = 20.0  # seconds on a busy machine; what is guarded against takes minutes or for ever
SPEC = """\
name: digits
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC64as_T4_v3}
steps:
  train:
    command: python -c "print('hello')"
    environment: azureml:my-training:4
    compute: gpu
"""
JOB = """\
type: command
command: %s
environment: azureml:my-training:4
compute: azureml:gpu-cluster
"""

HOSTILE = {
    "aliases of aliases": "\n".join(
        ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    ),
    "merges of merges": "\n".join(
        ["a0: &a0 {k: 1}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 60))]
    ),
    "a merge into itself": "a: &a {<<: *a}",
    "the same key": SPEC + "name: digits\n" * 10_000,
    "unknown keys": SPEC + "".join(f"key{number}: 1\n" for number in range(10_000)),
    "wrong steps": SPEC + "".join(f"  s{number}: {{command: 1}}\n" for number in range(10_000)),
    "comments": SPEC + "# worldsize: ignore[WS001]\n" * 10_000,
    "deep lists": "steps: " + "[" * 10_000,
    "deep mappings": "{a: " * 10_000,
    "deep blocks": "\n".join(" " * depth + "a:" for depth in range(2_000)),
    "an endless number": SPEC + f"description: 1e{'9' * 100_000}\nseed: {'9' * 100_000}\n",
    "an endless time": SPEC + f"seed: {'1:' * 50_000}1\n",
    "open expressions": JOB % ("'" + "${{inputs.a " * 50_000 + "'"),
    "open sections": JOB % ("'" + "$[[--x ${{inputs.x}}]] " * 10_000 + "'"),
    "installs": JOB % ("'" + "pip install " * 10_000 + "'"),
    "half secrets": JOB % "echo" + "tags: {x: '" + "://a:" * 100_000 + "'}\n",
    "a long name": "? " + "k" * 200_000 + "\n: 1",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_judged_soon_and_in_few_words(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hostile.yml").write_text(content, encoding="utf-8")
    begun = time.monotonic()
    report = worldsize.check("hostile.yml")
    shown = report.render()
    assert time.monotonic() - begun < PATIENCE
    assert report.exit_code in (0, 1)
    assert len(shown) < 400_000
    assert all(len(each.message) <= 200 and len(each.help or "") <= 600 for each in report.diagnostics)


def test_a_thousand_findings_of_one_kind_are_counted_and_few_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yml").write_text(SPEC + "name: others\n" * 1_000, encoding="utf-8")
    report = worldsize.check("spec.yml")
    same = [each for each in report.diagnostics if each.slug == "yaml-duplicate-key"]
    rest = [each for each in report.diagnostics if each.slug == "findings-left-out"]
    assert len(same) == limits.SAME
    assert [each.message for each in rest] == [
        "at least 800 more findings of `WS002` in this file are not listed"
    ]
    assert report.exit_code == 1


def test_a_comment_silences_what_would_have_been_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is cut after the comments were applied, so that none of them looks unused."""
    monkeypatch.chdir(tmp_path)
    lines = "name: others  # worldsize: ignore[WS002] on purpose\n" * 1_000
    Path("spec.yml").write_text(SPEC + lines, encoding="utf-8")
    assert worldsize.check("spec.yml").diagnostics == ()


def test_a_file_with_many_kinds_of_findings_lists_the_gravest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(limits, "SAME", 30)
    monkeypatch.setattr(limits, "LISTED", 40)
    installs = "'" + "pip install a; " * 100 + "'"
    Path("job.yml").write_text(JOB % installs + "compute: azureml:others\n" * 100, encoding="utf-8")
    report = worldsize.check("job.yml")
    rest = [each for each in report.diagnostics if each.slug == "findings-left-out"]
    assert len(report.diagnostics) - len(rest) == 40
    assert len(report.errors) == 30  # all that are listed of their rule; warnings take what is left
    assert any("of several rules in this file are not listed" in each.message for each in rest)


def test_a_check_of_many_files_lists_a_bounded_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(limits, "REPORTED", 25)
    for number in range(10):
        Path(f"job{number}.yml").write_text(JOB % "echo" + "type: command\n" * 10, encoding="utf-8")
    report = worldsize.check(".")
    rest = [each.message for each in report.diagnostics if each.slug == "findings-left-out"]
    assert len(report.diagnostics) == 26
    assert rest == ["75 more findings, among them all of 7 files, are not listed"]
    assert report.exit_code == 1


def test_a_long_text_costs_little_more_memory_than_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One repeated group of a regular expression keeps hundreds of bytes for every character."""
    monkeypatch.chdir(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Path("job.yml").write_text(JOB % ("'" + "a$b" * 300_000 + "'"), encoding="utf-8")
    worldsize.check("job.yml").render()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 100 * 900_000


@pytest.mark.parametrize(
    ("old", "new"), [("batch_size: 32", "batch_size: {}"), ("epochs: 20", "epochs: {}"), ("0.05}", "{}}}")]
)
def test_a_whole_number_beyond_every_float_is_a_finding(
    old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(__file__).parents[2] / "pipelines" / "digits_ddp.yml").read_text(encoding="utf-8")
    assert old in text
    monkeypatch.chdir(tmp_path)
    Path("spec.yml").write_text(text.replace(old, new.format("9" * 400)), encoding="utf-8")
    report = worldsize.check("spec.yml")
    assert report.exit_code == 1
    assert {each.code for each in report.errors} <= {"WS106", "WS613"}


@pytest.fixture(scope="module", autouse=True)
def _all_rules_are_loaded() -> None:
    for rule in registry.rules():
        if rule.on:
            registry.load_checks(rule)


@pytest.mark.parametrize("shape", SHAPES)
def test_work_grows_no_faster_than_the_file(
    shape: str,
    calls: Callable[[Callable[[], object]], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = {}
    for size in (SMALL, 4 * SMALL):
        folder = tmp_path / str(size)
        folder.mkdir()
        FUZZ["write"](SHAPES[shape](size), folder)
        monkeypatch.chdir(folder)
        work[size] = calls(lambda: worldsize.check("."))
    assert work[4 * SMALL] < 5 * work[SMALL]
