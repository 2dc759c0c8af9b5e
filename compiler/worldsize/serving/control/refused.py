"""Kinds of resources that only Azure has, and what to say of each."""

from __future__ import annotations

from starlette.responses import Response

from worldsize.serving.control.call import Call
from worldsize.serving.control.document import answer
from worldsize.serving.errors import ServiceError

KINDS = {
    "onlineendpoints": "online endpoints",
    "batchendpoints": "batch endpoints",
    "serverlessendpoints": "serverless endpoints",
    "inferencepools": "inference pools",
    "marketplacesubscriptions": "subscriptions of the marketplace",
    "featuresets": "feature stores",
    "featurestoreentities": "feature stores",
    "capabilityhosts": "capability hosts",
    "labelingjobs": "data labeling",
    "rayclusters": "Ray clusters",
    "endpoints": "endpoints",
    "indexes": "search indexes",
    "prompts": "prompts",
}


def handle(call: Call) -> Response:
    """Say that the service is not offered. An empty list is the truth of those that were never made."""
    if call.method == "GET" and (call.name is None or (call.versions and call.version is None)):
        return answer({"value": []})
    message = f"worldsize serve does not offer {KINDS[call.kind]}."
    raise ServiceError(404 if call.method == "GET" else 400, "NotSupported", message)
