"""The inputs and outputs of jobs and nodes: from the types of the REST interface to those of YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.serving.errors import bad_request
from worldsize.serving.jobs.translate.body import Body, drop_empty
from worldsize.serving.jobs.translate.lookup import References

MODES = {
    "readonlymount": "ro_mount",
    "readwritemount": "rw_mount",
    "mount": "ro_mount",
    "download": "download",
    "upload": "upload",
    "direct": "direct",
    "evalmount": "eval_mount",
    "evaldownload": "eval_download",
}
# The type of data by its name without underscores: older versions of the interface write `UriFolder`.
TYPES = {
    "urifile": "uri_file",
    "urifolder": "uri_folder",
    "mltable": "mltable",
    "custommodel": "custom_model",
    "mlflowmodel": "mlflow_model",
    "tritonmodel": "triton_model",
}
DEFAULT_TYPE = "uri_folder"


def read_inputs(inputs: Mapping[str, Any], where: str, references: References) -> dict[str, Any]:
    """The ``inputs:`` of a job or node."""
    read = {name: _read_input(value, f"{where}.{name}", references) for name, value in inputs.items()}
    return {name: value for name, value in read.items() if value is not None}


def _read_input(value: Any, where: str, references: References) -> Any:
    if not isinstance(value, Mapping):  # of a pipeline component's definition
        return value
    body = Body(value, where)
    kind = _plain(body.text("jobInputType") or body.text("type") or "literal")
    mode = read_mode(body)
    if kind == "literal":
        text = body.get("value")
        if isinstance(text, str) and mode is not None:
            return {"path": text, "mode": mode}
        return text
    if kind not in TYPES:
        raise bad_request(f"`{where}` is of type `{kind[:40]}`, which is not a type of an input.")
    reference = body.text("uri") or body.text("path")
    if not reference:
        raise bad_request(f"`{where}` has no `uri`.")
    return drop_empty({"type": TYPES[kind], "path": references.data(reference), "mode": mode})


def read_outputs(outputs: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The ``outputs:`` of a job or node."""
    return {name: _read_output(value, f"{where}.{name}") for name, value in outputs.items()}


def _read_output(value: Any, where: str) -> Any:
    if value is None or isinstance(value, str):
        return value or {"type": DEFAULT_TYPE}
    body = Body(value, where)
    settings = {
        "mode": read_mode(body),
        "name": body.text("assetName") or body.text("name"),
        "version": body.text("assetVersion") or body.text("version"),
    }
    bound = body.text("value")
    if bound is not None:
        return {"path": bound, **drop_empty(settings)} if drop_empty(settings) else bound
    return drop_empty({"type": output_type(body), **settings, "path": body.text("uri")})


def output_type(body: Body) -> str:
    """The type of an output; without one it is a folder."""
    kind = _plain(body.text("jobOutputType") or body.text("type") or DEFAULT_TYPE)
    return TYPES.get(kind, DEFAULT_TYPE)


def read_mode(body: Body) -> str | None:
    """How data reaches the job, as YAML writes it; None if the body leaves it open."""
    mode = body.text("mode")
    return None if mode is None else MODES.get(_plain(mode), mode.lower())


def _plain(word: str) -> str:
    return word.replace("_", "").lower()
