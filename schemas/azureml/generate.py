"""Write the JSON Schemas of this folder from the schema classes of azure-ai-ml.

Run it after azure-ai-ml was upgraded: ``python schemas/azureml/generate.py [--output FOLDER]``. It
needs the `azure` extra. The output depends on nothing but that package's version, so two runs give
the same bytes. What the classes do not say, but the SDK does, is in amend.py.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import amend
from azure.ai.ml.constants._common import BASE_PATH_CONTEXT_KEY
from marshmallow import INCLUDE, RAISE
from shapes import SCALARS, Shape, object_shape, one_line, shape_of

HERE = Path(__file__).resolve().parent
PACKAGE = "azure-ai-ml"
NODES_FILE = "nodes.schema.json"
COMMON_FILE = "common.schema.json"

# kind -> module below azure.ai.ml._schema, class, and what it does with unknown keys.
KINDS: dict[str, tuple[str, str, str]] = {
    "pipeline-job": ("pipeline.pipeline_job", "PipelineJobSchema", RAISE),
    "command-job": ("job.command_job", "CommandJobSchema", RAISE),
    "sweep-job": ("_sweep.sweep_job", "SweepJobSchema", RAISE),
    "parallel-job": ("job.parallel_job", "ParallelJobSchema", RAISE),
    "spark-job": ("job.spark_job", "SparkJobSchema", RAISE),
    "command-component": ("component.command_component", "CommandComponentSchema", INCLUDE),
    "pipeline-component": ("pipeline.pipeline_component", "PipelineComponentSchema", INCLUDE),
    "parallel-component": ("component.parallel_component", "ParallelComponentSchema", INCLUDE),
    "spark-component": ("component.spark_component", "SparkComponentSchema", INCLUDE),
    "schedule": ("schedule.schedule", "JobScheduleSchema", RAISE),
    "data": ("assets.data", "DataSchema", RAISE),
    "environment": ("assets.environment", "EnvironmentSchema", RAISE),
    "model": ("assets.model", "ModelSchema", RAISE),
    "online-endpoint-managed": ("_endpoint", "ManagedOnlineEndpointSchema", RAISE),
    "online-endpoint-kubernetes": ("_endpoint", "KubernetesOnlineEndpointSchema", RAISE),
    "online-deployment-managed": (
        "_deployment.online.online_deployment",
        "ManagedOnlineDeploymentSchema",
        RAISE,
    ),
    "online-deployment-kubernetes": (
        "_deployment.online.online_deployment",
        "KubernetesOnlineDeploymentSchema",
        RAISE,
    ),
    "batch-endpoint": ("_endpoint", "BatchEndpointSchema", RAISE),
    "batch-deployment-untyped": ("_deployment.batch.batch_deployment", "BatchDeploymentSchema", RAISE),
    "batch-deployment-model": (
        "_deployment.batch.model_batch_deployment",
        "ModelBatchDeploymentSchema",
        RAISE,
    ),
    "batch-deployment-pipeline": (
        "_deployment.batch.pipeline_component_batch_deployment_schema",
        "PipelineComponentBatchDeploymentSchema",
        RAISE,
    ),
    "compute-amlcompute": ("compute.aml_compute", "AmlComputeSchema", RAISE),
    "compute-computeinstance": ("compute.compute_instance", "ComputeInstanceSchema", RAISE),
    "compute-kubernetes": ("compute.kubernetes_compute", "KubernetesComputeSchema", RAISE),
    "compute-virtualmachine": ("compute.virtual_machine_compute", "VirtualMachineComputeSchema", RAISE),
    "compute-synapsespark": ("compute.synapsespark_compute", "SynapseSparkComputeSchema", RAISE),
}

# Kinds that share the shapes of steps; a batch deployment may define a pipeline in place.
_PIPELINES = {"pipeline-job", "pipeline-component", "batch-deployment"}

# Where an entity class with a documented constructor may be found.
ENTITY_MODULES = (
    "azure.ai.ml.entities",
    "azure.ai.ml",
    "azure.ai.ml.sweep",
    "azure.ai.ml.entities._job.job_limits",
)


_PARAMETER = re.compile(r":(?:param|keyword)\s+(\w+):\s*(.*?)(?=\n\s*:|\n\s*\.\.|\n\s*\n|\Z)", re.DOTALL)


class Registry:
    """The shapes of all schema classes met so far, by name."""

    def __init__(self) -> None:
        self.shapes: dict[str, Shape] = {}

    def reference(self, schema: Any, unknown: str) -> Shape:
        """A `$ref` to ``schema``; the shape is made once a class, openness and bindings."""
        name = definition_name(schema, unknown)
        if name not in self.shapes:
            self.shapes[name] = head_of(schema, self)  # a class may hold itself
            self.shapes[name] = self.make(schema, unknown)
        parts = amend.split(name, self.shapes[name])
        self.shapes.update(parts)
        if parts:
            return {"oneOf": [{"$ref": f"#/$defs/{part}"} for part in parts]}
        return {"$ref": f"#/$defs/{name}"}

    def make(self, schema: Any, unknown: str) -> Shape:
        """The amended and described shape of ``schema``."""
        if type(schema).__name__.startswith("AutoML"):
            return {"type": "object", "properties": {"type": {}, "task": {}}, "additionalProperties": True}
        shape = object_shape(schema, unknown, self)
        describe(shape, type(schema))
        return amend.amend(type(schema).__name__, shape)

    def target(self, shape: Shape) -> Shape:
        """What a `$ref` stands for."""
        reference = shape.get("$ref")
        return self.shapes[reference.removeprefix("#/$defs/")] if reference else shape

    def by_type(self, branches: dict[str, list[Shape]], key: str) -> Shape:
        """The union that the SDK itself groups by the text under ``key``."""
        mapping = {name: self.alternative(shapes) for name, shapes in branches.items() if shapes}
        shapes = list(mapping.values())
        discriminator: Shape = {"key": key, "case": "ignore", "mapping": positions(mapping, shapes)}
        if "sweep" in mapping:  # the nodes of a pipeline
            shapes.append(self.untyped(mapping))
            discriminator["absent"] = len(shapes) - 1
        elif "pipeline" in mapping:  # what a schedule creates
            discriminator["absent"] = discriminator["mapping"]["pipeline"]
        return {"oneOf": shapes, "x-discriminator": discriminator}

    def untyped(self, mapping: dict[str, Shape]) -> Shape:
        """A node without `type`: a sweep by its `trial`, any component by `component`, else a command."""
        targets = [self.target(mapping[name]["oneOf"][0]) for name in amend.UNTYPED_NODES]
        component = amend.merge(targets, self.target)
        component["properties"]["component"] = self.inline_components(targets)
        self.shapes["untyped_component_node"] = component
        command, parallel, spark = (mapping[name]["oneOf"][1] for name in ("command", "parallel", "spark"))
        branches = [{"$ref": "#/$defs/untyped_component_node"}, mapping["sweep"], parallel, spark, command]
        present = {"component": 0, "trial": 1, "task": 2, "entry": 3}
        return {"oneOf": branches, "x-discriminator": {"present": present, "absent": 4}}

    def inline_components(self, nodes: list[Shape]) -> Shape:
        """A reference, or a component written in place, whose own `type` says which; a command without."""
        texts, mappings = [], []
        for node in nodes:
            *others, mapping = node["properties"]["component"]["anyOf"]
            texts, mappings = [*texts, *(part for part in others if part not in texts)], [*mappings, mapping]
        kinds = {name: position for position, name in enumerate(amend.UNTYPED_NODES)}
        discriminator = {"key": "type", "case": "ignore", "mapping": kinds, "absent": 0}
        return {"anyOf": [*texts, {"oneOf": mappings, "x-discriminator": discriminator}]}

    def alternative(self, shapes: list[Shape]) -> Shape:
        """The one shape of a type, or its component form and its inline form."""
        if len(shapes) == 1:
            return shapes[0]
        if len(shapes) > 2:  # the ten AutoML tasks; their settings are not ours to judge
            return {"type": "object", "additionalProperties": True}
        return {"oneOf": shapes, "x-discriminator": {"present": {"component": 0}, "absent": 1}}

    def discriminate(self, branches: list[Shape]) -> Shape:
        """Choose among mappings by the values that their `type` allows, or by a telling key."""
        if len(branches) == 1:
            return branches[0]
        targets = [self.target(branch) for branch in branches]
        free = [t for t in targets if t.get("type") == "object" and not t.get("properties") and t is not None]
        if free:
            return free[0]
        if all("type" not in target["properties"] for target in targets):
            telling = amend.telling_keys(targets)
            without = (position for position in range(len(targets)) if position not in telling.values())
            discriminator = {"present": telling, "absent": next(without, 0)}
            return {"oneOf": branches, "x-discriminator": discriminator}
        return self.by_allowed_types(branches, targets)

    def by_allowed_types(self, branches: list[Shape], targets: list[Shape]) -> Shape:
        """Each branch allows its own values of `type`."""
        mapping: dict[str, int] = {}
        shapes = list(branches)
        discriminator: Shape = {"key": "type", "case": "exact", "mapping": mapping}
        untyped = [t for t in targets if "type" not in t.get("required", [])]
        for position, target in enumerate(targets):
            kind = target["properties"].get("type")
            allowed = amend.enum_of(kind) if kind is not None else None
            if allowed is None:
                discriminator["other" if kind is not None else "value"] = position
                continue
            discriminator["case"] = amend.case_of(kind)
            if amend.takes_binding(kind):
                discriminator["binding"] = True
            mapping.update(dict.fromkeys(allowed, position))
        if "value" in discriminator:  # a literal written as {value: …} has no type
            discriminator["present"] = {"value": discriminator.pop("value")}
            untyped = [t for t in untyped if "type" in t["properties"]]
        if len(untyped) == 1:
            discriminator["absent"] = targets.index(untyped[0])
        elif untyped:
            name = f"untyped_{branches[0]['$ref'].removeprefix('#/$defs/')}"
            self.shapes[name] = amend.merge(untyped, self.target)
            shapes.append({"$ref": f"#/$defs/{name}"})
            discriminator["absent"] = len(shapes) - 1
        return {"oneOf": shapes, "x-discriminator": discriminator}


def head_of(schema: Any, registry: Registry) -> Shape:
    """What a union needs to know of a shape that is still being made: its `type`."""
    kind = schema.load_fields.get("type")
    if kind is None:
        return {}
    required = ["type"] if kind.required else []
    return {"type": "object", "properties": {"type": shape_of(kind, registry)}, "required": required}


def positions(mapping: dict[str, Shape], shapes: list[Shape]) -> dict[str, int]:
    """Where each name's shape stands in ``shapes``."""
    return {name: shapes.index(shape) for name, shape in mapping.items()}


def definition_name(schema: Any, unknown: str) -> str:
    """`CommandJobLimitsSchema` -> `command_job_limits`, then `_open`, `_bound` where it is met so."""
    stem = re.sub(r"Schema$", "", type(schema).__name__).lstrip("_")
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", stem).lower()
    bound = "_bound" if getattr(schema, "_data_binding_supported", False) else ""
    return name + ("_open" if unknown == INCLUDE else "") + bound


def describe(shape: Shape, schema: type) -> None:
    """Add the entity's own words for its parameters, their first sentence."""
    name = re.sub(r"(Node)?Schema$", "", schema.__name__).lstrip("_").replace("Anonymous", "")
    for parameter, text in documented(name).items():
        known = shape["properties"].get(parameter)
        if isinstance(known, dict) and known and "description" not in known and "readOnly" not in known:
            shape["properties"][parameter] = {"description": text, **known}


def documented(name: str) -> dict[str, str]:
    """Parameter -> description, from the docstring of the entity ``name`` and of its constructor."""
    for module in ENTITY_MODULES:
        entity = getattr(importlib.import_module(module), amend.ENTITY_NAMES.get(name, name), None)
        if entity is not None:
            text = f"{entity.__doc__ or ''}\n{entity.__init__.__doc__ or ''}"
            found = _PARAMETER.findall(text)
            return {key: first_sentence(words) for key, words in found if words.strip()}
    return {}


def first_sentence(text: str) -> str:
    """``text`` up to its first full stop that ends a sentence."""
    return re.split(r"(?<=[a-z)])\.\s", one_line(text), maxsplit=1)[0].rstrip(".") + "."


def collect() -> tuple[dict[str, Shape], dict[str, Shape]]:
    """The shape of every kind, and of every definition they use."""
    registry = Registry()
    kinds = {}
    for kind, (module, name, unknown) in KINDS.items():
        schema = getattr(importlib.import_module(f"azure.ai.ml._schema.{module}"), name)
        kinds[kind] = registry.make(schema(context={BASE_PATH_CONTEXT_KEY: HERE}), unknown)
        kinds[kind] = amend.amend_kind(kind, kinds[kind])
    for kind, discriminator in amend.VARIANTS.items():
        own = [each for each in kinds if each.startswith(f"{kind}-")]
        kinds[kind] = amend.variants([kinds.pop(each) for each in own], own, kind, discriminator)
    return kinds, {**SCALARS, **registry.shapes}


def used_by(shape: Any, definitions: dict[str, Shape], found: set[str]) -> set[str]:
    """Names of all definitions that ``shape`` leads to."""
    for name in re.findall(r'"#/\$defs/(\w+)"', json.dumps(shape)):
        if name not in found:
            found.add(name)
            used_by(definitions[name], definitions, found)
    return found


def files() -> dict[str, str]:
    """File name -> text."""
    kinds, definitions = collect()
    users: dict[str, set[str]] = {}
    for kind, shape in kinds.items():
        for name in used_by(shape, definitions, set()):
            users.setdefault(name, set()).add(kind)
    home: dict[str, str] = {}
    for name, by in users.items():
        if len(by) == 1:
            home[name] = f"{next(iter(by))}.schema.json"
        else:
            home[name] = NODES_FILE if by <= _PIPELINES else COMMON_FILE
    documents: dict[str, Shape] = {NODES_FILE: {}, COMMON_FILE: {}}
    documents.update({f"{kind}.schema.json": shape for kind, shape in kinds.items()})
    return {name: render(name, shape, definitions, home) for name, shape in documents.items()}


def render(name: str, shape: Shape, definitions: dict[str, Shape], home: dict[str, str]) -> str:
    """One file's text: its own shape and the definitions that live in it."""
    version = importlib.metadata.version(PACKAGE)
    document: Shape = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"Made by generate.py from {PACKAGE} {version} (Microsoft, MIT licence). Do not edit.",
        "title": f"Azure ML {name.removesuffix('.schema.json').replace('-', ' ')}",
        **shape,
    }
    own = {key: definitions[key] for key in sorted(home) if home[key] == name}
    if own:
        document["$defs"] = own
    text = json.dumps(document, indent=1, ensure_ascii=False)
    text = re.sub(r'"#/\$defs/(\w+)"', lambda found: f'"{location(found[1], name, home)}"', text)
    return compact(text) + "\n"


def location(definition: str, name: str, home: dict[str, str]) -> str:
    """A reference to ``definition`` as it is written in the file ``name``."""
    return f"{'' if home[definition] == name else home[definition]}#/$defs/{definition}"


def compact(text: str) -> str:
    """Put short lists and mappings on one line, so that a property is a line."""
    pattern = re.compile(r"([\[{])\n\s*((?:[^\[\]{}\"\n]|\"(?:[^\"\\\n]|\\.)*\"|,\n\s*)*?)\n\s*([\]}])")
    previous = ""
    while previous != text:
        previous = text
        text = pattern.sub(joined, text)
    return text


def joined(found: re.Match[str]) -> str:
    """What was found, on one line unless that would be unpleasant to read."""
    line: str = found[1] + re.sub(r",\n\s*", ", ", found[2]) + found[3]
    return found[0] if len(line) > 150 else line


def main() -> None:
    """Write all files, and remove those that are no longer made."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=HERE, help="folder to write to")
    output: Path = parser.parse_args().output
    logging.disable(logging.WARNING)  # "experimental" notices of the SDK
    made = files()
    for old in output.glob("*.schema.json"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (output / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(made)} files, {sum(map(len, made.values()))} bytes\n")


if __name__ == "__main__":
    main()
