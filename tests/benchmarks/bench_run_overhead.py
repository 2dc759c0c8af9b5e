"""What `worldsize run` adds to each step, beyond the step's own process: a chain and a fan of `true`.

Each pipeline is run twice: the second time every step is reused, and costs what finding it costs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

STEPS = 1000
MAX_SECONDS = 0.050
MOST_SECONDS_REUSED = 0.010
MAX_MEBIBYTES = 100  # of the runner: an interpreter with YAML has 35, a step's record a few kB


def pipeline(*, chain: bool) -> str:
    lines = ["type: pipeline", "compute: azureml:cpu", "jobs:"]
    for number in range(STEPS):
        lines += [
            f"  s{number:04}:",
            "    command: 'true'",
            "    environment: azureml:any@latest",
            "    outputs: {o: {type: uri_folder}}",
        ]
        if chain and number:
            lines.append(f"    inputs: {{i: '${{{{parent.jobs.s{number - 1:04}.outputs.o}}}}'}}")
    return "\n".join(lines) + "\n"


def alone() -> float:
    """Seconds that the step's own process takes: the median of starting it without us."""
    times = []
    for _ in range(50):
        begin = time.perf_counter()
        subprocess.run(["bash", "-c", "true"], check=True)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "side by side"])
def test_a_step_costs_at_most_fifty_milliseconds(chain: bool, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(pipeline(chain=chain))
    own = alone()
    each, peak = run(tmp_path)
    reused, peak_reused = run(tmp_path)
    print(
        f"\n{STEPS} steps of `true`: {each * 1000:.1f} ms a step, {own * 1000:.1f} ms of it the process"
        f" itself, so {(each - own) * 1000:.1f} ms added (want at most {MAX_SECONDS * 1000:.0f});"
        f" {reused * 1000:.1f} ms a step that is reused; peak {peak:.0f} and {peak_reused:.0f} MiB;"
        f" load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    assert each - own <= MAX_SECONDS
    assert reused <= MOST_SECONDS_REUSED
    assert max(peak, peak_reused) <= MAX_MEBIBYTES


def run(folder: Path) -> tuple[float, float]:
    """Run the pipeline: seconds a step, and the runner's peak of memory in MiB."""
    command = [sys.executable, "-m", "worldsize", "run", "pipeline.yml", "--no-track", "-q"]
    with subprocess.Popen(
        [*command, "--environment", "current"], cwd=folder, stdout=subprocess.DEVNULL
    ) as runner:
        _, status, used = os.wait4(runner.pid, 0)
        runner.returncode = os.waitstatus_to_exitcode(status)
    assert runner.returncode == 0
    made = max((folder / ".worldsize" / "runs").iterdir())
    events = [json.loads(line) for line in (made / "events.jsonl").read_text().splitlines()]
    begin, end = (datetime.fromisoformat(events[index]["time"]) for index in (0, -1))
    return (end - begin).total_seconds() / STEPS, used.ru_maxrss / 1024
