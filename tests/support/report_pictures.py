"""Takes the pictures of a report for its documentation: `python tests/support/report_pictures.py RUN_FOLDER`.

The run is one of `pipelines/digits_ddp.yml` with two processes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import browser as chromium
from PIL import Image

from worldsize.reporting.page import render_page, write_page
from worldsize.reporting.read_run import read_run

PICTURES = Path(__file__).parents[2] / "compiler" / "docs" / "pictures"
WIDTH = 1000
PARTS = (("report", "light", "main", 1225), ("report-training", "dark", "training-0", 660))


def take(run: Path, pictures: Path) -> None:
    """Write the head of the page, and its curves in dark colours."""
    pictures.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="report-") as folder, chromium.browser() as started:
        page = Path(folder) / "report.html"
        write_page(render_page(read_run(run)), page)
        for name, scheme, anchor, height in PARTS:
            context = started.new_context(
                viewport={"width": WIDTH, "height": height}, color_scheme=scheme, reduced_motion="reduce"
            )
            view = context.new_page()
            view.goto(page.as_uri())
            view.evaluate("name => name === 'main' || document.getElementById(name).scrollIntoView()", anchor)
            picture = pictures / f"{name}.png"
            view.screenshot(path=picture)
            context.close()
            _shrink(picture)
            print(picture, picture.stat().st_size)


def _shrink(picture: Path) -> None:
    """Reduce the colours: the page has few."""
    with Image.open(picture) as image:
        small = image.convert("RGB").quantize(200)
    small.save(picture, optimize=True)


if __name__ == "__main__":
    take(Path(sys.argv[1]), PICTURES)
