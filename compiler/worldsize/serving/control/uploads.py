"""Where a client uploads the files of a code asset: a container for each version, and a signature for it."""

from __future__ import annotations

from uuid import NAMESPACE_URL, uuid5

from starlette.responses import Response

from worldsize.serving.control.call import Call
from worldsize.serving.control.document import JsonObject, answer
from worldsize.serving.front.guard import sign_path


def start_upload(call: Call) -> Response:
    """The answer to ``startPendingUpload``: the same container each time for one version."""
    workspace = call.workspace
    guid = uuid5(NAMESPACE_URL, f"{call.kind}/{call.name}/{call.version}")
    container = f"{guid.hex[:8]}-u-{guid}"
    uri = f"{workspace.endpoints.blob}/{container}"
    credential: JsonObject = {
        "credentialType": "SAS",
        "sasUri": f"{uri}?{sign_path(workspace, container)}",
    }
    reference = {
        "blobUri": uri,
        "storageAccountArmId": f"{call.scope.id}/storageAccounts/{workspace.endpoints.account}",
        "credential": credential,
    }
    document = {
        "pendingUploadId": str(guid),
        "pendingUploadType": "TemporaryBlobReference",
        "blobReferenceForConsumption": reference,
    }
    return answer(document)
