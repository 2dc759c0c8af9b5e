"""A key that its mapping does not have: where it belongs, or which key was meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from worldsize.azureml.shape.catalog import MappingContext, fits_shape, load_catalog
from worldsize.azureml.shape.recognise import CHECKED
from worldsize.base import limits
from worldsize.base.problem import Fix, Problem
from worldsize.base.suggest import closest, edit_distance, fix_unambiguous, list_similar
from worldsize.base.wording import join_words, shorten
from worldsize.documents.shape import Schema, Shape
from worldsize.documents.yaml.nodes import Mapping, Scalar

# Mappings whose own keys are often written one level too high, the likeliest first.
_CONTAINERS = (
    "resources", "distribution", "limits", "settings", "trial", "task", "retry_settings", "trigger",
    "schedule", "environment", "queue_settings", "objective", "ssh_settings", "network_settings",
)  # fmt: skip

# Keys of many mappings, which therefore belong to none in particular.
_COMMON = frozenset(
    {"$schema", "name", "type", "description", "properties", "path", "id", "tags", "version", "datastore"}
)

# Keys of outputs that azure-ai-ml reads with its private features only.
_PRIVATE_OF_OUTPUTS = frozenset({"is_control", "early_available"})

# How a component runs: keys of a step or job, which the component's own file cannot have.
_STEP_KEYS = frozenset(
    {"compute", "limits", "environment_variables", "identity", "services", "queue_settings"}
)
_CONDA_KEYS = frozenset({"channels", "dependencies"})


def explain_key(key: Scalar, tree: MappingContext, catalog: Schema) -> tuple[Problem | None, str | None]:
    """The problem of ``key``, which the mapping does not take, and the key of the mapping that was meant.

    What it stands for is not missing, and of a conda file's keys only the first is named: one cause,
    one problem.
    """
    if key.text in _CONDA_KEYS and "conda_file" in tree.shape.get("properties", {}):
        if key.text != next(name for name in tree.node if name in _CONDA_KEYS):
            return None, None
        return _conda(key, tree), None
    problem = _find(key, tree, catalog)
    if problem.fix is not None:
        return problem, problem.fix.replacement
    if problem.slug == "aml-misplaced-key":
        return problem, "component" if key.text == "jobs" else _container_of(key.text, tree, catalog)
    return problem, None


def _find(key: Scalar, tree: MappingContext, catalog: Schema) -> Problem:
    if key.text in _PRIVATE_OF_OUTPUTS and tree.parent is not None and tree.parent.name == "outputs":
        advice = "Azure ML reads it only with `AZURE_ML_CLI_PRIVATE_FEATURES_ENABLED=True`"
        return Problem("aml-private-preview", key.span, f"`{key.text}` is a private preview", advice)
    if tree.shape.get("x-unknown-keys") == "kept":
        return _kept(key, tree)
    explained = limits.take_comparisons(len(tree.shape.get("properties", ())))
    problem = explained and (
        _slip(key, tree)
        or _inline_jobs(key, tree)
        or _alias(key, tree, catalog)
        or _contained(key, tree, catalog)
        or _of_other_type(key, tree)
        or _higher(key, tree)
        or _on_the_step(key, tree)
        or _of_other_kind(key, tree)
        or _typo(key, tree)
    )
    if problem:
        return problem
    if tree.shape.get("additionalProperties") is True:
        return _outside(key, tree, "remove it, unless you know that it has an effect")
    listing = _listing(known_keys(tree.shape), taker=tree.title)
    return _unknown(key, tree, listing or "check its spelling and its indentation, or remove it")


def known_keys(shape: Shape) -> list[str]:
    """The keys that may be written in a mapping, sorted."""
    properties: Shape = shape.get("properties", {})
    return sorted(name for name, value in properties.items() if "readOnly" not in value and name != "$schema")


def _unknown(key: Scalar, tree: MappingContext, help_text: str | None, fix: Fix | None = None) -> Problem:
    return Problem("aml-unknown-key", key.span, _describe_unknown(key, tree), help_text, fix=fix)


def _describe_unknown(key: Scalar, tree: MappingContext) -> str:
    where = "" if tree.parent is None else f" in {tree.title}"
    return f"unknown key `{shorten(key.text, 60)}`{where}"


def _kept(key: Scalar, tree: MappingContext) -> Problem:
    """Azure ML passes these on unchanged, so a key may be newer than our schemas."""
    suggestion = closest(key.text, known_keys(tree.shape))
    advice = "remove it, unless you know that it has an effect"
    return _outside(key, tree, f"did you mean `{suggestion}`?" if suggestion else advice)


def _outside(key: Scalar, tree: MappingContext, advice: str) -> Problem:
    """Azure ML takes the file with such a key; what the service does with it is not documented."""
    where = tree.title if tree.parent is not None else "a component"
    message = f"`{shorten(key.text, 60)}` is not in Azure ML's schema of {where}, so it may have no effect"
    return Problem("aml-ignored-key", key.span, message, advice)


def _conda(key: Scalar, tree: MappingContext) -> Problem:
    message = f"`{key.text}` belongs in a conda file, not directly under {tree.title}"
    advice = "put `channels` and `dependencies` under `conda_file:`, beside `image:`"
    return Problem("aml-misplaced-key", key.span, message, advice)


def _inline_jobs(key: Scalar, tree: MappingContext) -> Problem | None:
    if key.text != "jobs" or "component" not in tree.shape.get("required", ()):
        return None
    message = f"{tree.title} cannot hold `jobs`; a pipeline inside a pipeline is a component of its own"
    advice = "move the jobs into a pipeline component's file and name it with `component:`"
    return Problem("aml-misplaced-key", key.span, message, advice)


def _alias(key: Scalar, tree: MappingContext, catalog: Schema) -> Problem | None:
    meant = ALIASES.get(key.text) or PREVIEW.get(key.text)
    value, unit = tree.node.get(key.text), OTHER_UNITS.get(key.text)
    if key.text == "docker" and isinstance(value, Mapping) and "build" in value:
        meant, unit = "build", "whose `path` is the folder of the `Dockerfile`"
    if meant is None or meant in tree.node:
        return None
    renamed = unit is None and isinstance(value, Scalar) and meant in tree.shape.get("properties", {})
    # Another form of the value needs more than another key.
    advice = f"write `{meant}`" if renamed else f"write `{meant}:`"
    container = None
    if meant not in tree.shape.get("properties", {}):
        container = _container_of(meant, tree, catalog)
        if container is None:
            return None
        advice += f" under `{container}:`"
    if unit is not None:
        advice += f", {unit}"
    if key.text in PREVIEW:
        advice += f"; `{key.text}` is a key of the 2021 preview"
    return _unknown(key, tree, advice, Fix(key.span, meant, safe=False) if renamed else None)


def _contained(key: Scalar, tree: MappingContext, catalog: Schema) -> Problem | None:
    container = None if key.text in _COMMON else _container_of(key.text, tree, catalog)
    if container is None:
        return None
    inner = tree.node.get(container)
    if isinstance(inner, Mapping) and key.text in inner and tree.shape.get("additionalProperties") is True:
        return _outside(key, tree, f"remove it: `{container}` has its own")
    where = f"directly under {tree.title}" if tree.parent is not None else "at the top of the file"
    message = f"`{key.text}` belongs under `{container}`, not {where}"
    return Problem("aml-misplaced-key", key.span, message, f"move it under `{container}:`")


def _container_of(name: str, tree: MappingContext, catalog: Schema) -> str | None:
    properties = tree.shape.get("properties", {})
    for container in _CONTAINERS:
        shape = properties.get(container)
        if shape and any(name in branch.get("properties", {}) for branch in catalog.list_mappings(shape)):
            return container
    return None


def _of_other_type(key: Scalar, tree: MappingContext) -> Problem | None:
    """A key that the same mapping has under another ``type``."""
    if key.text in _COMMON or tree.type is None:
        return None
    owners = list(dict.fromkeys(s.type for s in tree.siblings if key.text in s.shape.get("properties", {})))
    owners = [owner for owner in owners if owner != tree.type]
    if not owners:
        return None
    slug = "distribution-field-of-other-type" if tree.name == "distribution" else "aml-field-of-other-type"
    listed_owners = _listing(owners, "and")
    message = f"`{key.text}` is a key of type {listed_owners}, but the type here is `{tree.type}`"
    written, meant = tree.node.get("type"), closest(tree.type, owners)
    if meant is not None and written is not None and tree.type not in {s.type for s in tree.siblings}:
        return Problem(slug, written.span, message, f"did you mean `{meant}`?")
    names = [name for name in known_keys(tree.shape) if name not in _COMMON]
    similar = tuple(list_similar(key.text, names))
    counterparts = [name for name in names if name.startswith(similar)]
    advice = f"remove `{key.text}`, or change `type`"
    if counterparts:
        advice = f"type `{tree.type}` has {_listing(counterparts, 'and')}: mind the unit"
    elif 0 < len(names) <= 8:
        advice = f"type `{tree.type}` takes {_listing(names, 'and')}"
    return Problem(slug, key.span, message, advice)


def _higher(key: Scalar, tree: MappingContext) -> Problem | None:
    """A key of the mapping around this one."""
    outer = tree.parent
    if outer is None or key.text in _COMMON or key.text in outer.node or tree.name is None:
        return None
    if tree.name not in outer.shape.get("properties", {}) or key.text not in outer.shape["properties"]:
        return None
    message = f"`{key.text}` belongs one level up, beside `{tree.name}`, not under it"
    return Problem("aml-misplaced-key", key.span, message, f"move it out of `{tree.name}:`")


def _on_the_step(key: Scalar, tree: MappingContext) -> Problem | None:
    component = tree.parent if tree.name == "task" and tree.parent is not None else tree
    if key.text not in _STEP_KEYS or "is_deterministic" not in component.shape.get("properties", {}):
        return None
    return _outside(key, tree, "set it on the step or job that uses the component")


def _of_other_kind(key: Scalar, tree: MappingContext) -> Problem | None:
    """A key that is right in another kind of file, and so is not misspelt."""
    if tree.parent is not None or key.text in _COMMON or tree.shape.get("additionalProperties") is True:
        return None
    owners = [
        kind.replace("-", " ")
        for kind in sorted(CHECKED)
        for shape in load_catalog(kind).list_mappings(load_catalog(kind).root)
        if key.text in shape.get("properties", {})
    ]
    listed = _listing(dict.fromkeys(owners), "and")
    return _unknown(key, tree, f"remove it: files of other kinds have it: {listed}") if listed else None


def _slip(key: Scalar, tree: MappingContext) -> Problem | None:
    """One letter differs from a key of this mapping: no better explanation is needed."""
    if len(key.text) < 5:
        return None
    free = [name for name in known_keys(tree.shape) if name not in tree.node]
    for name in free:
        if abs(len(name) - len(key.text)) <= 1 and edit_distance(key.text, name, 1) <= 1:
            return _unknown(key, tree, f"did you mean `{name}`?", _sure(key, name, free))
    return None


def _typo(key: Scalar, tree: MappingContext) -> Problem | None:
    if tree.shape.get("additionalProperties") is True and len(key.text) < 5:
        return None  # where any key is let through, a short one is too easily near to another
    candidates = [name for name in known_keys(tree.shape) if name not in tree.node]
    suggestion = closest(key.text, candidates)
    if suggestion is None:
        return None
    case_only = suggestion.replace("_", "") == key.text.lower().replace("_", "").replace("-", "")
    advice = f"write `{suggestion}`; keys are in snake_case" if case_only else f"did you mean `{suggestion}`?"
    return _unknown(key, tree, advice, _sure(key, suggestion, candidates))


def _sure(key: Scalar, suggestion: str, candidates: list[str]) -> Fix | None:
    """The fix that writes ``suggestion``, if no other key of the mapping is as similar."""
    fix = fix_unambiguous(key.span, key.text, candidates)
    return fix if fix is not None and fix.replacement == suggestion else None


def _listing(words: Iterable[str], last: str = "or", taker: str = "") -> str | None:
    """`a`, `b` or `c`; None if the list would be too long to help."""
    quoted = [f"`{word}`" for word in words if not word.startswith("$")]
    if not 0 < len(quoted) <= 14:
        return None
    if len(quoted) == 1:
        return quoted[0] if last == "and" else f"{taker} takes only {quoted[0]}"
    return join_words(quoted, last) if last == "and" else f"{taker} takes {join_words(quoted)}"


# What to write for a key that is missing.
_EXAMPLES = {
    "command": "python train.py",
    "environment": "azureml:NAME:VERSION",
    "limits": "{max_total_trials: 20}",
    "max_total_trials": "20",
    "objective": "{goal: minimize, primary_metric: METRIC}",
    "primary_metric": "METRIC",
    "goal": "minimize",
    "sampling_algorithm": "random",
    "path": "PATH",
    "component": "./component.yml",
    "trigger": '{type: cron, expression: "0 3 * * 1"}',
    "create_job": "./pipeline.yml",
    "expression": '"0 3 * * 1"',
    "entry_script": "score.py",
}

# What a step without a component has to give itself.
_OR_COMPONENT = {
    "command": "the command to run",
    "entry": "the script to run, such as `entry: {file: main.py}`",
}


def report_selector(tree: MappingContext, discriminator: Shape) -> Problem:
    """Report that the key is missing that selects the alternative of a union."""
    wanted = discriminator["key"]
    words = ", ".join(f"`{word}`" for word in discriminator["mapping"])
    typo = next((word for word in tree.node if closest(word, [wanted]) is not None), None)
    key = tree.node.key(typo) if typo is not None else None
    if key is not None:
        fix = fix_unambiguous(key.span, key.text, [wanted])
        return _unknown(key, tree, f"did you mean `{wanted}`?", fix)
    advice = f"write `{wanted}:` with one of {words}"
    return Problem("aml-missing-key", tree.anchor, f"{tree.title} needs `{wanted}`", advice)


def report_no_entries(tree: MappingContext) -> Problem:
    """Report a mapping of names that is empty."""
    message = f"{tree.title} is empty, so there is nothing to run"
    return Problem("aml-missing-key", tree.anchor, message, f"add at least one entry under {tree.title}")


def check_keys(tree: MappingContext, meant: set[str], *, blamed: bool) -> Iterator[Problem]:
    """Every problem of the mapping that concerns several of its keys.

    Args:
        tree: The mapping.
        meant: Keys that misplaced or mistyped ones stand for; they are not missing.
        blamed: Whether one of the keys is at fault already, so that a missing key may be a consequence.
    """
    node, shape = tree.node, tree.shape
    named = "name" in shape.get("x-registered-only", ())
    absent = [name for name in shape.get("required", ()) if name not in node and name not in meant]
    runnable = next((name for name in absent if name in _OR_COMPONENT), None)
    if runnable is not None and _is_step(tree):
        absent = [runnable]  # a step without anything to run: what else it lacks depends on that
    for name in absent:
        if not (named and name == "name"):
            yield _report_missing_key(tree, name)
    for name, needed in shape.get("dependentRequired", {}).items():
        key_node = node.key(name)
        partner = next((other for other in needed if other not in node), None)
        if key_node is not None and partner is not None:
            message = f"`{name}` needs `{partner}` beside it"
            yield Problem("aml-missing-key", key_node.span, message, f"add `{partner}:`")
    yield from _check_exclusive(tree, blamed=blamed)
    if named:
        yield from _check_component_name(tree)


def _is_step(tree: MappingContext) -> bool:
    """Whether the mapping could have named a component instead of giving a command."""
    return any("component" in sibling.shape.get("properties", {}) for sibling in tree.siblings)


def _report_missing_key(tree: MappingContext, name: str) -> Problem:
    properties = tree.shape["properties"]
    if name in _OR_COMPONENT and _is_step(tree):
        message = f"{tree.title} needs `{name}` or `component`"
        advice = f"add {_OR_COMPONENT[name]}, or the component to use"
        return Problem("aml-missing-key", tree.anchor, message, advice)
    if name == "type" and tree.parent is None:
        word = properties["type"]["enum"][0]
        message = f"the file has no `type`, so Azure ML takes it for a command, not a {word}"
        return Problem("aml-missing-key", tree.anchor, message, f"add `type: {word}`")
    example = _EXAMPLES.get(name, "")
    advice = f"add `{name}: {example}`" if example else f"add `{name}:`"
    return Problem("aml-missing-key", tree.anchor, f"{tree.title} needs `{name}`", advice)


def _check_exclusive(tree: MappingContext, *, blamed: bool) -> Iterator[Problem]:
    node, shape = tree.node, tree.shape
    one_of = shape.get("x-one-of-keys", ())
    for group in (*shape.get("x-exclusive-keys", ()), one_of):
        present = [key for key, _ in node.items() if key.text in group]
        if len(present) > 1:
            first, second = present[0].text, present[1]
            message = f"`{first}` and `{second.text}` exclude each other in {tree.title}"
            yield Problem("aml-exclusive-keys", second.span, message, "keep one of the two")
    if one_of and not blamed and not any(name in node for name in one_of):
        conda = node.key("conda_file")
        if conda is not None:
            message = f"`conda_file` needs `{one_of[0]}` beside it"
            advice = "add `image:` with the base image into which the packages go"
            yield Problem("aml-missing-key", conda.span, message, advice)
            return
        if tree.parent is None:
            return  # `az ml environment create` takes `--image` and `--build-tree`
        message = f"{tree.title} needs `{one_of[0]}` or `{one_of[1]}`"
        advice = "add `image:` with a base image, or `build:` with the path of a Docker tree"
        yield Problem("aml-missing-key", tree.anchor, message, advice)


def _check_component_name(tree: MappingContext) -> Iterator[Problem]:
    """Report the name of a component to be registered that Azure ML does not accept."""
    name = tree.node.get("name")
    if name is None:
        message = "the component has no `name`, which it needs to be registered"
        yield Problem("aml-component-name", tree.anchor, message, "add `name:`")
    elif not isinstance(name, Scalar) or not fits_shape(name.value, tree.shape["properties"]["name"]):
        shown = f"`{name.text[:60]}`" if isinstance(name, Scalar) else "what stands under `name`"
        message = f"{shown} is not a name under which a component can be registered"
        advice = "use lower-case letters, digits and `_`, and start with a letter"
        yield Problem("aml-component-name", name.span, message, advice)


# Words of other tools, of the documentation's errors and of Azure ML's first version.
ALIASES = {
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
    "code_path": "code",
    "compute_target": "compute",
    "cluster": "compute",
    "env": "environment_variables",
    "env_vars": "environment_variables",
    "conda": "conda_file",
    "default": "path",  # of a component's input; data of a job has no default
    "docker_image": "image",
    "experiment": "experiment_name",
    "source_directory": "code",
    "steps": "jobs",
}

# Keys of the schemas of the 2021 preview.
PREVIEW = {
    "algorithm": "sampling_algorithm",
    "data": "path",
    "dataset": "path",
    "default_value": "default",
    "defaults": "settings",
    "docker": "image",
    "file": "path",
    "folder": "path",
    "is_optional": "optional",
    "max_node_count": "max_instances",
    "max_value": "max",
    "min_node_count": "min_instances",
    "min_value": "min",
    "node_idle_time_before_scale_down": "idle_time_before_scale_down",
    "timeout_minutes": "timeout",
    "vm_priority": "tier",
}
# Keys whose value is another one under the key that is meant.
OTHER_UNITS = {"process_count": "the processes of one instance", "timeout_minutes": "in seconds"}
