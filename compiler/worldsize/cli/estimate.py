"""`worldsize estimate`: the speed and the cost of a workload on a cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worldsize.cli import common

if TYPE_CHECKING:
    from worldsize.api import Estimated
    from worldsize.planning.estimates.model import Interval

EPILOG = """\b
Examples:
  worldsize estimate FILE           a table
  worldsize estimate FILE --json    the same for programs

\b
FILE has three parts, as schemas/estimate.schema.json describes them:
  workload: {kind: transformer, parameters: 6.65e9, layers: 32, width: 4096, heads: 32,
             vocabulary: 50368, sequence_length: 2048}
  training: {micro_batch: 8, precision: bf16, strategy: fsdp, activation_checkpointing: true}
  cluster:  {instance_type: Standard_ND96isr_H100_v5, instance_count: 4}

\b
Exit status: 0 estimated, 1 faults in the file, 2 usage, 3 an internal error of worldsize.
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(file: Path, as_json: bool) -> None:
    """Estimate how fast a workload trains on a cluster, and what an hour of it costs."""
    from worldsize import api
    from worldsize.errors import SpecError

    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        estimated = api.estimate_file(file)
    except SpecError as error:
        common.refuse_spec(error)
    if as_json:
        common.say(json.dumps(api.estimate_document(estimated), indent=2, ensure_ascii=False))
    else:
        common.say("\n".join(_render(estimated)))


def _render(estimated: Estimated) -> list[str]:
    cluster, found = estimated.case.cluster, estimated.estimate
    what = cluster.instance_type or f"{cluster.gpus_per_instance} × {cluster.gpu.name}"
    lines = [f"{cluster.instance_count} × {what}, {cluster.world_size} GPUs"]
    if found is None:
        return [*lines, f"  unknown: {estimated.unknown}"]
    rows = [
        ("samples per second", _interval(found.samples_per_second)),
        ("seconds per step", _interval(found.step_seconds)),
    ]
    if found.tokens_per_second_per_gpu is not None:
        rows.append(("tokens per second per GPU", _interval(found.tokens_per_second_per_gpu)))
    if found.model_flops_utilisation is not None:
        rows.append(("model FLOPs utilisation", f"{found.model_flops_utilisation:.1%}".replace("%", " %")))
    if found.scaling_efficiency is not None:
        rows.append(("scaling efficiency", f"{found.scaling_efficiency:.1%}".replace("%", " %")))
    rows.append(("bound by", found.bound))
    parts = found.parts
    shares = (
        (name.replace("_", " "), getattr(parts, name) / parts.seconds) for name in parts.__struct_fields__
    )
    rows.append(
        ("a step's time", ", ".join(f"{name} {share:.0%}" for name, share in shares if share >= 0.005))
    )
    rows.append(("rests on", found.basis))
    width = max(len(name) for name, _ in rows)
    return [*lines, *(f"  {name:<{width}}  {text}" for name, text in rows)]


def _interval(interval: Interval) -> str:
    """``1,234 (1,100 to 1,380)``."""
    return f"{_number(interval.expected)} ({_number(interval.low)} to {_number(interval.high)})"


def _number(value: float) -> str:
    """Three digits that count, thousands with commas."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"
