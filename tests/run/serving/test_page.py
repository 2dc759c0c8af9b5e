"""The page in a real browser, over a real server with jobs that its clients submitted."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import browser as chromium
import pytest
from page_content import HOSTILE
from retrained_runs import EVIL, add_attempt
from serving import Served, serving

from worldsize.retraining.local import Place

pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(300)]
CONTENT = Path(__file__).parents[2] / "support" / "page_content.py"
SCOPE = {
    "subscription_id": "00000000-0000-0000-0000-000000000000",
    "resource_group": "worldsize",
    "workspace_name": "local",
}
Jobs = dict[str, str]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Jobs]]:
    chromium.require_chromium()
    folder = tmp_path_factory.mktemp("workspace")
    with serving(folder) as served:
        sources = folder / "sources"
        sources.mkdir()
        (sources / "config.json").write_text(json.dumps(SCOPE))
        filled = served.run(sys.executable, str(CONTENT), str(sources), timeout=200)
        assert filled.returncode == 0, filled.stdout + filled.stderr
        names: Jobs = json.loads(filled.stdout.strip().splitlines()[-1])
        ended = ("Completed", "Failed")
        wait_for(
            lambda: status(served, names["pipeline"]) in ended and status(served, names["failing"]) in ended
        )
        assert status(served, names["pipeline"]) == "Completed", said(served, names["pipeline"])
        yield served, names


@pytest.fixture(scope="module")
def started() -> Iterator[object]:
    chromium.require_chromium()
    with chromium.browser() as running:
        yield running


@pytest.fixture
def visitor(workspace: tuple[Served, Jobs], started: object) -> Iterator[chromium.Visit]:
    served, _ = workspace
    with chromium.visit(started, served.address, served.token) as visit:  # type: ignore[arg-type]
        yield visit
        assert visit.faults == []
        assert visit.foreign == []
        assert visit.page.evaluate("window.hacked") is None


def wait_for(done: Callable[[], object], seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def query(served: Served, text: str, *values: str) -> str | None:
    connection = sqlite3.connect(served.home / "serve" / "workspace.db", timeout=30)
    try:
        row = connection.execute(text, values).fetchone()
    finally:
        connection.close()
    return None if row is None else row[0]


def status(served: Served, name: str) -> str | None:
    return query(served, "SELECT status FROM jobs WHERE name = ?", name)


def said(served: Served, name: str) -> str | None:
    return query(served, "SELECT error_message FROM jobs WHERE name = ?", name)


def step(served: Served, root: str, name: str) -> str:
    found = query(served, "SELECT name FROM jobs WHERE root = ? AND step = ?", root, name)
    assert found is not None
    return found


def test_jobs_are_listed_and_filtered(visitor: chromium.Visit) -> None:
    page = visitor.open("/")
    page.get_by_role("link", name="Tiny training").first.wait_for()
    page.get_by_label("Search").fill("waiting")
    page.get_by_text("1 job", exact=True).wait_for()
    assert page.get_by_role("link", name="Count slowly").is_visible()
    page.wait_for_url("**/?text=waiting")
    page.reload()
    page.get_by_text("1 job", exact=True).wait_for()
    visitor.open("/?status=Failed")
    page.get_by_text("1 job", exact=True).wait_for()
    assert page.get_by_role("link", name=HOSTILE).is_visible()
    visitor.open("/?text=nothing%20like%20this")
    page.get_by_text("No job fits this filter.").wait_for()


def test_a_pipeline_shows_its_graph(visitor: chromium.Visit, workspace: tuple[Served, Jobs]) -> None:
    served, names = workspace
    page = visitor.open(f"/jobs/{names['pipeline']}")
    graph = page.get_by_role("group", name="Graph of the steps")
    graph.get_by_role("link", name="Step train: Completed").wait_for()
    assert graph.locator("svg path").count() >= 2
    graph.get_by_role("link", name="Step train: Completed").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{step(served, names['pipeline'], 'train')}")
    page.get_by_role("heading", name="train", level=1).wait_for()
    page.get_by_text("Parameters in MLflow").click()
    page.get_by_text("note", exact=True).wait_for()  # a parameter in MLflow, with a hostile value


def test_logs_of_each_rank(visitor: chromium.Visit, workspace: tuple[Served, Jobs]) -> None:
    served, names = workspace
    page = visitor.open(f"/jobs/{step(served, names['pipeline'], 'train')}?view=logs")
    log = page.get_by_role("log")
    log.get_by_text("step 29: loss").wait_for()
    assert HOSTILE in log.inner_text()
    page.get_by_label("Process").click()
    page.get_by_role("option", name="rank-1").click()
    log.get_by_text("rank 1 reads").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert "rank 1 reads hello" in download.value.path().read_text()


def test_a_log_follows_until_the_job_is_canceled(
    visitor: chromium.Visit, workspace: tuple[Served, Jobs]
) -> None:
    served, names = workspace
    wait_for(lambda: status(served, names["waiting"]) == "Running")
    page = visitor.open(f"/jobs/{names['waiting']}?view=logs")
    log = page.get_by_role("log")
    log.get_by_text("line 3").first.wait_for()
    before = log.inner_text().count("line")
    page.wait_for_function(
        f"document.querySelector('[role=log]').innerText.split('line').length > {before + 3}"
    )
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the job").click()
    page.get_by_role("status").get_by_text("Canceled").wait_for()
    assert status(served, names["waiting"]) == "Canceled"
    assert page.get_by_role("button", name="Cancel", exact=True).is_hidden()


def test_metrics_are_plotted_and_compared(visitor: chromium.Visit, workspace: tuple[Served, Jobs]) -> None:
    _, names = workspace
    page = visitor.open(f"/jobs/{names['pipeline']}?view=metrics")
    page.get_by_role("img", name="loss by step").wait_for()
    assert page.locator(".ws-chart svg path").count() > 0
    visitor.open("/?type=Pipeline")
    page.get_by_role("checkbox", name=f"Compare {names['pipeline']}", exact=True).click()
    page.get_by_role("checkbox", name="Compare nightly").first.click()
    page.get_by_role("button", name="Compare metrics (2)").click()
    page.get_by_role("heading", name="Compare jobs").wait_for()
    page.get_by_role("img", name="accuracy by step").wait_for()


def test_outputs_are_browsed(visitor: chromium.Visit, workspace: tuple[Served, Jobs]) -> None:
    served, names = workspace
    page = visitor.open(f"/jobs/{step(served, names['pipeline'], 'train')}?view=outputs")
    page.get_by_role("button", name="model/").click()
    page.get_by_role("button", name="curve.csv").click()
    page.get_by_role("cell", name=HOSTILE).wait_for()
    page.get_by_role("button", name="metrics.json").click()
    page.get_by_text('"accuracy": 0.97').wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download page.html").click()
    assert HOSTILE in download.value.path().read_text()
    page.get_by_role("button", name="notes/").click()  # logged to MLflow
    page.get_by_role("button", name="read.txt").click()
    page.get_by_text("seen", exact=True).wait_for()


def test_a_job_is_resubmitted_with_other_inputs(
    visitor: chromium.Visit, workspace: tuple[Served, Jobs]
) -> None:
    served, names = workspace
    page = visitor.open(f"/jobs/{names['pipeline']}/resubmit")
    page.get_by_label("Display name").fill("Second try")
    page.get_by_label("rate").fill("0.7")
    page.get_by_label("epochs").fill("none")
    page.get_by_role("button", name="Submit").click()
    page.get_by_text("train, epochs: This is not a whole number.").wait_for()
    page.get_by_label("epochs").fill("5")
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("heading", name="Second try").wait_for()
    name = page.url.rpartition("/")[2]
    body = query(served, "SELECT properties FROM jobs WHERE name = ?", name)
    assert body is not None
    assert json.loads(body)["inputs"]["rate"]["value"] == "0.7"
    assert json.loads(body)["jobs"]["train"]["inputs"]["epochs"]["value"] == "5"


def test_assets_are_shown(visitor: chromium.Visit, workspace: tuple[Served, Jobs]) -> None:
    page = visitor.open("/data")
    page.get_by_role("link", name="prices").click()
    page.get_by_role("cell", name="Berlin").wait_for()
    page.get_by_text(HOSTILE, exact=True).wait_for()
    visitor.open("/components/train_tiny")
    rate = page.get_by_label("rate")
    rate.fill("7")
    page.get_by_text("The value must be at most 1.").wait_for()
    page.get_by_text("How weights are changed.", exact=True).wait_for()
    add_attempt(Place(workspace[0].home, "weekly"), 1, "promote", model="lookup")
    visitor.open("/models/lookup")
    page.get_by_role("cell", name="Porto").wait_for()
    page.get_by_role("img", name="1 look from 2026-03-09 03:00").wait_for()
    page.get_by_role("cell", name=f"because {EVIL}").wait_for()
    visitor.open("/environments/tiny")
    page.get_by_text("python:3.11-slim", exact=True).wait_for()
    visitor.open("/compute")
    page.get_by_role("cell", name="cpu-cluster").wait_for()


def test_a_schedule_is_disabled_and_enabled(visitor: chromium.Visit, workspace: tuple[Served, Jobs]) -> None:
    served, _ = workspace
    page = visitor.open("/schedules")
    page.get_by_role("link", name="Nightly training").click()
    page.get_by_text("cron 0 3 * * 1", exact=True).wait_for()
    page.get_by_role("link", name="nightly-").first.wait_for()
    page.get_by_role("button", name="Disable").click()
    page.get_by_text("A disabled schedule does not fire.").wait_for()
    code = f"""
from azure.ai.ml import MLClient
from azure.identity import DefaultAzureCredential
client = MLClient(DefaultAzureCredential(), *{list(SCOPE.values())})
print(client.schedules.get("nightly").is_enabled)
"""
    assert served.python(code).split()[-1] == "False"
    page.get_by_role("button", name="Enable").click()
    page.get_by_role("button", name="Disable").wait_for()


@pytest.mark.parametrize("path", ["/jobs/none", "/models/none", "/schedules/none"])
def test_what_does_not_exist_is_said(visitor: chromium.Visit, path: str) -> None:
    answer = visitor.page.goto(visitor.address + path)
    assert answer is not None
    assert answer.status == 404
    visitor.page.get_by_text("does not exist in this workspace").wait_for()
    visitor.faults.clear()  # the browser reports the status


def test_the_page_is_used_by_keyboard(visitor: chromium.Visit) -> None:
    page = visitor.open("/")
    page.keyboard.press("Tab")
    focused = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText"
    assert page.evaluate(focused) == "Skip to the content"
    order = []
    for _ in range(8):
        page.keyboard.press("Tab")
        order.append(page.evaluate(focused).strip().split("\n")[0])
    assert order == [
        "Worldsize, workspace local",
        "Jobs",
        "Models",
        "Data",
        "Components",
        "Environments",
        "Compute",
        "Schedules",
    ]
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    assert page.locator("html").get_attribute("lang") == "en-US"
    assert page.locator("nav [aria-current=page]").inner_text() == "Jobs"
    named = (
        "e.innerText || e.labels?.length || e.getAttribute('aria-label') || e.closest('[aria-label], label')"
    )
    unnamed = f"[...document.querySelectorAll('button, a[href], input')].filter(e => !({named}))"
    assert page.evaluate(f"{unnamed}.map(e => e.outerHTML)") == []


# On a narrow screen each cell has its column's name beside it, and nothing over it.
COVERED = """[...document.querySelectorAll('.ws-table tbody td')].filter(cell => {
  const label = getComputedStyle(cell, '::before');
  return label.position !== 'static' || cell.firstElementChild?.getBoundingClientRect().left
    < cell.getBoundingClientRect().left + parseFloat(label.width);
}).map(cell => cell.innerText)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_screens_and_both_modes(workspace: tuple[Served, Jobs], started: object, scheme: str) -> None:
    served, names = workspace
    train = step(served, names["pipeline"], "train")
    with chromium.visit(
        started,  # type: ignore[arg-type]
        served.address,
        served.token,
        width=360,
        height=640,
        scheme=scheme,  # type: ignore[arg-type]
    ) as visit:
        paths = [
            "/",
            f"/jobs/{names['pipeline']}",
            f"/jobs/{names['failing']}",
            "/components/train_tiny",
            "/data",
        ]
        paths += [
            f"/jobs/{train}?view={view}" for view in ("logs", "metrics", "outputs", "plan", "definition")
        ]
        paths += ["/schedules/nightly", "/compute", f"/jobs/{names['pipeline']}/resubmit", "/data/prices"]
        for path in paths:
            visit.open(path)
            assert visit.overflow() <= 0, path
            assert visit.page.evaluate(COVERED) == [], path
        ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(18, 22, 28)") == (scheme == "dark")
        assert visit.faults == []
