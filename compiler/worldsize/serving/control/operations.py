"""Long-running operations, each of which is over when its answer is sent.

The answers have the headers of the service, so that a client polls as it does there.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from worldsize.serving.control.call import Call
from worldsize.serving.workspace import LOCATION


def operation_headers(call: Call) -> Mapping[str, str]:
    """``Azure-AsyncOperation`` and ``Location`` of the operation that a request began."""
    base = (
        f"{call.base}/subscriptions/{call.scope.subscription}/providers"
        f"/Microsoft.MachineLearningServices/locations/{LOCATION}"
    )
    name = uuid4()
    return {
        "Azure-AsyncOperation": f"{base}/mfeOperationsStatus/{name}?api-version=2024-10-01",
        "Location": f"{base}/mfeOperationResults/{name}?api-version=2024-10-01",
    }
