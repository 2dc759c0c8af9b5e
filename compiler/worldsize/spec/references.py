"""Faults between the parts of a spec: profiles that do not exist, numbers at odds."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from worldsize.base.problem import Problem, Related
from worldsize.spec.model import ComputeProfile, Located, Spec, Step
from worldsize.spec.suggest import closest, quoted_list

_COUNTS = ("process_count_per_instance", "worker_count", "parameter_server_count")


def with_only_profile(spec: Spec) -> Spec:
    """Where there is one compute profile, steps that name none run on it."""
    if len(spec.compute) != 1:
        return spec
    (profile,) = spec.compute.values()
    only = Located(profile.name, profile.span, profile.span)
    steps = {name: step if step.compute else replace(step, compute=only) for name, step in spec.steps.items()}
    return replace(spec, steps=steps)


def check(spec: Spec) -> Iterator[Problem]:
    """Every fault between parts that are each well formed."""
    for profile in spec.compute.values():
        yield from _instances(profile)
    for step in spec.steps.values():
        yield from _compute(step, spec)
        yield from _counts(step)


def _compute(step: Step, spec: Spec) -> Iterator[Problem]:
    known = quoted_list(spec.compute)
    if step.compute is None:
        message = (
            f"step `{step.name}` does not say which of the {len(spec.compute)} compute profiles it runs on"
        )
        yield Problem("step-needs-compute", step.span, message, f"add `compute:` with one of {known}")
    elif step.compute.value not in spec.compute:
        near = closest(step.compute.value, spec.compute)
        message = (
            f"step `{step.name}` runs on `{step.compute.value}`, which is not a profile under `compute:`"
        )
        help_ = f"did you mean `{near}`? profiles: {known}" if near else f"profiles: {known}"
        yield Problem("step-unknown-compute", step.compute.span, message, help_)


def _counts(step: Step) -> Iterator[Problem]:
    for name in _COUNTS:
        outer: Located[int] | None = getattr(step, name)
        inner: Located[int] | None = getattr(step.distribution, name) if step.distribution else None
        if outer is not None and inner is not None:
            both = f"{outer.value} here, {inner.value} in `distribution`"
            yield Problem(
                "step-count-given-twice",
                outer.key_span,
                f"`{name}` is given twice for step `{step.name}`: {both}",
                f"keep the one in `distribution` and remove `{name}` here",
                (Related(inner.key_span, "also given here"),),
            )


def _instances(profile: ComputeProfile) -> Iterator[Problem]:
    low, high = profile.min_instances, profile.max_instances
    if low is not None and high is not None and low.value > high.value:
        yield Problem(
            "compute-min-above-max",
            low.span,
            f"`min_instances` is {low.value} but `max_instances` is {high.value}",
            f"write `min_instances: 0`, or raise `max_instances` to at least {low.value}",
            (Related(high.span, "the most instances"),),
        )
