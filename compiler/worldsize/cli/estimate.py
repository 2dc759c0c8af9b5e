"""`worldsize estimate`: the speed and the cost of a workload on a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worldsize import api
from worldsize.api.forecast import describe_estimated
from worldsize.cli import common, estimate_view, pictures, spec_options
from worldsize.cli.workspace_options import WorkspaceChoice

if TYPE_CHECKING:
    from worldsize.api.forecast import Estimated

EPILOG = """\b
Examples:
  worldsize estimate FILE           a table
  worldsize estimate FILE --json    the same for programs
  worldsize estimate FILE --from JOB --azure    calibrated by a job that trained this workload
  worldsize estimate FILE --plot scaling.svg
                                    a picture: speed over instances, time of a step

\b
FILE has three parts, as schemas/estimate.schema.json describes them:
  workload: {kind: transformer, parameters: 6.65e9, layers: 32, width: 4096, heads: 32,
             vocabulary: 50368, sequence_length: 2048}
  training: {micro_batch: 8, precision: bf16, strategy: fsdp, activation_checkpointing: true}
  cluster:  {instance_type: Standard_ND96isr_H100_v5, instance_count: 4}

\b
--from takes a run of the built-in trainers, and RUN:STEP where several steps of it trained. One run tells how
much faster or slower computation is than the published speeds; two on different counts of GPUs tell that of
the network as well. A run on processors tells nothing of GPUs.

\b
Exit status: 0 estimated, 1 faults in the file, 2 usage, 3 an internal error of worldsize.
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=common.SpecPath("the file of a workload"))
@spec_options.region_option
@spec_options.from_option
@common.json_option
@pictures.plot_option
def command(
    file: Path,
    region: str | None,
    runs: tuple[str, ...],
    home: Path,
    azure: WorkspaceChoice | None,
    *,
    as_json: bool,
    plot_file: Path | None,
) -> None:
    """Estimate how fast a workload trains on a cluster, and what an hour of it costs."""
    with common.exit_on_error():
        estimated = api.estimate(file, region, spec_options.read_runs(runs, home, azure))
    if plot_file is not None:
        _draw(estimated, plot_file)
    if as_json:
        common.say(json.dumps(describe_estimated(estimated), indent=2, ensure_ascii=False))
    else:
        common.say(estimate_view.render_estimated(estimated))


def _draw(estimated: Estimated, file: Path) -> None:
    case = estimated.case
    if estimated.estimate is None:
        common.refuse(f"there is nothing to draw: {estimated.unknown}")
    name = case.cluster.instance_type or case.cluster.gpu.name
    training = estimate_view.Training(name, case, estimated.calibration)
    pictures.save_picture(estimate_view.make_picture([training]), file)
