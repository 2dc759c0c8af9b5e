"""What azure-ai-ml does beyond its schema classes: checks in constructors, loaders and validators.

Each amendment says where the SDK does it, so that it can be looked up again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

Shape = dict[str, Any]

# Nodes that the SDK tries for a `component` without `type`, in its order.
UNTYPED_NODES = ("command", "parallel", "spark")

# Steps that refer to a component.
NODES = frozenset(
    {
        *("CommandSchema", "ParallelSchema", "SweepSchema", "SparkSchema", "PipelineSchema", "ImportSchema"),
        *("DataTransferCopySchema", "DataTransferImportSchema", "DataTransferExportSchema"),
    }
)

# Schema class -> entity, where the names differ.
ENTITY_NAMES = {
    "MPIDistribution": "MpiDistribution",
    "BaseEnvironment": "Environment",
    "CommandJob": "Command",
    "PipelineCommandJob": "CommandJob",
    "ParameterizedCommand": "CommandJob",
    "ComponentResource": "JobResourceConfiguration",
    "PipelineJobSettings": "PipelineJobSettings",
    "DataInput": "Input",
    "ModelInput": "Input",
    "MLTableInput": "Input",
    "InputPort": "Input",
    "OutputPort": "Output",
    "JobSchedule": "JobSchedule",
}


def amend(name: str, shape: Shape) -> Shape:
    """The shape of the schema class ``name`` with what its entity adds."""
    amendment = _AMENDMENTS.get(name)
    _environment_variables(shape["properties"])
    if name in NODES:
        _node(shape["properties"])
    return amendment(shape) if amendment else shape


def _environment_variables(properties: Shape) -> None:
    """A process knows variables of text only; the SDK leaves it to the service to refuse the rest."""
    variables = properties.get("environment_variables", {})
    for part in variables.get("anyOf", [variables]):
        if part.get("type") == "object":
            part.setdefault("additionalProperties", {"type": ["string", "number", "boolean", "null"]})


def _node(properties: Shape) -> None:
    """A node's own names, BaseNode._get_skip_fields_in_schema_validation: in no schema, but kept and sent."""
    for key in ("name", "display_name", "experiment_name"):
        properties.setdefault(key, {"type": "string"})


def split(name: str, shape: Shape) -> dict[str, Shape]:
    """A component's literal input, one shape a type: Input.__init__ refuses min and max on the others.

    Whether a default fits its type, range and enum is a matter of values and left to the rules.
    """
    if name != "parameter":
        return {}
    branches = {}
    for kind in ("string", "integer", "number", "boolean"):
        own = {**shape["properties"], "type": {"type": "string", "enum": [kind]}}
        if kind in {"integer", "number"}:
            own |= {key: {"$ref": "#/$defs/number"} for key in ("min", "max")}
        else:
            own = {key: value for key, value in own.items() if key not in {"min", "max"}}
        branches[f"parameter_{kind}"] = {**shape, "properties": own}
    return branches


def _port(shape: Shape) -> Shape:
    """A data input has no default: entities/_inputs_outputs/input.py, _update_default."""
    shape["properties"].pop("default")
    return shape


# Docker takes neither an address of the web, nor blanks, nor capital letters after the host.
_IMAGE = r"^(?!https?://|docker://)(?![^/\s]*/[^:@\s]*[A-Z][a-z])\S+$"


def _environment(shape: Shape) -> Shape:
    """Environment.validate wants exactly one of image and build."""
    shape["x-one-of-keys"] = ["image", "build"]
    shape["properties"]["image"]["pattern"] = _IMAGE
    shape["properties"]["conda_file"] = {"anyOf": [{"type": "string", "x-path": "file"}, {"type": "object"}]}
    return shape


def _anonymous_environment(shape: Shape) -> Shape:
    """An environment written in place has no name of its own: what stands there is dropped unread."""
    amended = _environment(shape)
    amended["properties"] |= {"name": {"readOnly": True}, "version": {"readOnly": True}}
    return amended


def _compute_instance(shape: Shape) -> Shape:
    """ComputeInstance._to_rest_object sends the text as it is, and the service takes an ISO 8601 duration."""
    shape["properties"]["idle_time_before_shutdown"]["pattern"] = r"^P(\d+D)?(T(\d+H)?(\d+M)?(\d+S)?)?$"
    return shape


def _output(shape: Shape) -> Shape:
    """Output.__init__ refuses a version without a name."""
    return {**shape, "dependentRequired": {"version": ["name"]}}


def _parallel(shape: Shape) -> Shape:
    """parallel_run_function parses the size with this pattern."""
    size = shape["properties"]["mini_batch_size"]
    pattern = {"type": "string", "pattern": r"^\d+([kKmMgG][bB])*$"}
    for part in size.get("anyOf", [size]):
        if part.get("type") == "string" and "pattern" not in part:
            part.update(pattern)
    return shape


def _parallel_node(shape: Shape) -> Shape:
    """Parallel.__init__ leaves an expression alone (is_data_binding_expression)."""
    size = _parallel(shape)["properties"]["mini_batch_size"]
    binding = {"$ref": "common.schema.json#/$defs/binding"}
    shape["properties"]["mini_batch_size"] = {"anyOf": [binding, *size.get("anyOf", [size])]}
    return shape


def _inline_parallel(shape: Shape) -> Shape:
    """ParallelJob.__init__ hands unknown keys to object, which takes none."""
    return {**_parallel_node(shape), "additionalProperties": False}


def _pipeline(shape: Shape) -> Shape:
    """A pipeline without steps is accepted by the SDK, and there is nothing to run."""
    shape["properties"]["jobs"]["minProperties"] = 1
    return shape


def _pipeline_job(shape: Shape) -> Shape:
    """PipelineJobSchema.check_exclusive_fields."""
    return {**_pipeline(shape), "x-exclusive-keys": [["jobs", "component"]]}


def _schedule(shape: Shape) -> Shape:
    """JobSchedule.__init__ has no default for either."""
    return {**shape, "required": sorted([*shape["required"], "trigger", "create_job"])}


def _inline_command(shape: Shape) -> Shape:
    """CommandJob._to_component makes a component of it, and a component needs an environment."""
    return {**shape, "required": sorted({*shape["required"], "environment"})}


def _kubernetes(shape: Shape) -> Shape:
    """KubernetesCompute._load_from_dict fills in the namespace."""
    return {**shape, "required": [key for key in shape["required"] if key != "namespace"]}


def _bandit(shape: Shape) -> Shape:
    """Microsoft Learn, "Hyperparameter tuning a model": either of the two; the service refuses both."""
    return {**shape, "x-exclusive-keys": [["slack_factor", "slack_amount"]]}


def _settings(shape: Shape) -> Shape:
    """Settings that the SDK does not know are sent to the service as they are."""
    return {**shape, "x-unknown-keys": "kept"}


_AMENDMENTS = {
    "BanditPolicySchema": _bandit,
    "ComputeInstanceSchema": _compute_instance,
    "InputPortSchema": _port,
    "AnonymousEnvironmentSchema": _anonymous_environment,
    "EnvironmentSchema": _environment,
    "OutputSchema": _output,
    "ParallelSchema": _parallel_node,
    "PipelineParallelJobSchema": _inline_parallel,
    "ParallelJobSchema": _parallel,
    "ParallelComponentSchema": _parallel,
    "AnonymousParallelComponentSchema": _parallel,
    "PipelineJobSchema": _pipeline_job,
    "PipelineComponentSchema": _pipeline,
    "JobScheduleSchema": _schedule,
    "PipelineJobSettingsSchema": _settings,
    "KubernetesComputeSchema": _kubernetes,
    "PipelineCommandJobSchema": _inline_command,
}


def amend_kind(kind: str, shape: Shape) -> Shape:
    """A whole file: its `type` is compared letter by letter (Job._load, component_factory)."""
    if kind.endswith(("-job", "-component")):
        name = kind.rpartition("-")[0]
        shape["properties"]["type"] = {"type": "string", "enum": [name]}
        if kind == "command-component":
            shape["properties"]["type"] = {"type": ["string", "null"], "enum": [name, None]}
        elif name != "command":
            shape["required"] = sorted({*shape.get("required", []), "type"})
    if kind in ("data", "environment", "model") or kind.startswith(tuple(f"{each}-" for each in VARIANTS)):
        # `az ml ... create --file` takes `--name` and `--endpoint-name`, and `--set` the compute of a batch
        # deployment, as the official examples do. They are filled in before the schema is applied.
        given = ("name", "endpoint_name", "compute")
        shape["required"] = [key for key in shape.get("required", []) if key not in given]
    if kind.endswith("-component"):
        # A file that a pipeline refers to is anonymous: its name is neither read nor judged.
        shape["x-registered-only"] = ["name"]
    return shape


# Kinds of several classes -> how the alternative is chosen: Compute._load, OnlineEndpoint._load,
# OnlineDeployment._load; for batch deployments the command line, which loads one of three entities.
VARIANTS: dict[str, Shape] = {
    "compute": {"key": "type", "case": "ignore"},
    "online-endpoint": {"present": {"compute": 1}, "absent": 0},
    "online-deployment": {"key": "type", "case": "snake", "absent": 0},
    "batch-deployment": {"key": "type", "case": "ignore", "absent": 0},
}


def variants(shapes: list[Shape], names: list[str], kind: str, discriminator: Shape) -> Shape:
    """One shape of all variants of a kind; ``names`` end with what their `type` says."""
    chosen = dict(discriminator)
    if "key" in chosen:
        words = [name.removeprefix(f"{kind}-") for name in names]
        mapping = {word: position for position, word in enumerate(words) if word != "untyped"}
        absent = {"absent": chosen.pop("absent")} if "absent" in chosen else {}
        chosen |= {"mapping": mapping, **absent}
    return {"oneOf": shapes, "x-discriminator": chosen}


def merge(shapes: list[Shape], target: Callable[[Shape], Shape]) -> Shape:
    """A mapping that has every key of ``shapes``; where they differ in a key, its value may be either's."""
    merged = copy.deepcopy(shapes[0])
    for shape in shapes[1:]:
        for key, value in shape["properties"].items():
            known = merged["properties"].setdefault(key, value)
            if bare(known) != bare(value):
                merged["properties"][key] = _join(known, value, target)
        merged["required"] = [key for key in merged.get("required", []) if key in shape.get("required", [])]
    merged["properties"] = dict(sorted(merged["properties"].items()))
    return merged


def _join(first: Shape, second: Shape, target: Callable[[Shape], Shape]) -> Shape:
    one, two = enum_of(first), enum_of(second)
    if one is not None and two is not None:
        joined: Shape = copy.deepcopy(first)
        for part in joined.get("anyOf", [joined]):
            if "enum" in part:
                part["enum"] = list(dict.fromkeys(one + two))
        return joined
    left, right = target(first), target(second)
    if "properties" in left and "properties" in right:
        described = {key: value for key, value in first.items() if key == "description"}
        return {**bare(merge([left, right], target)), **described}
    return {}


def bare(shape: Shape) -> Shape:
    """``shape`` without its description."""
    return {key: value for key, value in shape.items() if key != "description"}


def enum_of(shape: Shape) -> list[str] | None:
    """The words that ``shape`` allows, apart from bindings; None where any word is."""
    for part in shape.get("anyOf", [shape]):
        if "enum" in part:
            words: list[str] = part["enum"]
            return words
    return None


def case_of(shape: Shape) -> str:
    """How the words of ``shape`` are compared."""
    return next((part["x-case"] for part in shape.get("anyOf", [shape]) if "x-case" in part), "exact")


def takes_binding(shape: Shape) -> bool:
    """Whether an expression may stand for the word."""
    return any(part.get("$ref", "").endswith("/binding") for part in shape.get("anyOf", ()))


def telling_keys(shapes: list[Shape]) -> dict[str, int]:
    """A key that only one of ``shapes`` requires -> its position."""
    return {
        key: position
        for position, shape in enumerate(shapes)
        for key in shape.get("required", [])
        if sum(key in other.get("required", []) for other in shapes) == 1
    }
