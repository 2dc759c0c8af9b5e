"""A tree that passed the schema, as the typed model."""

from __future__ import annotations

from pathlib import Path

from worldsize.base.span import Span
from worldsize.spec import parse as read
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
        name=read._require(read._text(root, "name")),
        display_name=read._text(root, "display_name"),
        description=read._text(root, "description"),
        experiment_name=read._text(root, "experiment_name"),
        tags=read._entries(root, "tags"),
        compute={name: _profile(node, key) for name, (node, key) in read._sections(root, "compute").items()},
        steps={name: _step(node, key) for name, (node, key) in read._sections(root, "steps").items()},
        schedule=_schedule(read._section(root, "schedule")),
        settings=read._entries(root, "settings"),
    )


def _profile(node: Mapping, key: Scalar) -> ComputeProfile:
    return ComputeProfile(
        name=key.text,
        span=key.span,
        target=read._text(node, "target"),
        instance_type=read._text(node, "instance_type"),
        min_instances=read._integer(node, "min_instances"),
        max_instances=read._integer(node, "max_instances"),
        tier=read._text(node, "tier"),
        idle_time_before_scale_down=read._integer(node, "idle_time_before_scale_down"),
    )


def _step(node: Mapping, key: Scalar) -> Step:
    return Step(
        name=key.text,
        span=key.span,
        uses=read._text(node, "uses"),
        command=read._text(node, "command"),
        code=read._text(node, "code"),
        environment=read._plain(node, "environment"),
        distribution=_distribution(read._section(node, "distribution")),
        display_name=read._text(node, "display_name"),
        description=read._text(node, "description"),
        compute=read._text(node, "compute"),
        instance_count=read._integer(node, "instance_count"),
        process_count_per_instance=read._integer(node, "process_count_per_instance"),
        worker_count=read._integer(node, "worker_count"),
        parameter_server_count=read._integer(node, "parameter_server_count"),
        parallelism=_parallelism(read._section(node, "parallelism")),
        shm_size=read._text(node, "shm_size"),
        timeout=read._integer(node, "timeout"),
        environment_variables=read._entries(node, "environment_variables"),
        with_=read._entries(node, "with"),
        outputs=read._entries(node, "outputs"),
        scale=_scale(read._section(node, "scale")),
        when=read._entries(node, "when"),
        on_fail=read._choice(node, "on_fail"),
        resilience=_resilience(read._section(node, "resilience")),
    )


def _distribution(found: tuple[Mapping, Span] | None) -> Distribution | None:
    if found is None:
        return None
    node, span = found
    return Distribution(
        span=span,
        type=read._require(read._choice(node, "type")),
        process_count_per_instance=read._integer(node, "process_count_per_instance"),
        worker_count=read._integer(node, "worker_count"),
        parameter_server_count=read._integer(node, "parameter_server_count"),
    )


def _parallelism(found: tuple[Mapping, Span] | None) -> Parallelism | None:
    if found is None:
        return None
    node, span = found
    return Parallelism(
        span=span,
        data=read._integer(node, "data"),
        tensor=read._integer(node, "tensor"),
        pipeline=read._integer(node, "pipeline"),
    )


def _resilience(found: tuple[Mapping, Span] | None) -> Resilience | None:
    if found is None:
        return None
    node, span = found
    return Resilience(
        span=span,
        mean_time_between_preemptions=read._number(node, "mean_time_between_preemptions"),
        checkpoint_seconds=read._number(node, "checkpoint_seconds"),
        max_restarts=read._integer(node, "max_restarts"),
    )


def _scale(found: tuple[Mapping, Span] | None) -> Scale | None:
    if found is None:
        return None
    node, span = found
    reference, _ = read._section(node, "reference") or (node, span)
    return Scale(
        span=span,
        reference_batch_size=read._require(read._integer(reference, "batch_size")),
        reference_learning_rate=read._require(read._number(reference, "learning_rate")),
        reference_gpus=read._integer(reference, "gpus"),
        rule=read._choice(node, "rule"),
        optimizer=read._text(node, "optimizer"),
        epochs=read._number(node, "epochs"),
        beta1=read._number(node, "beta1"),
        beta2=read._number(node, "beta2"),
        epsilon=read._number(node, "epsilon"),
        warmup_epochs=read._number(node, "warmup_epochs"),
        rows=read._integer(node, "rows"),
        batch_size_per_device=read._integer(node, "batch_size_per_device"),
        gradient_accumulation_steps=read._integer(node, "gradient_accumulation_steps"),
        global_batch_size=read._integer(node, "global_batch_size"),
        learning_rate=read._number(node, "learning_rate"),
    )


def _schedule(found: tuple[Mapping, Span] | None) -> Schedule | None:
    if found is None:
        return None
    node, span = found
    return Schedule(
        span=span,
        name=read._text(node, "name"),
        cron=read._text(node, "cron"),
        recurrence=read._plain(node, "recurrence"),
        time_zone=read._text(node, "time_zone"),
        start_time=read._text(node, "start_time"),
        end_time=read._text(node, "end_time"),
    )
