"""The management API of assets with versions: what each kind must hold, and what cannot change."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import NAMESPACE_URL, uuid5

from starlette.responses import Response

from worldsize.serving.control import assets
from worldsize.serving.control.assets import CURATED_IMAGES, Asset, Container
from worldsize.serving.control.call import (
    CREATED,
    Call,
    Handler,
    Handlers,
    JsonObject,
    answer_beside,
    answer_deletion,
    answer_page,
    describe_resource,
    read_window,
    take_about,
    take_flag,
    take_object,
    take_text,
    views,
)
from worldsize.serving.control.paths import expand_uri, parse_store_path
from worldsize.serving.errors import ServiceError, answer, bad_request, not_found
from worldsize.serving.front.guard import sign_path
from worldsize.serving.tracking.models import sync_models

_NAME = re.compile(r"[A-Za-z0-9_][\w.\- ]{0,254}", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9_][\w.\-]{0,254}", re.ASCII)
_URIS = {"data": "dataUri", "models": "modelUri"}


def _get_version(call: Call) -> object:
    """A version by its number, or the newest by the label ``latest``."""
    if call.label not in ("", "latest"):
        raise not_found(f"The label `{call.label}` of {_describe(call)}")
    if call.label:
        asset = assets.get_latest(call.database, call.kind, call.name)
    else:
        asset = assets.get_version(call.database, call.kind, call.name, call.version)
    if asset is None and _is_curated(call):
        asset = _curated_version(call.name, call.version or "1")
    if asset is None:
        raise not_found(_describe(call))
    return _describe_version(call, asset)


def _put_version(call: Call) -> Response:
    name, version = call.name, call.version
    if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
        raise bad_request(
            "The name and the version of an asset are letters, digits, `-`, `_` and `.`, not"
            f" `{name[:60]}` and `{version[:60]}`."
        )
    if _is_curated(call):
        raise bad_request(
            f"`{name[:60]}` cannot be registered: names that begin with `AzureML-` are Microsoft's."
        )
    kind = KINDS[call.kind]
    properties = kind.complete(take_object(call.body, "properties"))
    if call.kind == "components":  # clients read both from the specification
        properties["componentSpec"] = {**properties["componentSpec"], "name": name, "version": version}
    if (key := _URIS.get(call.kind)) is not None:
        properties[key] = expand_uri(call.workspace, call.scope, properties[key])
    with call.database.transaction():  # nothing comes between the check and the change
        before = assets.get_version(call.database, call.kind, name, version)
        if before is not None:
            may_change = before.properties.get("isAnonymous")
            if not may_change and kind.fixed(before.properties) != kind.fixed(properties):
                refusal = kind.refusal.format(name=before.name, version=before.version)
                raise ServiceError(kind.status, "UserError", refusal)
            properties = {**before.properties, **properties}
        asset = assets.put_version(call.database, call.kind, name, version, properties)
    return answer(_describe_version(call, asset), 200 if before is not None else 201)


def _list_versions(call: Call) -> Response:
    limit, skip = read_window(call)
    if call.query.get("hash"):  # has this code been uploaded under any name?
        asset = assets.find_uploaded(call.database, call.kind, call.query["hash"])
        return answer_page(call, [] if asset is None else [asset], _describe_version)
    if _is_curated(call):
        return answer_page(call, [_curated_version(call.name)], _describe_version)
    rows = assets.select_versions(
        call.database, call.kind, call.name, archived=views(call), limit=limit + 1, skip=skip
    )
    return answer_page(
        call, rows, _describe_version, read=assets.read_asset, name=assets.name_row, skipped=True
    )


def _get_container(call: Call) -> object:
    container = assets.get_container(call.database, call.kind, call.name)
    if container is None and _is_curated(call):
        container = Container("environments", call.name, {}, False, CREATED, CREATED, "2", "1")
    if container is None:
        raise not_found(_describe(call))
    return _describe_container(call, container)


def _put_container(call: Call) -> Response:
    if not _NAME.fullmatch(call.name):
        raise bad_request(f"`{call.name[:60]}` cannot be the name of an asset.")
    properties = take_object(call.body, "properties")
    take_about(properties, description=LONGEST_DESCRIPTION)
    before = assets.get_container(call.database, call.kind, call.name)
    container = assets.put_container(call.database, call.kind, call.name, properties)
    return answer(_describe_container(call, container), 200 if before is not None else 201)


def _list_containers(call: Call) -> Response:
    limit, skip = read_window(call)
    rows = assets.select_containers(
        call.database, call.kind, archived=views(call), limit=limit + 1, skip=skip
    )
    return answer_page(call, rows, _describe_container, read=assets.read_container, skipped=True)


def _describe_version(call: Call, asset: Asset) -> JsonObject:
    job = {"jobName": asset.job} if asset.job is not None and asset.kind == "models" else {}
    properties = {**asset.properties, "isArchived": asset.archived, **job}
    path = (asset.kind, asset.name, "versions", asset.version)
    return describe_resource(call, path, properties, (asset.created, asset.modified))


def _describe_container(call: Call, container: Container) -> JsonObject:
    properties = {
        "description": None,
        "tags": {},
        "properties": {},
        **container.properties,
        "isArchived": container.archived,
        "latestVersion": container.latest,
        "nextVersion": container.next,
        "provisioningState": "Succeeded",
    }
    if container.kind == "data":  # of what type its versions are
        properties["dataType"] = container.data_type or "uri_folder"
    times = (container.created, container.modified)
    return describe_resource(call, (container.kind, container.name), properties, times)


def _describe(call: Call) -> str:
    version = f" with version {call.version}" if call.version else ""
    return f"The {KINDS[call.kind].word} {call.name}{version}"


def _start_upload(call: Call) -> object:
    """The answer to ``startPendingUpload``: the same container each time for one version."""
    workspace = call.workspace
    guid = uuid5(NAMESPACE_URL, f"{call.kind}/{call.name}/{call.version}")
    container = f"{guid.hex[:8]}-u-{guid}"
    uri = f"{workspace.endpoints.blob}/{container}"
    reference = {
        "blobUri": uri,
        "storageAccountArmId": f"{call.scope.id}/storageAccounts/{workspace.endpoints.account}",
        "credential": {"credentialType": "SAS", "sasUri": f"{uri}?{sign_path(workspace, container)}"},
    }
    return {
        "pendingUploadId": str(guid),
        "pendingUploadType": "TemporaryBlobReference",
        "blobReferenceForConsumption": reference,
    }


def _in_step(handle: Handler) -> Handler:
    """A handler of models, which MLflow's registry has too: each sees what the other has changed."""

    async def handle_models(call: Call) -> Response:
        await asyncio.to_thread(sync_models, call.workspace)
        response = await answer_beside(call.workspace, call.method, partial(handle, call))
        if call.method != "GET":
            await asyncio.to_thread(sync_models, call.workspace)
        return response

    return handle_models


PREFIX = "azureml-"


def _is_curated(call: Call) -> bool:
    """Whether a name is one of Microsoft's."""
    return call.kind == "environments" and call.name.lower().startswith(PREFIX)


def _curated_version(name: str, version: str = "1") -> Asset:
    """A version of a curated environment; every version is the same here."""
    properties: JsonObject = {
        "image": f"{CURATED_IMAGES}{name.lower().removeprefix(PREFIX)}:latest",
        "osType": "Linux",
        "environmentType": "Curated",
        "description": None,
        "tags": {},
        "properties": {},
        "isAnonymous": False,
    }
    return Asset("environments", name, version, properties, False, CREATED, CREATED)


HANDLERS: Handlers = {
    "GET all": _list_containers,
    "GET one": _get_container,
    "PUT one": _put_container,
    "DELETE one": lambda call: answer_deletion(assets.delete_container(call.database, call.kind, call.name)),
    "GET versions": _list_versions,
    "GET version": _get_version,
    "PUT version": _put_version,
    "DELETE version": lambda call: answer_deletion(
        assets.delete_version(call.database, call.kind, call.name, call.version)
    ),
    "GET label": _get_version,
    "POST version/startpendingupload": _start_upload,
}
MODEL_HANDLERS: Handlers = {operation: _in_step(handle) for operation, handle in HANDLERS.items()}


LONGEST_DESCRIPTION = 64 << 10  # characters: those of models are whole pages
_DATA_TYPES = ("uri_file", "uri_folder", "mltable")
_MODEL_TYPES = ("custom_model", "mlflow_model", "triton_model")
_ABOUT = ("description", "tags", "display_name", "name", "version")  # a component's words, not what it does


@dataclass(frozen=True, slots=True)
class AssetKind:
    """One kind; ``complete`` checks a body's properties and adds what the service adds."""

    word: str  # in messages
    complete: Callable[[JsonObject], JsonObject]
    fixed: Callable[[JsonObject], object]  # what of the properties cannot change
    status: int  # of the refusal of a change
    refusal: str  # with places for {name} and {version}


def _complete_common(properties: JsonObject) -> JsonObject:
    """The properties that all assets have, checked, with their defaults."""
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
    return _complete_common(properties)


def _complete_component(properties: JsonObject) -> JsonObject:
    spec = take_object(properties, "componentSpec", "properties.")
    if not spec:
        raise bad_request("`properties.componentSpec` is required.")
    take_text(spec, "type", "properties.componentSpec.")
    for ports in ("inputs", "outputs"):
        for name in (entries := take_object(spec, ports, "properties.componentSpec.")):
            take_object(entries, name, f"properties.componentSpec.{ports}.")
    return _complete_common(properties)


def _complete_data(properties: JsonObject) -> JsonObject:
    take_text(properties, "dataUri", "properties.", required=True)
    kind = _take_choice(properties, "dataType", _DATA_TYPES, "uri_folder")
    return {**_complete_common(properties), "dataType": kind}


def _complete_environment(properties: JsonObject) -> JsonObject:
    build = take_object(properties, "build", "properties.")
    image = take_text(properties, "image", "properties.", required=not build)
    take_text(properties, "condaFile", "properties.")
    if build:
        take_text(build, "contextUri", "properties.build.", required=True)
        if image:
            raise bad_request("`properties.image` and `properties.build` exclude each other.")
        properties = {**properties, "build": {"dockerfilePath": "Dockerfile", **build}}
    return {"environmentType": "UserCreated", "osType": "Linux", **_complete_common(properties)}


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
        **_complete_common(properties),
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
