"""What a version of each kind of asset must hold, and what of it cannot change once it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from worldsize.serving.control.assets import Asset
from worldsize.serving.control.document import (
    JsonObject,
    take_about,
    take_flag,
    take_object,
    take_text,
)
from worldsize.serving.control.uris import parse_store_path
from worldsize.serving.errors import ServiceError, bad_request

LONGEST_DESCRIPTION = 64 << 10  # characters: those of models are whole pages
_DATA_TYPES = ("uri_file", "uri_folder", "mltable")
_MODEL_TYPES = ("custom_model", "mlflow_model", "triton_model")
_ABOUT = (
    "description",
    "tags",
    "display_name",
    "name",
    "version",
)  # of a component's spec: words, not what it does


@dataclass(frozen=True, slots=True)
class AssetKind:
    """One kind; ``complete`` checks a body's properties and adds what the service adds."""

    word: str  # in messages
    complete: Callable[[JsonObject], JsonObject]
    fixed: Callable[[JsonObject], object]  # what of the properties cannot change
    status: int  # of the refusal of a change
    refusal: str  # with places for {name} and {version}


def check_change(kind: AssetKind, before: Asset, after: JsonObject) -> None:
    """Refuse a body that changes what cannot change.

    Raises:
        ServiceError: The status and the words of the service for this kind.
    """
    if before.properties.get("isAnonymous") or kind.fixed(before.properties) == kind.fixed(after):
        return
    message = kind.refusal.format(name=before.name, version=before.version)
    raise ServiceError(kind.status, "UserError", message)


def complete_common(properties: JsonObject) -> JsonObject:
    """The properties that all assets have, checked, with their defaults.

    Raises:
        ServiceError: 400 that names the key.
    """
    where = "properties."
    return {
        **properties,
        "description": properties.get("description"),
        **take_about(properties, where, description=LONGEST_DESCRIPTION),
        "isArchived": take_flag(properties, "isArchived", where),
        "isAnonymous": take_flag(properties, "isAnonymous", where),
        "provisioningState": "Succeeded",
    }


def _complete_code(properties: JsonObject) -> JsonObject:
    take_text(properties, "codeUri", "properties.", required=True)
    return complete_common(properties)


def _complete_component(properties: JsonObject) -> JsonObject:
    spec = take_object(properties, "componentSpec", "properties.")
    if not spec:
        raise bad_request("`properties.componentSpec` is required.")
    take_text(spec, "type", "properties.componentSpec.")
    for ports in ("inputs", "outputs"):
        for name in (entries := take_object(spec, ports, "properties.componentSpec.")):
            take_object(entries, name, f"properties.componentSpec.{ports}.")
    return complete_common(properties)


def _complete_data(properties: JsonObject) -> JsonObject:
    take_text(properties, "dataUri", "properties.", required=True)
    kind = _take_choice(properties, "dataType", _DATA_TYPES, "uri_folder")
    return {**complete_common(properties), "dataType": kind}


def _complete_environment(properties: JsonObject) -> JsonObject:
    build = take_object(properties, "build", "properties.")
    image = take_text(properties, "image", "properties.", required=not build)
    take_text(properties, "condaFile", "properties.")
    if build:
        take_text(build, "contextUri", "properties.build.", required=True)
        if image:
            raise bad_request("`properties.image` and `properties.build` exclude each other.")
        properties = {**properties, "build": {"dockerfilePath": "Dockerfile", **build}}
    return {"environmentType": "UserCreated", "osType": "Linux", **complete_common(properties)}


def _complete_model(properties: JsonObject) -> JsonObject:
    take_text(properties, "modelUri", "properties.", required=True)
    kind = _take_choice(properties, "modelType", _MODEL_TYPES, "custom_model")
    flavors = take_object(properties, "flavors", "properties.")
    for name in flavors:
        take_object(flavors, name, "properties.flavors.")
    take_text(properties, "stage", "properties.")
    return {
        "stage": None,
        "jobName": None,
        **complete_common(properties),
        "modelType": kind,
        "flavors": flavors,
    }


def _take_choice(properties: JsonObject, key: str, words: tuple[str, ...], default: str) -> str:
    word = take_text(properties, key, "properties.") or default
    if word.lower() not in words:
        raise bad_request(f"`properties.{key}` is one of {', '.join(words)}, not `{word[:60]}`.")
    return word.lower()


def _fix_component(properties: JsonObject) -> object:
    spec = properties["componentSpec"]
    return {key: value for key, value in spec.items() if key not in _ABOUT}


def _fix(*keys: str) -> Callable[[JsonObject], object]:
    return lambda properties: [_place(properties.get(key)) for key in keys]


def _place(value: object) -> object:
    """A value, but a path in a datastore without the workspace that it names: all names are of one."""
    place = parse_store_path(value) if isinstance(value, str) else None
    return value if place is None else place


_REGISTERED = "{word} {{name}} with version {{version}} is already registered and cannot be changed."
KINDS = {
    "codes": AssetKind("code", _complete_code, _fix(), 400, ""),
    "components": AssetKind(
        "component", _complete_component, _fix_component, 409, _REGISTERED.format(word="Component")
    ),
    "data": AssetKind(
        "data asset",
        _complete_data,
        _fix("dataUri", "dataType"),
        400,
        "A data version with this name and version already exists. If you are trying to create a new data"
        " version, use a different name or version. If you are trying to update an existing data version,"
        " the existing asset's data uri cannot be changed. Only tags, description, and isArchived can be"
        " updated.",
    ),
    "environments": AssetKind(
        "environment",
        _complete_environment,
        _fix("image", "condaFile", "build", "osType", "inferenceConfig"),
        409,
        _REGISTERED.format(word="Environment"),
    ),
    "models": AssetKind(
        "model",
        _complete_model,
        _fix("modelUri", "modelType"),
        400,
        "Asset paths cannot be updated. Model {name} with version {version} is registered with another path.",
    ),
}
