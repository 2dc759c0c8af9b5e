"""Recognises the kind of a YAML file by ``$schema``, ``type`` and keys; None if it is not Azure ML's.

The SDK never reads ``$schema``, and the keys decide where both are there and disagree on more than
job against component. A guess is only made from keys that no other tool's files have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.fields import read_mapping, read_text
from worldsize.azureml.literals import PRIMITIVES
from worldsize.base.problem import Fix, Problem
from worldsize.base.suggest import closest
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence

# Kinds with a shape of their own.
CHECKED = frozenset(
    {
        "pipeline-job", "command-job", "sweep-job", "spark-job", "parallel-job",
        "command-component", "pipeline-component", "parallel-component", "spark-component",
        "compute", "schedule", "data", "environment", "model",
        "online-endpoint", "online-deployment", "batch-endpoint", "batch-deployment",
    }
)  # fmt: skip

_JOBS = ("pipeline", "command", "sweep", "spark", "parallel")
_LOOSE_JOBS = ("automl", "import", "data_transfer", "finetuning", "fine_tuning", "distillation")
_COMPONENTS = ("command", "pipeline", "parallel", "spark")
_COMPUTES = ("amlcompute", "computeinstance", "kubernetes", "virtualmachine", "synapsespark")
_DATA = ("uri_file", "uri_folder", "mltable")
_MODELS = ("custom_model", "mlflow_model", "triton_model")
_OF_COMMANDS = ("code", "inputs", "outputs", "version", "resources", "distribution", "is_deterministic")

_SCHEMA_NAME = re.compile(r"/([a-z0-9]+)\.schema\.json")
_BY_SCHEMA = {
    **{f"{name}job": f"{name}-job" for name in _JOBS},
    **{f"{name}component": f"{name}-component" for name in _COMPONENTS},
    **{name: name for name in ("compute", "schedule", "data", "environment", "model")},
    **dict.fromkeys(("amlcompute", "computeinstance", "kubernetescompute", "vmcompute"), "compute"),
    **dict.fromkeys(("virtualmachinecompute", "synapsesparkcompute"), "compute"),
    **{f"{prefix}onlineendpoint": "online-endpoint" for prefix in ("", "managed", "kubernetes")},
    **{f"{prefix}onlinedeployment": "online-deployment" for prefix in ("", "managed", "kubernetes")},
    "batchendpoint": "batch-endpoint",
    **{f"{prefix}batchdeployment": "batch-deployment" for prefix in ("", "model", "pipelinecomponent")},
}


def recognise(root: Node | None, path: str = "") -> str | None:
    """The kind of a document, from its root node and file name (``MLTable`` is a name of its own).

    Returns:
        One of :data:`CHECKED`; ``other`` for what is Azure ML's but not checked here (AutoML jobs,
        MLTable files, monitors); None for everything else.
    """
    if not isinstance(root, Mapping):
        return None
    if path.rpartition("/")[2].lower() in {"mltable", "mltable.yml", "mltable.yaml"}:
        return "other"
    declared = _declared(root)
    if declared is None and ("steps" in root and "jobs" not in root):
        return None  # a spec of ours, or another tool's file
    kind = _schedule(root) if declared in (None, "schedule") else None
    return kind or _by_declaration(root, declared) or _by_keys(root)


def check_schema_name(root: Node, kind: str) -> Iterator[Problem]:
    """Report a ``$schema`` of another kind of job or component than the file is."""
    node = root.get("$schema") if isinstance(root, Mapping) else None
    declared = _declared(root) if isinstance(root, Mapping) else None
    kinds = ("-job", "-component")
    if not isinstance(node, Scalar) or declared in (None, kind) or not kind.endswith(kinds):
        return
    if declared is not None and declared.endswith(kinds):
        wrong, right = (f"{name[0]}{name[1].capitalize()}" for name in (declared.split("-"), kind.split("-")))
        message = (
            f"`$schema` names {_with_article(declared)}, but the keys are those of {_with_article(kind)}"
        )
        at = node.text.lower().rfind(wrong.lower())
        corrected = node.text[:at] + right + node.text[at + len(wrong) :]
        advice = f"write `{corrected}`; Azure ML does not read `$schema`, but editors do"
        yield Problem("aml-wrong-schema", node.span, message, advice, fix=Fix(node.span, corrected))


def _with_article(kind: str) -> str:
    return f"a {kind.replace('-', ' ')}"


def _declared(root: Mapping) -> str | None:
    """The kind that ``$schema`` names, if any; ``other`` for an Azure ML schema that we do not check."""
    text = read_text(root, "$schema")
    if text is None:
        return None
    _, of_azure, path = text.lower().partition("azureml")
    names = _SCHEMA_NAME.findall(path) if of_azure else []
    if not names:  # `http://azureml/sdk-2-0/Schedule.json` names no kind either
        return None if of_azure else "foreign"
    return _BY_SCHEMA.get(names[-1], "other")


def _by_declaration(root: Mapping, declared: str | None) -> str | None:
    if declared is None:
        return None
    if declared == "foreign":
        return None if not read_text(root, "type") else _by_keys(root)
    kind = (read_text(root, "type") or "").lower()
    if declared.endswith("-job") and kind in _LOOSE_JOBS:
        return "other"
    if declared == "data" and _is_imported(root):
        return "other"
    for suffix, names in (("-job", _JOBS), ("-component", _COMPONENTS)):
        if declared.endswith(suffix) and kind in names:
            declared = kind + suffix
    component = declared.removesuffix("-job") + "-component"
    return component if component in CHECKED and _declares_ports(root) else declared


def _schedule(root: Mapping) -> str | None:
    if "create_monitor" in root or "import_data" in root:
        return "other"
    trigger = read_mapping(root, "trigger")
    timed = trigger is not None and ("expression" in trigger or "frequency" in trigger)
    kind = (read_text(trigger, "type") or "").lower() if trigger is not None else ""
    creates_job = "create_job" in root and ("trigger" in root or "name" in root)
    return "schedule" if creates_job or (timed and kind in ("cron", "recurrence")) else None


def _by_keys(root: Mapping) -> str | None:
    kind = (read_text(root, "type") or "").lower()
    if _is_compute(root, kind):
        return "compute"
    if _is_left_alone(root, kind):
        return "other"
    asset = _asset(root, kind)
    if asset is not None:
        return asset
    if isinstance(root.get("jobs"), Mapping):
        return _pipeline(root, kind)
    if kind == "pipeline":  # with its jobs misspelt, or not a mapping
        keys = ("jobs", "settings", "experiment_name", "component", "compute", "outputs")
        return "pipeline-job" if any(key in root for key in keys) else None
    return _single(root, kind) or _environment(root, kind)


def _asset(root: Mapping, kind: str) -> str | None:
    """Data, a model or the deployment of one."""
    if kind in _DATA and ("path" in root or "name" in root):
        return "other" if _is_imported(root) else "data"
    if "path" in root and closest(kind, _MODELS) is not None:
        return "model"
    if "endpoint_name" in root and ("model" in root or "code_configuration" in root):
        return "batch-deployment" if "compute" in root else "online-deployment"
    return None


def _is_imported(root: Mapping) -> bool:
    """Data that `az ml data import` brings from a database or another store, or an index made of it."""
    return isinstance(root.get("source"), Mapping)


def _is_left_alone(root: Mapping, kind: str) -> bool:
    if kind in _LOOSE_JOBS:
        return "task" in root or "compute" in root or "source" in root
    return "paths" in root and (kind == "mltable" or "transformations" in root)


def _is_compute(root: Mapping, kind: str) -> bool:
    if kind in ("kubernetes", "virtualmachine"):  # types of deployments and of other tools' files too
        return "resource_id" in root and "endpoint_name" not in root
    if kind in _COMPUTES:
        return True
    return closest(kind, _COMPUTES) is not None and any(key in root for key in ("size", "max_instances"))


def _pipeline(root: Mapping, kind: str) -> str | None:
    jobs = root.get("jobs")
    assert isinstance(jobs, Mapping)
    nodes = [node for _, node in jobs.items() if isinstance(node, Mapping)]
    if any("runs-on" in node or "steps" in node or "uses" in node for node in nodes):
        return None  # a GitHub workflow
    if kind != "pipeline" and not any(_is_node(node) for node in nodes):
        return None
    return "pipeline-component" if _declares_ports(root) else "pipeline-job"


def _is_node(node: Mapping) -> bool:
    kind = (read_text(node, "type") or "").lower()
    if kind in {"command", "sweep", "parallel", "automl"} or "component" in node or "trial" in node:
        return True
    return "command" in node and _looks_like_azure(node)


def _single(root: Mapping, kind: str) -> str | None:
    """A command, sweep, parallel or spark file."""
    if kind == "sweep":
        return "sweep-job" if "trial" in root or "search_space" in root else None
    if kind == "parallel":
        return "parallel-component" if "task" in root else None
    if kind == "spark":
        return None if "entry" not in root else ("spark-component" if _declares_ports(root) else "spark-job")
    if kind != "command" and ("command" not in root or (kind != "" and closest(kind, _JOBS) is None)):
        return None
    typed = kind == "command" and any(key in root for key in ("environment", "compute", *_OF_COMMANDS))
    if not (typed and "command" in root) and not _looks_like_azure(root):
        return None
    return "command-component" if _declares_ports(root) else "command-job"


def _looks_like_azure(root: Mapping) -> bool:
    """A command without ``type``, recognised only by a reference or a key that no other tool has."""
    texts = [read_text(root, key) or "" for key in ("environment", "compute", "code")]
    environment = root.get("environment")
    inline = isinstance(environment, Mapping) and any(
        key in environment for key in ("image", "conda_file", "build")
    )
    telling = any(
        key in root
        for key in ("distribution", "environment_variables", "experiment_name", "is_deterministic")
    )
    return any(text.startswith("azureml:") for text in texts) or (inline and (telling or "code" in root))


def _declares_ports(root: Mapping) -> bool:
    """Whether the file declares inputs, as a component does, or gives them values, as a job does."""
    if any(key in root for key in ("compute", "experiment_name", "settings", "limits", "services")):
        return False
    if any(key in root for key in ("version", "is_deterministic", "additional_includes")):
        return True
    inputs = read_mapping(root, "inputs")
    ports = [node for _, node in inputs.items() if isinstance(node, Mapping)] if inputs is not None else []
    if any(
        read_text(port, "type") in PRIMITIVES or "optional" in port or "default" in port for port in ports
    ):
        return True
    if any("path" in port or "value" in port for port in ports):
        return False
    return "name" in root and inputs is not None and len(ports) == len(inputs)


def _environment(root: Mapping, kind: str) -> str | None:
    if kind:
        return None
    based = "image" in root or isinstance(root.get("build"), Mapping)
    telling = any(key in root for key in ("conda_file", "inference_config", "os_type", "dependencies"))
    return "environment" if based and telling and not isinstance(root.get("image"), Sequence) else None
