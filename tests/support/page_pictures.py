"""Takes the pictures of the page for the README: `python tests/support/page_pictures.py [FOLDER]`.

A server of its own runs the shipped pipeline of handwritten digits, submitted twice; it takes some minutes.
FOLDER is that of the README's pictures by default.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import browser as chromium
from serving import Served, serving

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / ".github" / "assets"  # where the README has its pictures
SMALL = ("Standard_NC96ads_A100_v4", "Standard_NC24ads_A100_v4")  # one GPU in place of four
SUBMIT = """
import json, sys
from azure.ai.ml import MLClient, load_component, load_job
from azure.ai.ml.entities import CronTrigger, JobSchedule
from azure.identity import DefaultAzureCredential
folder, components = sys.argv[1:]
client = MLClient(DefaultAzureCredential(), "00000000-0000-0000-0000-000000000000", "worldsize", "local")
for name in ("train_ddp", "shard_data", "evaluate"):
    client.components.create_or_update(load_component(f"{components}/{name}/component.yml"))
names = []
for rate in (None, 0.01):
    job = load_job(f"{folder}/pipeline.yml")
    if rate is not None:
        job.display_name += ", smaller learning rate"
        job.jobs["train"].inputs.learning_rate = rate
    names.append(client.jobs.create_or_update(job).name)
weekly = JobSchedule(
    name="digits-weekly", display_name="Retrain on Mondays", create_job=load_job(f"{folder}/pipeline.yml"),
    trigger=CronTrigger(expression="0 3 * * 1", time_zone="UTC", start_time="2030-01-07T00:00:00"),
)
client.schedules.begin_create_or_update(weekly).result()
print(json.dumps(names))
"""


def take(images: Path) -> None:
    """Run the pipeline and take the pictures."""
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="page-") as temporary:
        folder = Path(temporary)
        spec = (ROOT / "pipelines" / "digits_ddp.yml").read_text(encoding="utf-8")
        (folder / "digits_ddp.yml").write_text(spec.replace(*SMALL), encoding="utf-8")
        worldsize = [sys.executable, "-m", "worldsize", "compile", "digits_ddp.yml", "-o", "compiled"]
        subprocess.run(worldsize, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with serving(folder) as served, chromium.browser() as started:
            said = served.python(SUBMIT, str(folder / "compiled"), str(ROOT / "components"))
            first, second = json.loads(said.strip().splitlines()[-1])
            with chromium.visit(started, served.address, served.token, height=760) as visit:
                _wait(lambda: _status(served, first, "train") == "Running")
                _take(visit, f"/jobs/{first}", "Step train", images / "page-graph.png")
                _wait(lambda: _status(served, second) in ("Completed", "Failed"))
                _take(visit, f"/compare?jobs={first},{second}", "loss by step", images / "page-compare.png")


def _take(visit: chromium.Visit, path: str, ready: str, picture: Path) -> None:
    page = visit.open(path)
    page.locator(f'[aria-label^="{ready}"]').or_(page.get_by_text(ready)).first.wait_for()
    page.wait_for_timeout(1500)  # charts and fonts
    visit.screenshot(picture)
    print(picture, picture.stat().st_size, visit.faults, visit.foreign)


def _status(served: Served, name: str, step: str | None = None) -> str | None:
    connection = sqlite3.connect(served.home / "serve" / "workspace.db", timeout=30)
    try:
        query, values = "SELECT status FROM jobs WHERE name = ?", [name]
        if step is not None:
            query, values = "SELECT status FROM jobs WHERE root = ? AND step = ?", [name, step]
        row = connection.execute(query, values).fetchone()
    finally:
        connection.close()
    return None if row is None else str(row[0])


def _wait(done: Callable[[], bool], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit("the jobs did not get that far")
        time.sleep(0.5)


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
