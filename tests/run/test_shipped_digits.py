"""The shipped digits, run once: the model, the law of the global batch, and the page of the run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import browser as chromium
import pytest
from shipped_runs import Shipped, read_losses, run_shipped

pytestmark = [pytest.mark.run, pytest.mark.timeout(600)]

# A process that has never heard of us loads the registered version and tells the digits apart.
ANYBODY = """
import mlflow, numpy, sklearn.datasets, sys
mlflow.set_tracking_uri(sys.argv[1])
version = mlflow.MlflowClient().get_model_version("digits-cnn", "1")
assert version.tags["worldsize.global_batch_size"] == "256", version.tags
model = mlflow.pyfunc.load_model("models:/digits-cnn/1")
digits = sklearn.datasets.load_digits()
images = (digits.images / 16).astype("float32")[:, None]
answers = numpy.concatenate([model.predict(images[at:at + 256]) for at in range(0, len(images), 256)])
print((answers.argmax(1) == digits.target).mean())
"""
OVERFLOW = "document.documentElement.scrollWidth - window.innerWidth"
EPOCHS = {"with": {"epochs": 8}}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    return run_shipped(tmp_path_factory.mktemp("digits"), "digits_ddp", train=EPOCHS)


@pytest.mark.smoke
def test_they_end_as_a_registered_model_that_predicts(digits: Shipped, tmp_path: Path) -> None:
    assert "planned for 8 processes (2 × 4), running 2 here with accumulation ×4" in digits.output
    assert "digits-cnn version 1" in digits.output
    assert digits.metrics["accuracy"] >= 0.97

    result = subprocess.run(
        [sys.executable, "-I", "-c", ANYBODY, f"sqlite:///{digits.home}/mlflow.db"],
        env={**os.environ, "PYTHONPATH": ""}, cwd=tmp_path,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert float(result.stdout.split()[-1]) >= 0.97


def test_one_process_learns_the_same(digits: Shipped, tmp_path: Path) -> None:
    """The main promise: the loss of every step is the same with one process as it was with two."""
    alone = run_shipped(tmp_path, "digits_ddp", processes=1, steps=("shard", "train"), train=EPOCHS)
    (two,), (one,) = read_losses(digits.home), read_losses(alone.home)
    assert sorted(one) == sorted(two) == list(range(1, 41))  # 8 epochs of 5 steps
    for step in range(1, 16):  # three epochs
        assert two[step] == pytest.approx(one[step], rel=1e-4), f"step {step}"


@pytest.fixture
def page(digits: Shipped) -> Path:
    return digits.newest / "report.html"


@pytest.mark.smoke
def test_its_page_has_what_the_run_did(digits: Shipped, page: Path) -> None:
    assert re.search(r"^  report +\S+/runs/[\d-]+/report\.html$", digits.output, re.MULTILINE)
    text = page.read_text()
    assert page.stat().st_size < 1_000_000
    for title in ("Steps", "Timeline", "Training: train", "Metrics", "Models", "Environment"):
        assert f">{title}</h2>" in text
    assert "stroke: var(--c1)" in text  # curves
    assert "was most often the slowest" in text  # the times of ranks were recorded
    assert 'alt="Confusion matrix (evaluate)"' in text
    assert "accuracy &gt;= 0.97" in text


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    chromium.require_chromium()
    with chromium.browser() as started:
        yield started


@pytest.mark.smoke
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (400, "light")])
def test_a_browser_shows_its_page_without_errors_or_requests(
    browser, page: Path, width: int, scheme: str
) -> None:
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


@pytest.mark.smoke
def test_it_is_run_again_without_a_page_and_with_json(digits: Shipped) -> None:
    def worldsize(*words: str | Path) -> str:
        command = [sys.executable, "-m", "worldsize", *words, "--runs-dir", digits.home]
        done = subprocess.run(
            command, cwd=digits.folder, capture_output=True, text=True, check=False, timeout=240
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    found = json.loads(worldsize("run", digits.spec, "--processes", "2", "--json", "--no-report"))
    assert found["state"] == "succeeded"
    assert found["report"] is None
    assert {step["state"] for step in found["steps"].values()} <= {"reused", "succeeded"}
    assert not Path(found["folder"], "report.html").exists()
    text = Path(digits.folder, worldsize("report").strip()).read_text()
    assert "from run " in text
    assert "stroke: var(--c1)" in text  # the curves of the reused training
    differences = json.loads(worldsize("diff", digits.newest.name, "last", "--json"))["differences"]
    assert {each["section"] for each in differences} <= {"run", "environment", "metrics"}
