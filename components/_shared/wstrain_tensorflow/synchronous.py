"""Training with ``MultiWorkerMirroredStrategy``: all workers take every step together."""

from __future__ import annotations

from wsshards.data import Manifest
from wstrain import derived
from wstrain.beats import Phase, Pulse
from wstrain.settings import Settings
from wstrain_tensorflow import mirrored
from wstrain_tensorflow.meeting import Meeting
from wstrain_tensorflow.tf_config import Cluster
from wstrain_tensorflow.training import Job, expect_replicas


def train(settings: Settings, cluster: Cluster, meeting: Meeting, manifest: Manifest, pulse: Pulse) -> None:
    """Train on this worker; worker 0 writes metrics, checkpoints and the model.

    Raises:
        UserError: shards, model, inputs and devices do not fit each other.
    """
    strategy = mirrored.strategy_of(cluster)  # TensorFlow wants it before its first operation
    expect_replicas(strategy, settings)
    job = Job(settings, cluster, meeting, manifest)
    network = job.network(strategy)
    optimizer, scale = job.optimizer(network, strategy), job.scale(strategy)
    trainer = mirrored.Mirrored(
        strategy,
        network,
        optimizer,
        scale,
        accumulation=settings.gradient_accumulation_steps,
        max_gradient_norm=settings.max_gradient_norm,
    )
    saver = job.saver(
        {"model": network.trained, "kept": network.kept, "scale": scale.variables, **optimizer.slots}
    )
    start = saver.resume(settings.resume_from)
    local = settings.world_size // cluster.worker_count
    feed = job.feed(range(cluster.index * local, (cluster.index + 1) * local), settings.world_size)
    schedule = derived.schedule(settings, job.steps)
    with job.recorder() as recorder:
        saver.settle = recorder.settle
        micro_batches = feed.stream(start, job.stop)
        recorder.inspect = job.inspector(network)
        pulse.begin(start)
        for step in range(start, job.stop):
            rate = schedule.rate(step)
            loss = trainer.step(micro_batches, rate)
            pulse.mark(Phase.REPORTING)
            recorder.step(step, loss, rate)
            pulse.mark(Phase.SAVING)
            saver.step(step + 1)
            pulse.stepped(step + 1)
        pulse.mark(Phase.EXPORTING)
        final, done = recorder.finish(), max(start, job.stop)
        saver.save(done)
        saver.finish()
        job.export(network, final, done)
