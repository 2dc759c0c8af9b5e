"""No body, no path and no stored record makes the management API or the page fail for the others."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from management import GROUP, ROOT, Management
from serve_requests import COMPONENT, JOB, PIPELINE, SWEEP, TRIGGER
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.testclient import TestClient
from starlette.types import Message

from worldsize.serving import history
from worldsize.serving.control import assets, call
from worldsize.serving.control.assets import put_resource
from worldsize.serving.database import contained, now
from worldsize.serving.errors import ServiceError
from worldsize.serving.jobs import records
from worldsize.serving.jobs.queue import Queue
from worldsize.serving.page import routes as page
from worldsize.serving.schedules.fire import _Timer
from worldsize.serving.schedules.records import list_firings

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
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data(), method=st.sampled_from(["PUT", "PATCH"]))
def test_a_wrong_value_at_any_key_is_answered(path: str, method: str, data: st.DataObject) -> None:
    route = data.draw(st.sampled_from(places(BODIES[path])))
    body = replaced(BODIES[path], route, data.draw(WRONG))
    answer = shared().ask(method, path, body)
    assert answer.status_code in {200, 201, 400, 404, 405, 409}
    if answer.status_code >= 400:
        assert answer.json()["error"]["message"]
    assert shared().ask("GET", path).status_code in {200, 404}


@settings(max_examples=60, deadline=None)
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


DATA = BODIES["data/a/versions/1"]["properties"]
MANY = {str(number): "x" for number in range(51)}


@pytest.mark.parametrize(
    ("path", "properties", "said"),
    [
        ("data/a/versions/1", {**DATA, "tags": MANY}, "`properties.tags` has 51 entries, of which 50 are"),
        ("data/a/versions/1", {**DATA, "tags": {"a": "x" * 1001}}, "`properties.tags.a` is too long"),
        ("data/a/versions/1", {**DATA, "properties": {"k" * 101: "x"}}, "is too long: 100 for a key"),
        ("data/a/versions/1", {**DATA, "description": "x" * 70_000}, "`properties.description` has 70,000"),
        ("data/a/versions/1", {**DATA, "some": [0] * 100_001}, "The body has more than 100,000 values"),
        ("data/a/versions/1", {**DATA, "some": [[]] * 500_000}, "The body has more than 100,000 values"),
        ("data/a", {"tags": MANY}, "`properties.tags` has 51"),
        ("jobs/a", {**PIPELINE, "tags": MANY}, "`properties.tags` has 51"),
        ("jobs/a", {**PIPELINE, "displayName": "x" * 257}, "`properties.displayName` has 257 characters"),
        ("jobs/a", {**PIPELINE, "description": "x" * 5001}, "`properties.description` has 5,001"),
        ("schedules/a b", {}, "`a b` cannot be the name of a schedule: use up to 255 letters"),
        ("datastores/a.b", {}, "cannot be the name of a datastore"),
        ("connections/a%2Fb", {}, "cannot be the name of a connection"),
        *(
            (
                "schedules/a",
                {
                    "action": {"actionType": "CreateJob", "jobDefinition": PIPELINE},
                    "trigger": {**TRIGGER, **wrong},
                },
                said,
            )
            for wrong, said in (
                ({"startTime": "0001-01-01T00:00:00"}, "`startTime` is `0001-01-01T00:00:00`"),
                ({"endTime": "0002-02-03T00:00:00"}, "`endTime` is `0002-02-03T00:00:00`"),
                ({"startTime": "x" * 99_999}, "`startTime` is `xxx"),
                ({"interval": 2**31}, "`interval` is 2147483648"),
                (
                    {"schedule": {"hours": [1] * 84_000, "minutes": [1]}},
                    "length <= 24 - at `$.schedule.hours`",
                ),
                ({"schedule": {"minutes": [1] * 61}}, "length <= 60 - at `$.schedule.minutes`"),
                ({"schedule": {"weekDays": ["Monday"] * 8}}, "length <= 7 - at `$.schedule.weekDays`"),
                ({"schedule": {"monthDays": [1] * 32}}, "length <= 31 - at `$.schedule.monthDays`"),
            )
        ),
    ],
)
def test_what_azure_would_refuse_is_refused_by_the_name_of_its_field(
    management: Management, path: str, properties: Any, said: str
) -> None:
    answer = management.ask("PUT", path, {"properties": properties})
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert management.ask("GET", path).status_code == 404


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def receive() -> Message:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"x" * 30_000, "more_body": True}

    for most, seconds, status in ((10**9, 0.05, 408), (50_000, 30, 413)):
        monkeypatch.setattr(call, "BODY_SECONDS", seconds)
        request = Request({"type": "http", "headers": []}, receive)
        with pytest.raises(ServiceError) as raised:
            asyncio.run(call.read_body(request, most))
        assert raised.value.status == status


@pytest.mark.parametrize(
    "query", ["$top=-1", "$top=x", "$skip=99999999999999999999", "$top=²", "listViewType=Some"]
)
def test_a_wrong_window_of_a_list_is_refused(management: Management, query: str) -> None:
    assert management.ask("GET", f"data?{query}").status_code == 400


SCHEDULE = {"trigger": TRIGGER, "action": {"actionType": "CreateJob", "jobDefinition": PIPELINE}}
COMPUTE = BODIES["computes/abc"]
KINDS: dict[str, Any] = {  # by where its list is, what a record of each kind holds
    "schedules": SCHEDULE,
    "computes": COMPUTE,
    "datastores": BODIES["datastores/abc"]["properties"],
    "connections": BODIES["connections/abc"]["properties"],
    "outboundRules": BODIES["outboundRules/abc"]["properties"],
    **{kind: BODIES[f"{kind}/a/versions/1"]["properties"] for kind in assets.KINDS},
    "components": {"componentSpec": COMPONENT},
    "jobs": PIPELINE,
}
PAGES = {"schedules", "computes", "models", "data", "components", "environments", "jobs"}
TEXTS = st.sampled_from(
    ["", "[]", "{", '"x"', "null", '{"tags": NaN}', '{"tags": "\\ud800"}', '{"a":' * 300 + "1" + "}" * 300]
)
TIMES = st.sampled_from(["", "yesterday", "0001-01-01T00:00:00.000000Z", "9999-99-99", "2026-01-01", "\x00"])
LONG = st.sampled_from([{str(each): "x" * 1000 for each in range(300)}, [0] * 3000, "a" * 100_000, 2**70])


class Stored:
    """A workspace with one good record of each kind, beside which hostile ones are written."""

    def __init__(self) -> None:
        self.management = shared()
        self.workspace = self.management.workspace
        for kind, properties in KINDS.items():
            self.write(kind, "good", json.dumps(properties), now())
        app = Starlette(routes=[*history.routes(self.workspace), *page.routes(self.workspace)])
        self.client = TestClient(app, raise_server_exceptions=False).__enter__()

    def write(self, kind: str, name: str, text: str, time: str) -> None:
        """A record as it lies in the database, whatever it is."""
        connection = self.workspace.database.connection
        if kind == "jobs":
            columns = "name, type, display_name, experiment, status, properties, root, created, started"
            values = (name, "Pipeline", name, "Default", "Queued", text, name, time, time)
            connection.execute(f"INSERT INTO jobs ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        elif kind in assets.KINDS:
            assets.put_version(self.workspace.database, kind, name, "1", {})
            query = "UPDATE assets SET properties = ?, created = ? WHERE kind = ? AND name = ?"
            connection.execute(query, (text, time, kind, name))
        else:
            put_resource(self.workspace.database, kind.lower(), name, {})
            query = "UPDATE resources SET body = ?, created = ?, modified = ? WHERE kind = ? AND name = ?"
            connection.execute(query, (text, time, time, kind.lower(), name))

    @contextmanager
    def beside(self, kind: str, text: str, time: str) -> Iterator[None]:
        """A hostile record, which is gone afterwards."""
        self.write(kind, "hostile", text, time)
        try:
            yield
        finally:
            for table in ("resources", "assets", "containers", "jobs"):
                self.workspace.database.connection.execute(f"DELETE FROM {table} WHERE name = 'hostile'")

    def names(self, path: str) -> list[str]:
        """The names in a list of the management API, over all its pages."""
        found: list[str] = []
        while path:
            document = self.management.get(path)
            found += [each["name"] for each in document["value"]]
            path = document.get("nextLink", "").removeprefix("https://management.azure.com")
        return found


@cache
def stored() -> Stored:
    return Stored()


def spoilt(properties: Any) -> st.SearchStrategy[str]:
    """The record with another value somewhere, or no record at all."""
    wrong = st.tuples(st.sampled_from(places(properties)), st.one_of(WRONG, LONG))
    return st.one_of(TEXTS, wrong.map(lambda drawn: json.dumps(replaced(properties, *drawn))))


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data(), kind=st.sampled_from([*KINDS]))
def test_a_record_that_cannot_be_read_hides_no_other(kind: str, data: st.DataObject) -> None:
    text = data.draw(
        spoilt(data.draw(st.sampled_from([JOB, SWEEP, PIPELINE])) if kind == "jobs" else KINDS[kind])
    )
    time = data.draw(st.one_of(st.just(now()), TIMES))
    workspace = stored().workspace
    with stored().beside(kind, text, time):
        if kind == "jobs":
            runs = f"/history/v1.0{ROOT}/experiments/Default/runs"
            assert "good" in [each["runId"] for each in stored().client.get(runs).json()["value"]]
            assert "good" in [each.name for each in records.list_in_state(workspace.database, ["Queued"])]
        else:
            assert "good" in stored().names(f"{kind}?listViewType=All")
        if kind in PAGES:
            address = {"computes": "compute", "jobs": ""}.get(kind, kind)
            answer = stored().client.get(f"/{address}")
            assert answer.status_code == 200
            assert '"good"' in answer.text
            assert stored().client.get(f"/{kind}/hostile").text  # it says what is wrong


def test_a_list_says_which_record_it_leaves_out(caplog: pytest.LogCaptureFixture) -> None:
    body = json.dumps({**SCHEDULE, "trigger": {**TRIGGER, "startTime": "0001-01-01T00:00:00"}})
    with stored().beside("schedules", body, now()):
        text = unescape(stored().client.get("/schedules").text)
        assert "The schedule hostile cannot be read: `startTime` is `0001-01-01T00:00:00`" in text
        alone = stored().client.get("/schedules/hostile")
        assert (alone.status_code, "cannot be read" in alone.text) == (500, True)
        assert stored().management.ask("DELETE", "schedules/hostile").status_code == 200
    assert "The schedule `hostile` cannot be read and is left out" in caplog.text


def test_a_schedule_that_cannot_be_read_stops_no_other() -> None:
    workspace, begin = stored().workspace, datetime(2026, 1, 1, tzinfo=timezone.utc)
    every_minute = {"triggerType": "Recurrence", "frequency": "Minute", "interval": 1}
    stored().write(
        "schedules", "next", json.dumps({**SCHEDULE, "trigger": every_minute}), begin.isoformat()[:19]
    )
    for number, text in enumerate(["{", json.dumps({**SCHEDULE, "trigger": {}}), json.dumps({"action": 1})]):
        put_resource(workspace.database, "schedules", f"a{number}", {})
        query = "UPDATE resources SET body = ? WHERE name = ?"
        workspace.database.connection.execute(query, (text, f"a{number}"))
    timer = _Timer(workspace, asyncio.Event())
    timer._look(begin + timedelta(seconds=50), begin + timedelta(seconds=70))
    assert [each.due for each in list_firings(workspace.database, "next")] == ["2026-01-01T00:01:00Z"]


def test_a_job_that_cannot_be_read_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from worldsize.running.launch.machine import Machine

    started: list[str] = []

    def start(queue: Queue, name: str) -> bool:
        if name == "fails":
            raise ValueError("its folder is gone")
        started.append(name)
        return True

    monkeypatch.setattr(Queue, "_start", start)
    for name, text in (("text", "{"), ("fails", "{}"), ("last", "{}")):
        stored().write("jobs", name, text, now())
    asyncio.run(Queue(stored().workspace, Machine(9)).tick())
    assert started[-1] == "last"


def test_what_is_contained_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        with contained("job", "x"):
            raise ValueError("no")
    assert caplog.text.count("The job `x` cannot be read and is left out: ValueError: no") == 1
