"""A key that its mapping does not have: where it belongs, or which key was meant."""

from __future__ import annotations

from collections.abc import Iterable

from worldsize.azureml.shape.catalog import Catalog, Shape
from worldsize.azureml.shape.catalog import MappingContext
from worldsize.base import limits
from worldsize.base.problem import Fix, Problem
from worldsize.base.suggest import closest, edit_distance, closest_unambiguous
from worldsize.yaml.nodes import Scalar

# Words of other tools, of the documentation's errors and of Azure ML's first version.
_ALIASES = {
    "node_count": "instance_count",
    "num_nodes": "instance_count",
    "nodes": "instance_count",
    "max_nodes": "max_instances",
    "min_nodes": "min_instances",
    "vm_size": "size",
    "process_count": "process_count_per_instance",
    "process_count_per_node": "process_count_per_instance",
    "processes_per_node": "process_count_per_instance",
    "nproc_per_node": "process_count_per_instance",
    "num_workers": "worker_count",
    "timezone": "time_zone",
    "pattern": "schedule",
    "cron": "expression",
    "compute_target": "compute",
    "cluster": "compute",
    "env": "environment_variables",
    "env_vars": "environment_variables",
    "conda": "conda_file",
    "docker_image": "image",
    "experiment": "experiment_name",
    "source_directory": "code",
    "steps": "jobs",
}

# Mappings whose own keys are often written one level too high, the likeliest first.
_CONTAINERS = (
    "resources", "distribution", "limits", "settings", "trial", "task", "retry_settings", "trigger",
    "schedule", "environment", "queue_settings", "objective", "ssh_settings", "network_settings",
)  # fmt: skip

# Keys that many mappings have, and that therefore say nothing about where one belongs.
_COMMON = frozenset(
    {"$schema", "name", "type", "description", "properties", "path", "id", "tags", "version", "datastore"}
)

# What a step or job says of how a component runs; the component's own file cannot.
_STEP_KEYS = frozenset(
    {"compute", "limits", "environment_variables", "identity", "services", "queue_settings"}
)
_CONDA_KEYS = frozenset({"channels", "dependencies"})


def explain_key(key: Scalar, place: MappingContext, catalog: Catalog) -> tuple[Problem | None, str | None]:
    """The problem of ``key``, which ``place`` has no use for, and the key of ``place`` that it stands for.

    What it stands for is not missing, and of a conda file's keys only the first is named: one cause,
    one problem.
    """
    if _takes_conda_file(place) and key.text in _CONDA_KEYS:
        if key.text != next(name for name in place.node if name in _CONDA_KEYS):
            return None, None
        return _conda(key, place), None
    found = _find(key, place, catalog)
    if found.fix is not None:
        return found, found.fix.replacement
    if found.slug == "aml-misplaced-key":
        return found, "component" if key.text == "jobs" else _container_of(key.text, place, catalog)
    return found, None


def _find(key: Scalar, place: MappingContext, catalog: Catalog) -> Problem:
    if place.shape.get("x-unknown-keys") == "kept":
        return _kept(key, place)
    explained = limits.take_comparisons(len(place.shape.get("properties", ())))
    problem = explained and (
        _slip(key, place)
        or _inline_jobs(key, place)
        or _alias(key, place, catalog)
        or _contained(key, place, catalog)
        or _of_other_type(key, place)
        or _higher(key, place)
        or _on_the_step(key, place)
        or _typo(key, place)
    )
    if problem:
        return problem
    if place.shape.get("additionalProperties") is True:
        message = f"{place.title} has no key `{key.text}`; Azure ML ignores it"
        return Problem("aml-ignored-key", key.span, _bounded(message), "remove it")
    listing = _listing(known_keys(place.shape))
    return _unknown(key, place, listing or "check its spelling and its indentation, or remove it")


def known_keys(shape: Shape) -> list[str]:
    """The keys that may be written in a mapping, sorted."""
    properties: Shape = shape.get("properties", {})
    return sorted(name for name, value in properties.items() if "readOnly" not in value and name != "$schema")


def _unknown(key: Scalar, place: MappingContext, help_text: str | None, fix: Fix | None = None) -> Problem:
    return Problem(
        "aml-unknown-key",
        key.span,
        _bounded(f"{place.title} has no key `{_short(key.text)}`"),
        help_text,
        fix=fix,
    )


def _kept(key: Scalar, place: MappingContext) -> Problem:
    """Azure ML sends these on as they are, so that a key may be newer than our knowledge of it."""
    message = f"`{_short(key.text)}` is not a known key of {place.title}, so it probably has no effect"
    found = closest(key.text, known_keys(place.shape))
    return Problem("aml-ignored-key", key.span, message, f"did you mean `{found}`?" if found else "remove it")


def _takes_conda_file(place: MappingContext) -> bool:
    return "conda_file" in place.shape.get("properties", {})


def _conda(key: Scalar, place: MappingContext) -> Problem:
    message = f"`{key.text}` belongs into a conda file, not straight under {place.title}"
    advice = "put `channels` and `dependencies` under `conda_file:`, beside `image:`"
    return Problem("aml-misplaced-key", key.span, message, advice)


def _inline_jobs(key: Scalar, place: MappingContext) -> Problem | None:
    if key.text != "jobs" or "component" not in place.shape.get("required", ()):
        return None
    message = f"{place.title} cannot hold `jobs`; a pipeline inside a pipeline is a component of its own"
    advice = "move the jobs into a pipeline component's file and name it with `component:`"
    return Problem("aml-misplaced-key", key.span, message, advice)


def _alias(key: Scalar, place: MappingContext, catalog: Catalog) -> Problem | None:
    meant = _ALIASES.get(key.text)
    if meant is None or meant in place.node:
        return None
    if meant in place.shape.get("properties", {}):
        return _unknown(key, place, f"write `{meant}`", Fix(key.span, meant))
    container = _container_of(meant, place, catalog)
    if container is None:
        return None
    return _unknown(key, place, f"write `{meant}` under `{container}:`")


def _contained(key: Scalar, place: MappingContext, catalog: Catalog) -> Problem | None:
    container = None if key.text in _COMMON else _container_of(key.text, place, catalog)
    if container is None:
        return None
    message = f"`{key.text}` belongs under `{container}`, not directly under {place.title}"
    return Problem("aml-misplaced-key", key.span, _bounded(message), f"move it under `{container}:`")


def _container_of(name: str, place: MappingContext, catalog: Catalog) -> str | None:
    properties = place.shape.get("properties", {})
    for container in _CONTAINERS:
        shape = properties.get(container)
        if shape and any(name in branch.get("properties", {}) for branch in catalog.branches(shape)):
            return container
    return None


def _of_other_type(key: Scalar, place: MappingContext) -> Problem | None:
    """A key that the same mapping has under another ``type``."""
    if key.text in _COMMON or place.type is None:
        return None
    owners = list(dict.fromkeys(s.type for s in place.siblings if key.text in s.shape.get("properties", {})))
    owners = [owner for owner in owners if owner != place.type]
    if not owners:
        return None
    slug = "distribution-field-of-other-type" if place.name == "distribution" else "aml-field-of-other-type"
    of = _listing(owners, "and")
    message = f"`{key.text}` is a key of type {of}, and the type here is `{place.type}`"
    own = [name for name in known_keys(place.shape) if name not in _COMMON]
    advice = (
        f"type `{place.type}` takes {_listing(own, 'and')}"
        if 0 < len(own) <= 8
        else "remove it or change `type`"
    )
    return Problem(slug, key.span, _bounded(message), advice)


def _higher(key: Scalar, place: MappingContext) -> Problem | None:
    """A key of the mapping around this one."""
    outer = place.parent
    if outer is None or key.text in _COMMON or key.text in outer.node or place.name is None:
        return None
    if place.name not in outer.shape.get("properties", {}) or key.text not in outer.shape["properties"]:
        return None
    message = f"`{key.text}` belongs one level up, beside `{place.name}`, not under it"
    return Problem("aml-misplaced-key", key.span, _bounded(message), f"move it out of `{place.name}:`")


def _on_the_step(key: Scalar, place: MappingContext) -> Problem | None:
    if key.text not in _STEP_KEYS or "is_deterministic" not in place.shape.get("properties", {}):
        return None
    message = f"a component cannot carry `{key.text}`; Azure ML drops it"
    return Problem(
        "aml-misplaced-key", key.span, message, "set it on the step or job that uses the component"
    )


def _slip(key: Scalar, place: MappingContext) -> Problem | None:
    """One letter off a key of this very mapping: no better explanation is needed."""
    if len(key.text) < 5:
        return None
    free = [name for name in known_keys(place.shape) if name not in place.node]
    for name in free:
        if abs(len(name) - len(key.text)) <= 1 and edit_distance(key.text, name, 1) <= 1:
            return _unknown(key, place, f"did you mean `{name}`?", _sure(key, name, free))
    return None


def _typo(key: Scalar, place: MappingContext) -> Problem | None:
    if place.shape.get("additionalProperties") is True and len(key.text) < 5:
        return None  # where any key is let through, a short one is too easily near to another
    candidates = [name for name in known_keys(place.shape) if name not in place.node]
    found = closest(key.text, candidates)
    if found is None:
        return None
    case_only = found.replace("_", "") == key.text.lower().replace("_", "").replace("-", "")
    advice = f"write `{found}`; keys are in snake_case" if case_only else f"did you mean `{found}`?"
    return _unknown(key, place, advice, _sure(key, found, candidates))


def _sure(key: Scalar, found: str, candidates: list[str]) -> Fix | None:
    """The fix that writes ``found``, where no other key of the mapping is as near."""
    return Fix(key.span, found) if closest_unambiguous(key.text, candidates) == found else None


def _listing(words: Iterable[str], last: str = "or") -> str | None:
    """`a`, `b` or `c`; None where the list would be too long to help."""
    quoted = [f"`{word}`" for word in words if not word.startswith("$")]
    if not 0 < len(quoted) <= 14:
        return None
    if len(quoted) == 1:
        return quoted[0] if last == "and" else f"it takes only {quoted[0]}"
    joined = f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"
    return joined if last == "and" else f"it takes {joined}"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _bounded(message: str) -> str:
    return message if len(message) <= 200 else message[:199] + "…"
