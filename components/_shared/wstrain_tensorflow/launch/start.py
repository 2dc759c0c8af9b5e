"""How the TensorFlow component starts: check the launch against the plan, wait for all processes, then train.

TensorFlow is loaded after that, so a wrong world size or a missing GPU is reported in a fraction of a second,
and a missing worker by its name.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from wsshards.errors import Interrupted, UserError
from wsshards.manifest import Manifest, read_manifest
from wstrain import run_facts
from wstrain.fine_tuning import expect_initial_weights
from wstrain.health import watchdog
from wstrain.health.heartbeat import Heartbeat, Phase
from wstrain.launch import consistency, gpus
from wstrain.launch.environment import Launch, expect_global_batch
from wstrain.launch.mesh import Mesh
from wstrain.settings import Settings
from wstrain_tensorflow.launch.rendezvous import Rendezvous
from wstrain_tensorflow.launch.tf_config import Cluster

MIRRORED, PARAMETER_SERVER = "multi_worker_mirrored", "parameter_server"


def start_training(settings: Settings, cluster: Cluster) -> None:
    """Check the launch against the plan and the processes against each other, then train.

    Raises:
        UserError: the plan is for other processes or GPUs than there are or contradicts itself, or a process
            is
            missing or has other code, data or inputs.
        Interrupted: a process was asked to stop, and the training is saved.
    """
    expect_initial_weights(settings)
    planned = _planned_gpus(settings, cluster)
    gpus.expect_gpus_before_import(planned, "tensorflow")
    expect_plan(settings, cluster)
    rendezvous = Rendezvous(cluster.members, cluster.number, settings.options["join_timeout"])
    rendezvous.stop_on_sigterm()
    manifest: Manifest | None = None
    with rendezvous.together():
        manifest = read_manifest(settings.shards)
        run_facts.count_steps(settings, manifest)
    assert manifest is not None
    _expect_agreement(settings, manifest, rendezvous)
    hosts = rendezvous.gather(socket.gethostname())
    local_size = hosts.count(hosts[cluster.number])
    launch = Launch(cluster.number, 0, max(1, len(cluster.members)))
    with watchdog.watch_process(launch, settings.hang_timeout) as heartbeat:
        try:
            _train(settings, cluster, rendezvous, manifest, local_size=local_size, heartbeat=heartbeat)
        except Interrupted:
            rendezvous.leave("stopped")
            raise
        heartbeat.mark(Phase.SERVING)  # a finished process waits for the others, however long they take
        rendezvous.leave()


def expect_plan(settings: Settings, cluster: Cluster) -> None:
    """Compare the plan with the launch, as far as it is known without TensorFlow.

    Raises:
        UserError: they differ.
    """
    workers, servers = cluster.worker_count, len(cluster.servers)
    if settings.strategy == PARAMETER_SERVER and not servers:
        raise UserError(
            "strategy `parameter_server` needs a parameter server, but `TF_CONFIG` does not name one",
            "set `parameter_server_count` in the step, beside `worker_count`",
        )
    if settings.strategy != PARAMETER_SERVER and servers:
        raise UserError(
            f"`TF_CONFIG` names {servers} parameter server{'s' * (servers > 1)},"
            f" but strategy `{settings.strategy}` does not use one",
            "use strategy `parameter_server`, or set `parameter_server_count` to 0",
        )
    replicas, rest = divmod(settings.world_size, workers)
    if rest or not replicas or (replicas > 1 and not count_gpus()):
        raise UserError(
            f"the plan is for {settings.world_size} replicas but the launcher started {workers}"
            f" worker{'s' * (workers > 1)}{'' if count_gpus() else ' without a GPU'}",
            "make `worker_count` × GPUs of an instance equal `world_size`, or plan again",
        )
    if settings.strategy == PARAMETER_SERVER and replicas > 1:
        raise UserError(
            f"the plan counts {replicas} GPUs a worker, but with `parameter_server` a worker drives one",
            "choose an `instance_type` with one GPU or none, or strategy `multi_worker_mirrored`",
        )
    if settings.strategy == PARAMETER_SERVER and settings.precision == "fp16":
        raise UserError(
            "precision `fp16` is not offered with strategy `parameter_server`:"
            " its loss scale would have to be agreed on by updates that overtake each other",
            "use `bf16` or `fp32`",
        )
    # With parameter servers each worker updates on its own, so its batch is the global batch.
    sharing = 1 if settings.strategy == PARAMETER_SERVER else settings.world_size
    expect_global_batch(
        Mesh(sharing),
        per_device=settings.batch_size_per_device,
        accumulation=settings.gradient_accumulation_steps,
        global_batch=settings.global_batch_size,
    )


def _planned_gpus(settings: Settings, cluster: Cluster) -> gpus.PlannedGpus:
    """Return the planned GPUs of this task; a parameter server needs none."""
    return gpus.PlannedGpus(0) if cluster.task == "ps" else gpus.planned_gpus(settings)


def count_gpus() -> int:
    """Count the GPUs that this process may use, without loading TensorFlow."""
    devices = len(list(Path("/dev").glob("nvidia[0-9]*")))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return devices
    return min(devices, len([each for each in visible.split(",") if each.strip() not in ("", "-1")]))


def _expect_agreement(settings: Settings, manifest: Manifest, rendezvous: Rendezvous) -> None:
    plan = run_facts.collect_facts(settings, manifest, {})
    fingerprint = consistency.fingerprint(Path.cwd(), settings.shards, plan)
    difference = consistency.describe_difference(rendezvous.gather(fingerprint), rendezvous.names)
    if difference:
        raise UserError(difference, "give every process the same code, data and inputs")


def _train(
    settings: Settings,
    cluster: Cluster,
    rendezvous: Rendezvous,
    manifest: Manifest,
    *,
    local_size: int,
    heartbeat: Heartbeat,
) -> None:
    from wstrain_tensorflow.launch import setup  # imports TensorFlow

    with rendezvous.together():
        planned = _planned_gpus(settings, cluster)
        setup.setup_tensorflow(cluster, planned, local_size=local_size, precision=settings.precision)
    with setup.translate_errors(len(cluster.members) - 1, settings):
        if settings.strategy == PARAMETER_SERVER:
            from wstrain_tensorflow.strategies import parameter_server

            parameter_server.train(settings, cluster, rendezvous, manifest, heartbeat)
        else:
            from wstrain_tensorflow.strategies import multi_worker_mirrored

            multi_worker_mirrored.train(settings, cluster, rendezvous, manifest, heartbeat)
