"""What `worldsize run` adds to each step, beyond the step's own process: a chain and a fan of `true`."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

STEPS = 200
MOST_SECONDS = 0.050


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
    command = [sys.executable, "-m", "worldsize", "run", "pipeline.yml", "--no-track", "-q"]
    own = alone()
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    (made,) = (tmp_path / ".worldsize" / "runs").iterdir()
    events = [json.loads(line) for line in (made / "events.jsonl").read_text().splitlines()]
    begin, end = (datetime.fromisoformat(events[index]["time"]) for index in (0, -1))
    each = (end - begin).total_seconds() / STEPS
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"\n{STEPS} steps of `true`: {each * 1000:.1f} ms a step, {own * 1000:.1f} ms of it the process"
        f" itself, so {(each - own) * 1000:.1f} ms added (want at most {MOST_SECONDS * 1000:.0f});"
        f" peak {peak:.0f} MiB; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    assert each - own <= MOST_SECONDS
