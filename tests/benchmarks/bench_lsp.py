"""How long after a keystroke `worldsize lsp` has published the diagnostics, and how long it takes to start.

The client, the pipes and the delay for keys that follow each other are part of the time. The files are the
largest pipeline of a clone of Azure/azureml-examples (`WORLDSIZE_AZUREML_CORPUS`), if there is one, and our
largest spec.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import pytest
from lsp_client import Client
from lsprotocol import types

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
CORPUS = os.environ.get("WORLDSIZE_AZUREML_CORPUS")
WANTED_MILLISECONDS = 100.0
KEYS = 60


def find_largest() -> list[Path]:
    """The largest official pipeline and the largest spec of ours."""
    specs = [
        path for path in (ROOT / "pipelines").glob("*.yml") if "steps:" in path.read_text(encoding="utf-8")
    ]
    found = [max(specs, key=lambda path: path.stat().st_size)]
    if CORPUS:
        pipelines = [
            path
            for path in Path(CORPUS).rglob("*.yml")
            if "\njobs:" in path.read_text(encoding="utf-8", errors="replace")
        ]
        found.append(max(pipelines, key=lambda path: path.stat().st_size))
    return found


def test_a_keystroke_is_answered_in_100_ms() -> None:
    for path in find_largest():
        client = Client(path.parent)
        try:
            text = path.read_text(encoding="utf-8")
            uri = client.open(path)
            client.diagnostics(uri)
            times = [type_key(client, uri, text, number) for number in range(KEYS)]
        finally:
            client.stop()
        middle, late = statistics.median(times), sorted(times)[int(0.95 * KEYS)]
        load = os.getloadavg()[0]
        print(
            f"\n{path.name}: {len(text):,} bytes, median {middle:.0f} ms, 95 % {late:.0f} ms, load {load:.1f}"
        )
        assert middle < WANTED_MILLISECONDS


def type_key(client: Client, uri: str, text: str, number: int) -> float:
    """Milliseconds from one typed character at the end of a value in the middle to its diagnostics."""
    line = text.count("\n") // 2
    column = len(text.split("\n")[line])
    place = types.Position(line, column + number)
    started = time.perf_counter()
    client.change(uri, types.TextDocumentContentChangePartial(types.Range(place, place), "a"))
    client.diagnostics(uri)
    return (time.perf_counter() - started) * 1000


def test_the_server_answers_soon_after_its_start() -> None:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        client = Client(ROOT)
        times.append(time.perf_counter() - started)
        client.stop()
    middle, load = statistics.median(times), os.getloadavg()[0]
    print(f"\nstart to the answer of `initialize`: median {middle:.2f} s, load {load:.1f}")
