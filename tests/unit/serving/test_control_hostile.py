"""No body and no path makes the management API fail: every answer is one that clients read."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from management import GROUP, ROOT, Management

BODIES: dict[str, dict[str, Any]] = {
    "codes/a/versions/1": {"properties": {"codeUri": "https://worldsize.blob.core.windows.net/c/x"}},
    "components/a/versions/1": {
        "properties": {"componentSpec": {"type": "command", "inputs": {"a": {"type": "string"}}}}
    },
    "data/a/versions/1": {"properties": {"dataUri": "azureml://datastores/d/paths/p", "dataType": "mltable"}},
    "environments/a/versions/1": {"properties": {"image": "i", "build": None, "condaFile": "name: x"}},
    "models/a/versions/1": {"properties": {"modelUri": "azureml://jobs/j/outputs/o", "flavors": {"a": {}}}},
    "computes/abc": {
        "properties": {
            "computeType": "AmlCompute",
            "properties": {"vmSize": "Standard_DS3_v2", "scaleSettings": {"maxNodeCount": 2}},
        },
        "tags": {"a": "b"},
    },
    "datastores/abc": {
        "properties": {
            "datastoreType": "AzureBlob",
            "accountName": "a",
            "containerName": "abc",
            "credentials": {"credentialsType": "Sas", "secrets": {"sasToken": "x"}},
        }
    },
    "connections/abc": {"properties": {"category": "Git", "authType": "PAT", "credentials": {"pat": "x"}}},
    "outboundRules/abc": {"properties": {"type": "FQDN", "destination": "a.b"}},
    "data/a": {"properties": {"description": "x", "tags": {"a": "b"}, "isArchived": True}},
    "": {"properties": {"description": "x"}, "tags": {"a": "b"}},
}
WRONG = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)


@cache
def shared() -> Management:
    return Management(Path(tempfile.mkdtemp()))


def places(value: Any, route: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = (
        [place for key, each in value.items() for place in places(each, (*route, key))]
        if isinstance(value, dict)
        else []
    )
    return [route, *inner] if route else inner


def replaced(value: Any, route: tuple[str, ...], wrong: Any) -> Any:
    if not route:
        return wrong
    return {**value, route[0]: replaced(value[route[0]], route[1:], wrong)}


@pytest.mark.parametrize("path", BODIES)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data(), method=st.sampled_from(["PUT", "PATCH"]))
def test_a_wrong_value_at_any_key_is_answered(path: str, method: str, data: st.DataObject) -> None:
    route = data.draw(st.sampled_from(places(BODIES[path])))
    body = replaced(BODIES[path], route, data.draw(WRONG))
    answer = shared().ask(method, path, body)
    assert answer.status_code in {200, 201, 400, 404, 405, 409}
    if answer.status_code >= 400:
        assert answer.json()["error"]["message"]
    assert shared().ask("GET", path).status_code in {200, 404}


@settings(max_examples=120, deadline=None)
@given(
    method=st.sampled_from(["GET", "PUT", "POST", "PATCH", "DELETE"]),
    start=st.sampled_from(
        [ROOT, f"{GROUP}/registries/r", "/subscriptions", "/subscriptions/s", "/providers", GROUP]
    ),
    words=st.lists(
        st.one_of(
            st.sampled_from(
                [*(path.split("/")[0] for path in BODIES), "versions", "labels", "listSecrets", "jobs"]
            ),
            st.text(max_size=6),
        ),
        max_size=6,
    ),
    query=st.text(max_size=30),
)
def test_any_path_is_answered(method: str, start: str, words: list[str], query: str) -> None:
    path = "/".join([start, *(quote(word, safe="", errors="replace") for word in words)])
    answer = shared().ask(method, f"{path}?{quote(query, safe='=&$', errors='replace')}")
    assert answer.status_code < 500
    if answer.status_code >= 400:
        assert answer.json()["error"]["code"]


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"1",
        b'{"a": NaN}',
        b"\xff\xfe",
        b'{"a":' * 200 + b"1" + b"}" * 200,
        b"[" * 100_000,
        b'{"properties": "\\ud800"}',
    ],
)
def test_what_is_not_a_json_object_is_refused(management: Management, content: bytes) -> None:
    answer = management.ask("PUT", "data/a/versions/1", content=content)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "ValidationError"


def test_a_body_above_the_limit_is_refused(management: Management) -> None:
    answer = management.ask("PUT", "data/a/versions/1", content=b" " * (16 * 2**20 + 1))
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "query", ["$top=-1", "$top=x", "$skip=99999999999999999999", "$top=²", "listViewType=Some"]
)
def test_a_wrong_window_of_a_list_is_refused(management: Management, query: str) -> None:
    assert management.ask("GET", f"data?{query}").status_code == 400
