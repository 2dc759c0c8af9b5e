"""Converts a YAML tree that passed the schema into the typed model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from worldsize.azureml.sweep import find_algorithm
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar
from worldsize.spec.model import (
    ComputeProfile,
    Distribution,
    Located,
    Parallelism,
    PipelineOutput,
    Resilience,
    Scale,
    Schedule,
    Spec,
    Step,
    Sweep,
)
from worldsize.spec.pipeline_inputs import parse_inputs
from worldsize.spec.values import to_plain
from worldsize.spec.workload import parse_workload


def parse_spec(path: Path, root: Mapping) -> Spec:
    """Parse a spec. The tree must have passed the schema, because nothing is checked again."""
    return Spec(
        path=path,
        span=root.span,
        name=_require(_text(root, "name")),
        display_name=_text(root, "display_name"),
        description=_text(root, "description"),
        experiment_name=_text(root, "experiment_name"),
        tags=_entries(root, "tags"),
        compute={name: _profile(node, key) for name, (node, key) in _sections(root, "compute").items()},
        steps={name: _step(node, key) for name, (node, key) in _sections(root, "steps").items()},
        schedule=_schedule(_section(root, "schedule")),
        settings=_entries(root, "settings"),
        inputs=parse_inputs(root),
        outputs={key.text: _output(key, node) for key, node in _items(root, "outputs")},
    )


def _output(key: Scalar, node: Node) -> PipelineOutput:
    if not isinstance(node, Mapping):
        return PipelineOutput(key.text, key.span, Located(to_plain(node), node.span, key.span, node))
    return PipelineOutput(
        name=key.text,
        span=key.span,
        source=_require(_text(node, "from")),
        type=_text(node, "type"),
        path=_text(node, "path"),
        mode=_text(node, "mode"),
        description=_text(node, "description"),
    )


def _profile(node: Mapping, key: Scalar) -> ComputeProfile:
    return ComputeProfile(
        name=key.text,
        span=key.span,
        target=_text(node, "target"),
        instance_type=_text(node, "instance_type"),
        min_instances=_integer(node, "min_instances"),
        max_instances=_integer(node, "max_instances"),
        tier=_text(node, "tier"),
        idle_time_before_scale_down=_integer(node, "idle_time_before_scale_down"),
    )


def _step(node: Mapping, key: Scalar) -> Step:
    return Step(
        name=key.text,
        span=key.span,
        uses=_text(node, "uses"),
        command=_text(node, "command"),
        code=_text(node, "code"),
        environment=_plain(node, "environment"),
        distribution=_distribution(_section(node, "distribution")),
        display_name=_text(node, "display_name"),
        description=_text(node, "description"),
        compute=_text(node, "compute"),
        instance_count=_integer(node, "instance_count"),
        process_count_per_instance=_integer(node, "process_count_per_instance"),
        worker_count=_integer(node, "worker_count"),
        parameter_server_count=_integer(node, "parameter_server_count"),
        parallelism=_parallelism(_section(node, "parallelism")),
        shm_size=_text(node, "shm_size"),
        timeout=_integer(node, "timeout"),
        environment_variables=_entries(node, "environment_variables"),
        with_=_entries(node, "with") | _split(node),
        outputs=_entries(node, "outputs"),
        scale=_scale(_section(node, "scale")),
        when=_entries(node, "when"),
        on_fail=_choice(node, "on_fail"),
        resilience=_resilience(_section(node, "resilience")),
        sweep=_sweep(_section(node, "sweep")),
    )


def _sweep(section: tuple[Mapping, Span] | None) -> Sweep | None:
    if section is None:
        return None
    node, span = section
    algorithm = find_algorithm(node.get("sampling_algorithm"))
    objective, _ = _section(node, "objective") or (node, span)
    limits, _ = _section(node, "limits") or (node, span)
    return Sweep(
        span=span,
        node=node,
        search_space=_entries(node, "search_space"),
        algorithm=algorithm.text if algorithm is not None else "random",
        primary_metric=_require(_text(objective, "primary_metric")),
        max_total_trials=_require(_integer(limits, "max_total_trials")),
        max_concurrent_trials=_integer(limits, "max_concurrent_trials"),
        timeout=_integer(limits, "timeout"),
        trial_timeout=_integer(limits, "trial_timeout"),
    )


# Keys of `split:`, and the inputs of `shard_data` that they give.
SPLIT_INPUTS = {
    "validation": "validation_fraction",
    "test": "test_fraction",
    "by": "split_by",
    "after": "validation_after",
    "test_after": "test_after",
    "time": "split_time",
    "given": "split",
}


def _split(node: Mapping) -> dict[str, Located[Any]]:
    """The inputs that ``split:`` of a step stands for, each at its own place."""
    inputs = {}
    for key, located in _entries(node, "split").items():
        value, leaf = located.value, located.node
        if key == "given":
            value = "given" if value else "hash"
        elif key in ("after", "test_after", "by", "time") and isinstance(leaf, Scalar):
            value = leaf.text  # a date or a number stays as it is written
        inputs[SPLIT_INPUTS[key]] = Located(value, located.span, located.key_span, _as_scalar(leaf, value))
    return inputs


def _as_scalar(node: Any, value: Any) -> Any:
    """The node of a value that the step gets in another form than it is written."""
    if not isinstance(node, Scalar) or not isinstance(value, str):
        return node
    return Scalar(node.source, node.start, node.end, value, '"')


def _distribution(section: tuple[Mapping, Span] | None) -> Distribution | None:
    if section is None:
        return None
    node, span = section
    return Distribution(
        span=span,
        type=_require(_choice(node, "type")),
        process_count_per_instance=_integer(node, "process_count_per_instance"),
        worker_count=_integer(node, "worker_count"),
        parameter_server_count=_integer(node, "parameter_server_count"),
    )


def _parallelism(section: tuple[Mapping, Span] | None) -> Parallelism | None:
    if section is None:
        return None
    node, span = section
    return Parallelism(
        span=span,
        data=_integer(node, "data"),
        tensor=_integer(node, "tensor"),
        pipeline=_integer(node, "pipeline"),
    )


def _resilience(section: tuple[Mapping, Span] | None) -> Resilience | None:
    if section is None:
        return None
    node, span = section
    return Resilience(
        span=span,
        mean_time_between_preemptions=_number(node, "mean_time_between_preemptions"),
        checkpoint_seconds=_number(node, "checkpoint_seconds"),
        max_restarts=_integer(node, "max_restarts"),
    )


def _scale(section: tuple[Mapping, Span] | None) -> Scale | None:
    if section is None:
        return None
    node, span = section
    reference, _ = _section(node, "reference") or (node, span)
    return Scale(
        span=span,
        reference_batch_size=_require(_integer(reference, "batch_size")),
        reference_learning_rate=_require(_number(reference, "learning_rate")),
        reference_gpus=_integer(reference, "gpus"),
        rule=_choice(node, "rule"),
        optimizer=_text(node, "optimizer"),
        epochs=_number(node, "epochs"),
        beta1=_number(node, "beta1"),
        beta2=_number(node, "beta2"),
        epsilon=_number(node, "epsilon"),
        warmup_epochs=_number(node, "warmup_epochs"),
        rows=_integer(node, "rows"),
        drop_last=_choice(node, "drop_last"),
        batch_size_per_device=_integer(node, "batch_size_per_device"),
        gradient_accumulation_steps=_integer(node, "gradient_accumulation_steps"),
        global_batch_size=_integer(node, "global_batch_size"),
        learning_rate=_number(node, "learning_rate"),
        workload=parse_workload(node),
        arithmetic=_entries(node, "arithmetic"),
    )


def _schedule(section: tuple[Mapping, Span] | None) -> Schedule | None:
    if section is None:
        return None
    node, span = section
    return Schedule(
        span=span,
        name=_text(node, "name"),
        cron=_text(node, "cron"),
        recurrence=_plain(node, "recurrence"),
        time_zone=_text(node, "time_zone"),
        start_time=_text(node, "start_time"),
        end_time=_text(node, "end_time"),
        inputs=_entries(node, "inputs"),
    )


T = TypeVar("T")


def _text(mapping: Mapping, key: str) -> Located[str] | None:
    """The text under a key."""
    return _read(mapping, key, str)


def _choice(mapping: Mapping, key: str) -> Located[Any] | None:
    """A word of an enumeration, which the schema has already checked."""
    return _read(mapping, key, _same)


def _integer(mapping: Mapping, key: str) -> Located[int] | None:
    """A whole number; JSON Schema also accepts 4.0."""
    return _read(mapping, key, int)


def _number(mapping: Mapping, key: str) -> Located[float] | None:
    """A number, as float."""
    return _read(mapping, key, float)


def _plain(mapping: Mapping, key: str) -> Located[Any] | None:
    """A value of any shape, as plain Python."""
    return _read(mapping, key, _same)


def _entries(mapping: Mapping, key: str) -> dict[str, Located[Any]]:
    """The entries of the mapping under a key, empty if there is none."""
    inner = mapping.get(key)
    if not isinstance(inner, Mapping):
        return {}
    return {name.text: Located(to_plain(node), node.span, name.span, node) for name, node in inner.items()}


def _items(mapping: Mapping, key: str) -> list[tuple[Scalar, Node]]:
    """The keys and values of the mapping under a key, none if there is none."""
    inner = mapping.get(key)
    return list(inner.items()) if isinstance(inner, Mapping) else []


def _section(mapping: Mapping, key: str) -> tuple[Mapping, Span] | None:
    """The mapping under a key and the span of that key."""
    inner, name = mapping.get(key), mapping.key(key)
    return (inner, name.span) if isinstance(inner, Mapping) and name is not None else None


def _sections(mapping: Mapping, key: str) -> dict[str, tuple[Mapping, Scalar]]:
    """The mappings inside the mapping under a key, each with the node of its name."""
    inner = mapping.get(key)
    if not isinstance(inner, Mapping):
        return {}
    return {name.text: (node, name) for name, node in inner.items() if isinstance(node, Mapping)}


def _require(located: Located[T] | None) -> Located[T]:
    """A value that the schema requires."""
    assert located is not None
    return located


def _read(mapping: Mapping, key: str, convert: Callable[[Any], T]) -> Located[T] | None:
    node, name = mapping.get(key), mapping.key(key)
    if node is None or name is None:
        return None
    return Located(convert(to_plain(node)), node.span, name.span, node)


def _same(value: Any) -> Any:
    return value
