"""The page of a real run, in a headless browser: complete, quiet, and as wide as the window."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import browser as chromium
import pytest

SPEC = """\
name: tiny
compute: {cpu: {target: "azureml:cpu", instance_type: Standard_D4s_v5}}
steps:
  shard: {uses: shard_data, compute: cpu, with: {source: "builtin:digits"}}
  train:
    uses: train_ddp
    compute: cpu
    process_count_per_instance: 2
    with: {model: mlp, epochs: 2, optimizer: sgd}
    scale: {reference: {batch_size: 32, learning_rate: 0.05}}
  evaluate: {uses: evaluate, compute: cpu}
  register: {uses: register, compute: cpu, with: {model_name: tiny}, when: {accuracy: ">= 0.2"}}
"""
OVERFLOW = "document.documentElement.scrollWidth - window.innerWidth"

pytestmark = pytest.mark.run


def worldsize(folder: Path, *words: str, status: int = 0) -> str:
    command = [sys.executable, "-m", "worldsize", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a run that trained in two processes."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "tiny.yml").write_text(SPEC)
    text = worldsize(folder, "run", "tiny.yml")
    assert re.search(r"^  report +\.worldsize/runs/[\d-]+/report\.html$", text, re.MULTILINE)
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    (page,) = folder.glob(".worldsize/runs/*/report.html")
    return page


def test_the_page_has_what_the_run_did(page: Path) -> None:
    text = page.read_text()
    assert page.stat().st_size < 1_000_000
    for title in ("Steps", "Timeline", "Training: train", "Metrics", "Models", "Environment"):
        assert f">{title}</h2>" in text
    assert "stroke: var(--c1)" in text  # curves
    assert "was most often the slowest" in text  # the times of ranks were recorded
    assert 'alt="Confusion matrix (evaluate)"' in text
    assert "accuracy &gt;= 0.2" in text


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    chromium.require_chromium()
    with chromium.browser() as started:
        yield started


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (400, "light")])
def test_a_browser_shows_it_without_errors_or_requests(browser, page: Path, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    faults: list[str] = []
    view = context.new_page()
    view.on("console", lambda said: faults.append(said.text))
    view.on("pageerror", lambda error: faults.append(str(error)))
    view.on("request", lambda sent: faults.append(sent.url) if sent.url.startswith("http") else None)
    view.goto(page.as_uri())
    assert faults == []
    assert view.evaluate(OVERFLOW) <= 0
    assert view.get_by_role("heading", level=1).count() == 1
    assert view.get_by_role("img").count() >= 4
    view.keyboard.press("Tab")
    assert view.evaluate("document.activeElement.textContent") == "Skip to the content"
    names = view.get_by_role("img").evaluate_all(
        "all => all.map(one => one.ariaLabel || one.alt || one.innerHTML)"
    )
    assert all(names)
    context.close()


def test_a_run_without_a_page_and_with_json(folder: Path) -> None:
    found = json.loads(worldsize(folder, "run", "tiny.yml", "--json", "--no-report"))
    assert found["state"] == "succeeded"
    assert found["report"] is None
    assert {step["state"] for step in found["steps"].values()} <= {"reused", "succeeded"}
    assert not Path(found["folder"], "report.html").exists()
    text = Path(folder, worldsize(folder, "report").strip()).read_text()
    assert "from run " in text
    assert "stroke: var(--c1)" in text  # the curves of the reused training
    differences = json.loads(worldsize(folder, "diff", page_id(folder), "last", "--json"))["differences"]
    assert {each["section"] for each in differences} <= {"run", "environment", "metrics"}


def page_id(folder: Path) -> str:
    return min(path.name for path in (folder / ".worldsize" / "runs").iterdir())
