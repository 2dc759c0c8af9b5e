"""Estimates of 2 to 8 ranks on this machine's cores, over shaped links, beside the steps of the trainers.

Each strategy is calibrated once, by one process on one core and by two ranks over the middle link, and then
predicts the other counts and links. Ranks beyond the cores share them; a busy machine disturbs what it
measures, so the load is printed. The steps are those of `train_ddp` and `train_horovod`.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from worldsize.lab.namespaces import parse_link, probe_namespaces
from worldsize.planning.estimates import processes
from worldsize.planning.estimates.calibrate import calibrate
from worldsize.planning.estimates.calibration import Measurement
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.estimates.model import Case, Strategy, Training
from worldsize.running.record.details import read_speeds
from worldsize.running.record.history import load_run
from worldsize.spec.workload import Transformer

_ABLE = probe_namespaces()
_LACK = _ABLE.nodes[0] if _ABLE.nodes else _ABLE.rate
pytestmark = [
    pytest.mark.bench,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(_LACK is not None, reason=_LACK or ""),
]

LINKS = ("20mbit", "40mbit", "80mbit")
RANKS = (2, 4, 8)
CALIBRATED_LINK, CALIBRATED_RANKS = "40mbit", 2
STEPS, BATCH, ROWS = 16, 2, 960
STEPS_ALONE = 200  # of one process, which takes milliseconds: speeds are reported four times a second
LAYERS, WIDTH, LENGTH, VOCABULARY = 2, 128, 128, 256
WITHIN = 0.15
PARAMETERS = LAYERS * (12 * WIDTH**2 + 13 * WIDTH) + (2 * VOCABULARY + LENGTH + 2) * WIDTH
GPT = Transformer(PARAMETERS, LAYERS, WIDTH, 4, VOCABULARY, LENGTH, tied_embeddings=False)
SPEC = """
name: here
compute:
  cpu: {{target: "azureml:cpu-cluster", instance_type: Standard_D16s_v5, max_instances: 8}}
steps:
  shard:
    uses: shard_data
    compute: cpu
    with: {{data: ./text, format: text, sequence_length: {length}}}
  train:
    uses: {component}
    compute: cpu
    instance_count: {ranks}
    process_count_per_instance: 1
    with:
      model: gpt
      gpt_layers: {layers}
      gpt_width: {width}
      optimizer: adamw
      batch_size_per_device: {batch}
      epochs: {epochs:.4f}
      {strategy}
"""


def make_text(folder: Path) -> None:
    """Text of somewhat more than ``ROWS`` sequences for training, and a fifth for validation."""
    words = random.Random(0)
    folder.mkdir()
    lines = (
        " ".join(words.choices(("ranks", "share", "links", "and", "a", "core"), k=12)) for _ in range(3000)
    )
    (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")


def make_case(strategy: Strategy, ranks: int, cores: int, link: str) -> Case:
    """The question that a run answers."""
    rate = parse_link(link).bits_per_s
    cluster = processes.make_cluster(ranks, cores, None if rate is None or ranks == 1 else rate / 8)
    return Case(GPT, Training(BATCH, strategy=strategy, zero_stage=3 if strategy == "fsdp" else 0), cluster)


def measure(folder: Path, case: Case, link: str, cores: int) -> Measurement:
    """Train, and take the median of the steps; a run on fewer cores is bound to them."""
    strategy, ranks = case.training.strategy, case.cluster.world_size
    spec = folder / f"{strategy}-{ranks}-{link}.yml"
    spec.write_text(
        SPEC.format(
            component="train_horovod" if strategy == "horovod" else "train_ddp",
            strategy="" if strategy == "horovod" else f"strategy: {strategy}",
            epochs=(STEPS if ranks > 1 else STEPS_ALONE) * BATCH * ranks / ROWS,
            length=LENGTH,
            layers=LAYERS,
            width=WIDTH,
            batch=BATCH,
            ranks=ranks,
        )
    )
    command = [sys.executable, "-m", "worldsize", "run", spec.name, "--no-track", "-q", "--force"]
    command += ["--processes", str(ranks), "--runs-dir", spec.stem]
    if ranks > 1:
        command += ["--nodes", "namespaces", "--link", link]
    some = sorted(os.sched_getaffinity(0))[:cores]
    done = subprocess.run(
        ["taskset", "--cpu-list", ",".join(map(str, some)), *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (root,) = (folder / spec.stem / "runs").iterdir()
    speed = read_speeds(load_run(root))["train"]
    return Measurement(case, case.global_batch / speed.samples_per_second, speed.deviation)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "horovod"])
def test_one_calibration_predicts_other_counts_and_links(tmp_path: Path, strategy: Strategy) -> None:
    pytest.importorskip("torch")
    if strategy == "horovod":
        pytest.importorskip("horovod")
    make_text(tmp_path / "text")
    cores = min(2, len(os.sched_getaffinity(0)))
    alone = measure(tmp_path, make_case(strategy, 1, 1, "none"), "none", 1)
    pair = make_case(strategy, CALIBRATED_RANKS, cores, CALIBRATED_LINK)
    runs = [alone, measure(tmp_path, pair, CALIBRATED_LINK, cores)]
    calibration = calibrate(runs)
    print(
        f"\n{strategy}, {PARAMETERS / 1e6:.2f} M parameters, {cores} cores, load {os.getloadavg()[0]:.1f}:"
        f" one process {alone.step_seconds * 1000:.0f} ms, {CALIBRATED_RANKS} ranks over {CALIBRATED_LINK}"
        f" {runs[1].step_seconds * 1000:.0f} ms a step; factors {calibration.compute:.2f} on computation,"
        f" {calibration.network:.2f} on exchanges"
    )
    errors = []
    for ranks in RANKS:
        for link in LINKS:
            if (ranks, link) == (CALIBRATED_RANKS, CALIBRATED_LINK):
                continue
            case = make_case(strategy, ranks, cores, link)
            predicted = estimate(case.workload, case.training, case.cluster, calibration)
            assert predicted is not None
            measured = measure(tmp_path, case, link, cores)
            error = predicted.step_seconds.expected / measured.step_seconds - 1
            errors.append(abs(error))
            inside = predicted.step_seconds.low <= measured.step_seconds <= predicted.step_seconds.high
            print(
                f"  {ranks} ranks, {link}: predicted {predicted.step_seconds.expected * 1000:.0f} ms"
                f" ({predicted.step_seconds.low * 1000:.0f} to {predicted.step_seconds.high * 1000:.0f}),"
                f" measured {measured.step_seconds * 1000:.0f} ± {measured.deviation:.0%}: {error:+.1%}"
                f"{'' if inside else ', outside'}; load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    near = sum(error <= WITHIN for error in errors)
    print(f"  mean error {statistics.mean(errors):.1%}; within {WITHIN:.0%}: {near} of {len(errors)}")
    assert near == len(errors)
