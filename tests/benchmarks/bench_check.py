"""`worldsize check` against azure-ai-ml's own load and validation: a file cold, and a whole tree in one call.

Both sides are cold processes that take turns, measured by the processor time they use: other work on the
machine disturbs that least. azure-ai-ml never says where a fault is and passes over most; this only
measures what an answer costs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import case_pages
import pytest

import worldsize
from worldsize.azureml.shape import recognise
from worldsize.documents import yaml

pytestmark = [pytest.mark.bench, pytest.mark.run, pytest.mark.timeout(1800)]
pytest.importorskip("azure.ai.ml", exc_type=ImportError)

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "pipelines" / "digits_ddp.yml"
CORPUS = os.environ.get("WORLDSIZE_AZUREML_CORPUS")
WANTED_COLD, WANTED_SCRIPTS, WANTED_TREE, MAX_SECONDS = 15.0, 5.0, 30.0, 1.0

PEER = """
import logging, sys, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from azure.ai import ml
from azure.ai.ml.entities._load_functions import load_schedule
loaders = {
    "job": ml.load_job, "component": ml.load_component, "schedule": load_schedule,
    "compute": ml.load_compute,
    "environment": ml.load_environment, "data": ml.load_data, "other": ml.load_job,
}
for line in sys.stdin:
    kind, path = line.rstrip("\\n").split("\\t")
    try:
        entity = loaders[kind.rpartition("-")[2]](path)
        if hasattr(entity, "_validate"):
            entity._validate()
    except (Exception, SystemExit):
        pass
"""


class Cost(NamedTuple):
    """Seconds of one process."""

    cpu: float
    wall: float


def cost(command: list[str], cwd: Path, given: str = "") -> Cost:
    """Run a process to its end and measure it."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    process.stdin.write(given.encode())
    process.stdin.close()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - start)


def compare(ours: list[str], given: str, cwd: Path, *, rounds: tuple[int, int]) -> tuple[Cost, Cost]:
    """The least costs of both sides, which take turns; ours is so short that it runs more often."""
    mine: list[Cost] = []
    theirs: list[Cost] = []
    for _ in range(rounds[1]):
        mine += [cost(ours, cwd) for _ in range(rounds[0])]
        theirs.append(cost([sys.executable, "-c", PEER], cwd, given))
    return Cost(*map(min, zip(*mine, strict=True))), Cost(*map(min, zip(*theirs, strict=True)))


def tell(what: str, ours: Cost, theirs: Cost, wanted: float) -> None:
    """Print one comparison."""
    print(
        f"\n{what}: worldsize {ours.cpu:.3f} s, azure-ai-ml {theirs.cpu:.2f} s of processor time:"
        f" {theirs.cpu / ours.cpu:.1f} times faster (want {wanted:.0f});"
        f" wall clock {ours.wall:.3f} s against {theirs.wall:.2f} s"
    )


def command(*paths: str) -> list[str]:
    """The console script as it was installed."""
    return [str(Path(sys.executable).parent / "worldsize"), "check", *paths]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    for spec in sorted(SPEC.parent.glob("*.yml")):
        worldsize.compile(spec, folder / spec.stem)
    return folder


def test_one_file_cold(compiled: Path) -> None:
    job = compiled / SPEC.stem / "pipeline.yml"
    ours, theirs = compare(command(str(SPEC)), f"pipeline-job\t{job}\n", ROOT, rounds=(10, 5))
    tell("one file, cold process", ours, theirs, WANTED_COLD)
    assert theirs.cpu >= WANTED_COLD * ours.cpu


def test_one_native_file_and_its_scripts_cold(compiled: Path) -> None:
    job = compiled / SPEC.stem / "pipeline.yml"
    ours, theirs = compare(command(str(job)), f"pipeline-job\t{job}\n", ROOT, rounds=(10, 3))
    tell(
        "the compiled file with its training scripts, which only worldsize reads",
        ours,
        theirs,
        WANTED_SCRIPTS,
    )
    assert theirs.cpu >= WANTED_SCRIPTS * ours.cpu


def test_a_whole_tree_in_one_call(compiled: Path, written: Callable[[Path], Path]) -> None:
    pages = case_pages.read_all(ROOT / "tests" / "rules", "WS*.md")
    cases = {written(page.path).parent for page in pages}
    folders = [Path(CORPUS)] if CORPUS else [*cases, compiled]
    lines = [line for folder in folders for path in listed(folder) if (line := known(path)) is not None]
    ours, theirs = compare(command(*map(str, folders)), "".join(lines), folders[0], rounds=(3, 2))
    tell(f"{len(lines)} files in one call", ours, theirs, WANTED_TREE)
    if CORPUS:  # our own test files are nearly all faults, with scripts that only worldsize reads
        assert theirs.cpu >= WANTED_TREE * ours.cpu
        assert ours.cpu < MAX_SECONDS


def listed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in (".yml", ".yaml") and path.is_file())


def known(path: Path) -> str | None:
    """A line for the peer: what the file is, and where. Files of other tools are not for it to load."""
    kind = recognise(yaml.load(path).root, str(path))
    return None if kind is None else f"{kind}\t{path}\n"


@pytest.mark.parametrize("what", ["steps", "command", "unknown keys"])
def test_time_is_linear_in_the_size(what: str, tmp_path: Path) -> None:
    times = []
    for number, size in enumerate((2_500, 10_000)):
        path = tmp_path / f"{number}.yml"
        path.write_text(written(what, size))
        worldsize.check(path)
        best = min(seconds(path) for _ in range(3))
        times.append(best)
    growth = times[1] / times[0]
    print(f"\n{what}: {times[0]:.2f} s, four times as large {times[1]:.2f} s, so {growth:.1f} times as long")
    assert growth < 6


def seconds(path: Path) -> float:
    start = time.process_time()
    worldsize.check(path)
    return time.process_time() - start


def written(what: str, size: int) -> str:
    if what == "command":
        part = "echo ${{inputs.text}} 'some words' && "
        return (
            "type: command\nenvironment: azureml:e:1\ncompute: azureml:c\ninputs: {text: hello}\n"
            f"command: >-\n  {part * (size * 100 // len(part))} true\n"
        )
    lines = ["type: pipeline", "settings: {default_compute: azureml:cpu}", "jobs:"]
    for number in range(size):
        lines += [
            f"  s{number}:",
            "    type: command",
            f"    command: echo {number} ${{{{inputs.before}}}}" if number else "    command: echo",
            "    environment: azureml:e:1",
            "    outputs: {o: {type: uri_folder}}",
        ]
        if number:
            lines.append(f"    inputs: {{before: '${{{{parent.jobs.s{number - 1}.outputs.o}}}}'}}")
        if what == "unknown keys":
            lines.append("    enviroment_varables: {A: b}")
    return "\n".join(lines) + "\n"
