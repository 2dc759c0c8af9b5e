"""What a link costs: DDP between two nodes, over a shaped link and over one without limit.

A ring all-reduce of S bytes among n ranks sends 2(n − 1)/n · S bytes from each (Patarasuk and Yuan, 2009), so
two nodes of one rank send S each way. Ethernet, IP and TCP add 66 bytes to the 1448 that a frame of 1514
carries. What a step takes longer over the shaped link should be that time at its rate.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from worldsize.lab.namespaces import parse_link, probe_namespaces

_ABLE = probe_namespaces()
_LACK = _ABLE.nodes[0] if _ABLE.nodes else _ABLE.rate
pytestmark = [
    pytest.mark.bench,
    pytest.mark.timeout(900),
    pytest.mark.skipif(_LACK is not None, reason=_LACK or ""),
]

WIDTH, LAYERS, STEPS = 1024, 12, 8
RANKS = 2
PAYLOAD = 1448 / 1514  # of a frame
TRAIN = """
    import json, os, sys, time
    from pathlib import Path
    import torch
    import torch.distributed as dist

    width, layers, steps = (int(word) for word in sys.argv[1:4])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    stack = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(layers)))
    model = torch.nn.parallel.DistributedDataParallel(stack)
    batch = torch.randn(8, width)

    def step():
        model.zero_grad()
        dist.barrier()
        begin = time.perf_counter()
        model(batch).square().mean().backward()
        return time.perf_counter() - begin

    step()  # DDP makes its buckets anew after the first
    seconds = [step() for _ in range(steps)]
    size = sum(each.numel() * each.element_size() for each in stack.parameters())
    if dist.get_rank() == 0:
        Path(os.environ["AZURE_ML_OUTPUT_out"], "times.json").write_text(json.dumps([size, seconds]))
    dist.destroy_process_group()
"""
JOB = f"""
    type: command
    compute: azureml:cpu
    environment: azureml:any@latest
    code: ./src
    command: {sys.executable} train.py {WIDTH} {LAYERS} {STEPS}
    outputs: {{out: {{type: uri_folder}}}}
    resources: {{instance_count: {RANKS}}}
    distribution: {{type: pytorch, process_count_per_instance: 1}}
"""


def measured(folder: Path, link: str) -> tuple[int, float]:
    """Bytes of the gradients, and the seconds of a step's forward and backward, the least of several."""
    command = [sys.executable, "-m", "worldsize", "run", "job.yml", "--no-track", "--force", "-q"]
    done = subprocess.run(
        [*command, "--nodes", "namespaces", "--link", link, "--runs-dir", link],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = (folder / link / "runs").glob("*/steps/command/outputs/out/times.json")
    size, seconds = json.loads(found.read_text(encoding="utf-8"))
    return int(size), min(seconds)


def test_a_link_costs_what_a_ring_all_reduce_sends(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(textwrap.dedent(TRAIN))
    (tmp_path / "job.yml").write_text(textwrap.dedent(JOB))
    size, free = measured(tmp_path, "none")
    sent = 2 * (RANKS - 1) / RANKS * size
    print(
        f"\nDDP, {size / 4e6:.1f} M parameters on {RANKS} nodes of one rank: a ring all-reduce sends"
        f" {sent / 1e6:.1f} MB from each; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        f"\n  no limit: {free * 1000:.0f} ms a step"
    )
    for link in ("1gbit", "250mbit"):
        _, shaped = measured(tmp_path, link)
        rate = parse_link(link).bits_per_s
        assert rate is not None
        foreseen = sent * 8 / rate / PAYLOAD
        print(
            f"  {link}: {shaped * 1000:.0f} ms a step, at least {foreseen * 1000:.0f} of them on the link;"
            f" {(shaped - free) * 1000:.0f} ms more than without limit"
        )
        assert shaped > free
        # Nothing is faster than its link; computing and copying overlap with sending or add to it.
        assert 0.9 * foreseen <= shaped <= foreseen + 1.5 * free
