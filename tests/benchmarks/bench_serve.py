"""`worldsize serve`: its start, its lists of jobs a second, and what it adds to a job of one command.

Nobody else serves Azure ML on a laptop; the peer of each figure is what is left without our part of it: the
interpreter that starts, a bare Starlette application under uvicorn, and the client's own time for an answer.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from plain_client import WORKSPACE, PlainClient, command_job
from serving import SERVE, Served, serving

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

MOST_START_SECONDS = 2.0
LEAST_LISTS = 200  # a second
MOST_JOB_SECONDS = 1.5
JOBS = 50  # in the list
LISTS = 500
BARE = """\
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
text = open(sys.argv[1], "rb").read()
async def answer(request): return Response(text, media_type="application/json")
uvicorn.run(Starlette(routes=[Route("/jobs", answer)]), fd=int(sys.argv[2]), log_level="error")
"""
CLIENT = """\
import sys, time
from azure.ai.ml import MLClient
from azure.identity import DefaultAzureCredential
client = MLClient(DefaultAzureCredential(), "s", "g", "w")
list(client.jobs.list())
begin = time.perf_counter()
for _ in range(int(sys.argv[1])): count = len(list(client.jobs.list()))
print(count, time.perf_counter() - begin)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def client(served: Served) -> Iterator[PlainClient]:
    with PlainClient(served.environment) as client:
        yield client


def test_the_first_answer_comes_within_two_seconds(tmp_path: Path) -> None:
    first, later = (
        [start_to_answer(tmp_path) for _ in range(2)],
        [start_to_answer(tmp_path) for _ in range(5)],
    )
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import starlette, uvicorn, cryptography.x509"], check=True)
    bare = time.perf_counter() - begin
    seconds = statistics.median(later)
    print(
        f"\nfirst answer after {first[0]:.2f} s in a new home, {seconds:.2f} s in one that is there"
        f" (want at most {MOST_START_SECONDS:.0f}); {seconds / bare:.1f} times Python with its imports alone"
    )
    assert seconds <= MOST_START_SECONDS


def start_to_answer(folder: Path) -> float:
    """Seconds from the command to an answer of its port."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [*SERVE, "--home", str(folder / "home")], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    port = int(line.partition("127.0.0.1:")[2].partition("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metadata/endpoints?api-version=2019-05-01")
    assert connection.getresponse().status == 200
    seconds = time.perf_counter() - begin
    connection.close()
    process.terminate()
    process.communicate(timeout=30)
    return seconds


def test_jobs_are_listed_two_hundred_times_a_second(
    served: Served, client: PlainClient, tmp_path: Path
) -> None:
    for number in range(JOBS):
        assert client.put("jobs", f"listed-{number}", command_job("true")).status == 201
    for number in range(JOBS):
        client.send("POST", f"{WORKSPACE}/jobs/listed-{number}/cancel?api-version=1", {})
    wait_for_ends(client)
    answer = client.get("jobs")
    assert len(answer.json["value"]) == JOBS
    plain = rate(lambda: client.get("jobs"))
    (tmp_path / "answer.json").write_bytes(answer.content)
    with (
        bare_server(tmp_path / "answer.json") as port,
        contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as bare,
    ):
        peer = rate(lambda: bare_get(bare))
    count, seconds = served.python(CLIENT, "50").split()[-2:]
    print(
        f"\njobs.list of {count} jobs: {plain:.0f} a second through the proxy (want {LEAST_LISTS}), where the"
        f" same {len(answer.content) // 1000} kB come {peer:.0f} times from a bare uvicorn without TLS"
        f" ({plain / peer:.2f} of it); {50 / float(seconds):.0f} a second by azure-ai-ml"
    )
    assert plain >= LEAST_LISTS


def rate(send: object) -> float:
    """How often a second something can be done, one after the other."""
    assert callable(send)
    send()
    begin = time.perf_counter()
    for _ in range(LISTS):
        send()
    return LISTS / (time.perf_counter() - begin)


def bare_get(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/jobs")
    json.loads(connection.getresponse().read())


@contextlib.contextmanager
def bare_server(answer: Path) -> Iterator[int]:
    """A server that knows one answer."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.set_inheritable(True)
        words = [sys.executable, "-c", BARE, str(answer), str(listening.fileno())]
        process = subprocess.Popen(words, pass_fds=[listening.fileno()])
        try:
            yield listening.getsockname()[1]
        finally:
            process.terminate()
            process.wait()


def wait_for_ends(client: PlainClient) -> None:
    """Wait until no job is active."""
    while any(
        job["properties"]["status"] not in ("Completed", "Failed", "Canceled")
        for job in client.get("jobs").json["value"]
    ):
        time.sleep(0.1)


def test_a_job_of_one_command_adds_little(client: PlainClient) -> None:
    wait_for_ends(client)
    times = []
    for number in range(7):
        begin = time.perf_counter()
        assert client.put("jobs", f"hello-{number}", command_job("echo hello")).status == 201
        while client.get("jobs", f"hello-{number}").json["properties"]["status"] != "Completed":
            time.sleep(0.01)
        times.append(time.perf_counter() - begin)
    own = time.perf_counter()
    subprocess.run(["bash", "-c", "echo hello"], check=True, stdout=subprocess.DEVNULL)
    own = time.perf_counter() - own
    seconds = statistics.median(times)
    print(
        f"\n`echo hello` from its submission to Completed: {seconds:.2f} s (median of {len(times)}, first"
        f" {times[0]:.2f} s), of which the command is {own:.3f} s (want at most {MOST_JOB_SECONDS} added)"
    )
    assert seconds - own <= MOST_JOB_SECONDS


def test_a_list_waits_for_nobody(served: Served) -> None:
    """Twenty clients at once: the slowest list while jobs run."""
    begin, slowest, lock = time.perf_counter(), [0.0], threading.Lock()

    def ask() -> None:
        with PlainClient(served.environment) as client:
            for _ in range(20):
                start = time.perf_counter()
                assert client.get("jobs").status == 200
                with lock:
                    slowest[0] = max(slowest[0], time.perf_counter() - start)

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"\n400 lists by 20 clients in {time.perf_counter() - begin:.2f} s, the slowest {slowest[0]:.2f} s")
