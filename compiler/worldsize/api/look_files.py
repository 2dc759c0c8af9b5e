"""The job that looks whether a compiled spec is to be trained again, and what it needs of the spec.

It reads the folder that a compile writes: the training pipeline, what is to be known of the spec, and an
archive of the compiler, so that the job needs nothing but Azure ML.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from worldsize.api.bundle import FILE, Content, bundle_component
from worldsize.azureml import write, yaml_dump
from worldsize.azureml.component import load_component
from worldsize.azureml.copying import Archive, CopyAccess
from worldsize.azureml.files import Files
from worldsize.azureml.model import Field, Step
from worldsize.azureml.references import classify
from worldsize.base import resources, untrusted
from worldsize.documents import yaml
from worldsize.planning.model import Plan
from worldsize.resolving.planned import Planned

JOB, RETRAINED, ARCHIVE = "look.yml", "look/retrain.json", "look/worldsize.whl"
INITIAL = "initial_model"  # the input of a trainer that has the weights to start from
REFERENCE = "feed_reference"  # the input of `shard_data` that has the statistics of the champion's feed
RESUMED, CHECKPOINTS = "resume_from", "checkpoints"  # the ports of a trainer that continues
NOW, FIRING = "now", "${{creation_context.trigger_time}}"
_NOT_TRAINED = ("schedule", "retrain", "description", "display_name", "tags")  # keys that no model depends on
_CODE = "components/"  # what does not follow from the spec and the data
_PACKED = (".py", ".csv", ".txt", ".json")
_OLDEST = (1980, 1, 1, 0, 0, 0)  # of zip: the same archive for the same files


class Watched(Struct, frozen=True):
    """Data that a training reads: an input of the pipeline, or of a step."""

    name: str  # of the input, or `step.input`
    type: str
    path: str

    @property
    def is_mounted(self) -> bool:
        """Whether the job of a look mounts it; of an asset it takes the newest version instead."""
        return classify(self.path) == "web" or self.path.startswith("azureml://")


class Retrained(Struct, frozen=True):
    """What a look in a workspace must know of a compiled spec."""

    name: str
    spec: str  # its text
    code: str  # a digest of what a model depends on beside the data
    trainers: tuple[str, ...]
    initial: tuple[str, ...]  # trainers that may start from other weights
    resumed: tuple[str, ...]  # trainers that may start from checkpoints
    judges: tuple[str, ...]  # steps that compare their rows with those of the champion
    verdict: str  # the step that promotes
    watched: tuple[Watched, ...]
    inputs: Mapping[str, Any]  # that the schedule gives the pipeline


def digest_code(text: str, files: Mapping[str, Path | bytes | Archive]) -> str:
    """A digest of a spec, its code and its environments; ``files`` are those that it is compiled to."""
    root = yaml.load("spec.yml", text).root
    assert root is not None
    spec = yaml.to_python(root)
    kept = {key: value for key, value in spec.items() if key not in _NOT_TRAINED}
    kept |= {"feed": (spec.get("retrain") or {}).get("feed")}  # a stopped feed is judged again
    total = hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode())
    for name, source in sorted(files.items()):
        if name.startswith(_CODE):
            content = untrusted.read_bytes(source) if isinstance(source, Path) else source
            content = content.content() if isinstance(content, Archive) else content
            total.update(b"\0".join((b"", os.fsencode(name), hashlib.sha256(content).digest())))
    return total.hexdigest()


def describe_retrained(
    planned: Planned, plan: Plan, files: Mapping[str, Path | bytes | Archive]
) -> Retrained:
    """What a look must know of a spec that is compiled to these files."""
    spec, text = planned.spec, untrusted.read_text(planned.spec.path)
    trainers = [planned.job.steps[name] for name, step in plan.steps.items() if step.training is not None]
    scheduled = spec.schedule.inputs if spec.schedule is not None else {}
    return Retrained(
        spec.name.value,
        text,
        digest_code(text, files),
        tuple(step.name for step in trainers),
        tuple(step.name for step in trainers if _has_open(step, INITIAL)),
        tuple(step.name for step in trainers if _has_open(step, RESUMED) and _has_output(step, CHECKPOINTS)),
        tuple(list_takers(planned, REFERENCE)),
        find_promoting(planned).name,
        tuple(Watched(name, kind or "uri_folder", path) for name, kind, path, _ in planned.job.list_data()),
        {name: located.value for name, located in scheduled.items()},
    )


def find_promoting(planned: Planned) -> Step:
    """The step whose output says whether the new model is the champion; the look runs where it does."""
    return next(step for step in planned.job.steps.values() if _has_output(step, "promotion"))


def looks_on(planned: Planned, profiles: Collection[str]) -> bool:
    """Whether the scheduled look runs on a cluster that has these profiles: it then needs an identity."""
    spec = planned.spec
    if spec.schedule is None or spec.retrain is None:
        return False
    compute = spec.steps[find_promoting(planned).name].compute
    return compute is not None and compute.value in profiles


def list_takers(planned: Planned, port: str) -> list[str]:
    """The steps whose input of this name has no value."""
    return [step.name for step in planned.job.steps.values() if _has_open(step, port)]


def _has_open(step: Step, port: str) -> bool:
    return step.component is not None and port in step.component.inputs and port not in step.inputs


def _has_output(step: Step, port: str) -> bool:
    return step.component is not None and port in step.component.outputs


def lay_out_look(planned: Planned, plan: Plan, files: Content, gate: CopyAccess) -> Content:
    """The files of the job that looks, beside those that a spec is compiled to."""
    retrained = describe_retrained(planned, plan, files)
    mounted = {_name_port(data): data for data in retrained.watched if data.is_mounted}
    step = find_promoting(planned)
    component = load_component(resources.component_file("look"), Files())
    assert component is not None
    bundle = bundle_component(component, step.span or planned.spec.span, gate)
    document = bundle.document
    words = [f"--data '{data.name}=${{{{inputs.{port}}}}}'" for port, data in mounted.items()]
    document["inputs"] |= {
        port: {"type": data.type, "description": f"What `{data.name}` of the pipeline reads."}
        for port, data in mounted.items()
    }
    document["command"] = " ".join([str(document["command"]).rstrip(), *words])
    folder = Path(JOB).stem
    return {
        JOB: _dump_job(planned, step, mounted).encode(),
        f"{folder}/{FILE}": yaml_dump.dump(document).encode(),
        **{f"{folder}/{name}": source for name, source in bundle.files.items()},
        RETRAINED: json.dumps(to_builtins(retrained), indent=2).encode(),
        ARCHIVE: pack_compiler(),
    }


def _name_port(data: Watched) -> str:
    return "data_" + re.sub(r"\W", "_", data.name)


def _dump_job(planned: Planned, step: Step, mounted: Mapping[str, Watched]) -> str:
    spec = planned.spec
    ports = ["pipeline", NOW, *mounted]
    document = {
        "$schema": f"{write.SCHEMAS}/pipelineJob.schema.json",
        "type": "pipeline",
        "display_name": f"look at {(spec.display_name or spec.name).value}",
        "experiment_name": spec.experiment_name.value if spec.experiment_name else None,
        "inputs": {
            "pipeline": {"type": "uri_folder", "path": "."},
            NOW: Field("clock", comment="a schedule gives the time of its firing"),
            **{
                port: {"type": data.type, "path": data.path, "mode": "ro_mount"}
                for port, data in mounted.items()
            },
        },
        "jobs": {
            "look": write.present(
                {
                    "type": "command",
                    "component": f"./{Path(JOB).stem}/{FILE}",
                    "compute": step.compute or planned.job.compute,
                    "identity": {"type": "managed"},
                    "inputs": {port: f"${{{{parent.inputs.{port}}}}}" for port in ports},
                }
            )
        },
    }
    header = f"Compiled by worldsize from {spec.path.name}: trains by pipeline.yml if anything is new."
    return yaml_dump.dump(write.present(document), header=header, paragraphs="jobs")


def pack_compiler() -> bytes:
    """An archive of this package and of what components share, which Python imports as it is unpacked."""
    package, shared = Path(__file__).parents[1], resources.components() / "_shared"
    roots = {"worldsize": package, "worldsize/_data/schemas": resources.schemas()}
    roots["worldsize/_data/components/_shared"] = shared
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, root in roots.items():
            for path in sorted(root.rglob("*")):
                inside = path.relative_to(root)
                if path.suffix in _PACKED and inside.parts[0] != "_data" and path.is_file():
                    entry = zipfile.ZipInfo(f"{place}/{inside.as_posix()}", _OLDEST)
                    archive.writestr(entry, untrusted.read_bytes(path), zipfile.ZIP_DEFLATED)
    return content.getvalue()
