"""A tree that passed the schema, as the typed model."""

from __future__ import annotations

from pathlib import Path

from worldsize.base.span import Span
from worldsize.spec import reader as read
from worldsize.spec.model import (
    ComputeProfile,
    Distribution,
    Parallelism,
    Resilience,
    Scale,
    Schedule,
    Spec,
    Step,
)
from worldsize.yaml.nodes import Mapping, Scalar


def parse_spec(path: Path, root: Mapping) -> Spec:
    """The typed spec. The tree must have passed the schema: nothing is checked again."""
    return Spec(
        path=path,
        span=root.span,
        name=read.require(read.text(root, "name")),
        display_name=read.text(root, "display_name"),
        description=read.text(root, "description"),
        experiment_name=read.text(root, "experiment_name"),
        tags=read.entries(root, "tags"),
        compute={name: _profile(node, key) for name, (node, key) in read.sections(root, "compute").items()},
        steps={name: _step(node, key) for name, (node, key) in read.sections(root, "steps").items()},
        schedule=_schedule(read.section(root, "schedule")),
        settings=read.entries(root, "settings"),
    )


def _profile(node: Mapping, key: Scalar) -> ComputeProfile:
    return ComputeProfile(
        name=key.text,
        span=key.span,
        target=read.text(node, "target"),
        instance_type=read.text(node, "instance_type"),
        min_instances=read.whole(node, "min_instances"),
        max_instances=read.whole(node, "max_instances"),
        tier=read.text(node, "tier"),
        idle_time_before_scale_down=read.whole(node, "idle_time_before_scale_down"),
    )


def _step(node: Mapping, key: Scalar) -> Step:
    return Step(
        name=key.text,
        span=key.span,
        uses=read.text(node, "uses"),
        command=read.text(node, "command"),
        code=read.text(node, "code"),
        environment=read.anything(node, "environment"),
        distribution=_distribution(read.section(node, "distribution")),
        display_name=read.text(node, "display_name"),
        description=read.text(node, "description"),
        compute=read.text(node, "compute"),
        instance_count=read.whole(node, "instance_count"),
        process_count_per_instance=read.whole(node, "process_count_per_instance"),
        worker_count=read.whole(node, "worker_count"),
        parameter_server_count=read.whole(node, "parameter_server_count"),
        parallelism=_parallelism(read.section(node, "parallelism")),
        shm_size=read.text(node, "shm_size"),
        timeout=read.whole(node, "timeout"),
        environment_variables=read.entries(node, "environment_variables"),
        with_=read.entries(node, "with"),
        outputs=read.entries(node, "outputs"),
        scale=_scale(read.section(node, "scale")),
        when=read.entries(node, "when"),
        on_fail=read.choice(node, "on_fail"),
        resilience=_resilience(read.section(node, "resilience")),
    )


def _distribution(found: tuple[Mapping, Span] | None) -> Distribution | None:
    if found is None:
        return None
    node, span = found
    return Distribution(
        span=span,
        type=read.require(read.choice(node, "type")),
        process_count_per_instance=read.whole(node, "process_count_per_instance"),
        worker_count=read.whole(node, "worker_count"),
        parameter_server_count=read.whole(node, "parameter_server_count"),
    )


def _parallelism(found: tuple[Mapping, Span] | None) -> Parallelism | None:
    if found is None:
        return None
    node, span = found
    return Parallelism(
        span=span,
        data=read.whole(node, "data"),
        tensor=read.whole(node, "tensor"),
        pipeline=read.whole(node, "pipeline"),
    )


def _resilience(found: tuple[Mapping, Span] | None) -> Resilience | None:
    if found is None:
        return None
    node, span = found
    return Resilience(
        span=span,
        mean_time_between_preemptions=read.number(node, "mean_time_between_preemptions"),
        checkpoint_seconds=read.number(node, "checkpoint_seconds"),
        max_restarts=read.whole(node, "max_restarts"),
    )


def _scale(found: tuple[Mapping, Span] | None) -> Scale | None:
    if found is None:
        return None
    node, span = found
    reference, _ = read.section(node, "reference") or (node, span)
    return Scale(
        span=span,
        reference_batch_size=read.require(read.whole(reference, "batch_size")),
        reference_learning_rate=read.require(read.number(reference, "learning_rate")),
        reference_gpus=read.whole(reference, "gpus"),
        rule=read.choice(node, "rule"),
        optimizer=read.text(node, "optimizer"),
        epochs=read.number(node, "epochs"),
        beta1=read.number(node, "beta1"),
        beta2=read.number(node, "beta2"),
        epsilon=read.number(node, "epsilon"),
        warmup_epochs=read.number(node, "warmup_epochs"),
        rows=read.whole(node, "rows"),
        batch_size_per_device=read.whole(node, "batch_size_per_device"),
        gradient_accumulation_steps=read.whole(node, "gradient_accumulation_steps"),
        global_batch_size=read.whole(node, "global_batch_size"),
        learning_rate=read.number(node, "learning_rate"),
    )


def _schedule(found: tuple[Mapping, Span] | None) -> Schedule | None:
    if found is None:
        return None
    node, span = found
    return Schedule(
        span=span,
        name=read.text(node, "name"),
        cron=read.text(node, "cron"),
        recurrence=read.anything(node, "recurrence"),
        time_zone=read.text(node, "time_zone"),
        start_time=read.text(node, "start_time"),
        end_time=read.text(node, "end_time"),
    )
