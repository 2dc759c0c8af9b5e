"""`worldsize report --retrain`: one page of a year of looks, whatever they led to."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from retrained_runs import EVIL, NOW, WEEK, add_attempt

from worldsize.cli.main import main
from worldsize.retraining import looks as lines
from worldsize.retraining.history import read_history
from worldsize.retraining.local import Place
from worldsize.retraining.looks import LookRecord, add_look, read_looks
from worldsize.running.show.firings import MAX_DRAWN, WORDS, Firing, draw_firings, draw_key


def make_firing(week: int, action: str) -> Firing:
    return Firing(
        NOW + week * WEEK,
        action,
        f"because of week {week} {EVIL}",
        run=f"run{week}" if action in ("promote", "keep", "failed") else None,
        metric="rmse" if action in ("promote", "keep") else None,
        old=1.0 if week else None,
        new=1e6 if week == 7 else 0.9 + 0.01 * (week % 9),
        difference={"value": 0.1, "low": -0.1, "high": 0.3} if week else None,
        rows=100 + week,
        seconds=30.0,
    )


ACTIONS = ["promote", "keep", "none", "stop", "wait", "failed", "running", "interrupted", "rollback"]


@pytest.mark.parametrize(
    "actions",
    [["promote"], ["keep"], ["none"], ["failed"], ["stop"] * 3, ["keep", "none"] * 20, ACTIONS * 34],
    ids=lambda actions: f"{actions[0]}-{len(actions)}",
)
def test_any_looks_are_drawn(actions: Sequence[str]) -> None:
    firings = [make_firing(week, action) for week, action in enumerate(actions)]
    picture = draw_firings(firings)
    root = ET.fromstring(picture)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for element in root.iter():
        for name in ("x", "x1", "x2", "cx"):
            assert 0 <= float(element.get(name, "0")) <= width
        for name in ("y", "y1", "y2", "cy"):
            assert 0 <= float(element.get(name, "0")) <= height
    assert "nan" not in picture
    assert len(picture) < 900 * len(actions) + 12_000
    titles = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    for action in actions:
        assert any(f": {WORDS[action]}: because" in title for title in titles)


def test_values_that_cannot_be_drawn_are_left_out() -> None:
    assert draw_firings([]) == ""
    alike = [Firing(NOW, "keep", "", metric="r2", old=0.5, new=0.5, difference={"value": 0.0}) for _ in "ab"]
    assert "nan" not in draw_firings(alike)
    many = [make_firing(week, "none") for week in range(MAX_DRAWN + 500)]
    assert f"{MAX_DRAWN} looks" in draw_firings(many)
    assert draw_key(["promote"]).count("<path") == 1
    assert draw_firings([Firing(1e300, "none", ""), Firing(-1.0, "none", "")]) == ""
    assert draw_firings([Firing(0, "none", ""), Firing(1.9e11, "none", "")])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    made = Place(tmp_path / ".worldsize", "sales")
    made.root.mkdir(parents=True)
    return made


class Tags(HTMLParser):
    """The tags of a page, which must all be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.tags.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def report(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["report", *words])
    return result.exit_code, result.output


def test_the_page_has_the_picture_the_table_and_links_to_the_runs(place: Place) -> None:
    first = add_attempt(place, 1, "promote")
    add_look(place.root, LookRecord(NOW + 2 * WEEK, "none", f"nothing is new {EVIL}"))
    add_look(place.root, LookRecord(NOW + 3 * WEEK, "stop", "`sales` has no files"))
    add_attempt(place, 4, "keep")
    status, output = report("--retrain", "sales")
    assert (status, output.strip()) == (0, ".worldsize/retrain/sales/report.html")
    page = (place.root / "report.html").read_text()
    assert oct((place.root / "report.html").stat().st_mode)[-3:] == "600"
    assert not Tags(page).tags & {"script", "img", "link"}
    assert EVIL not in page
    assert "1.25, 1.125" in page
    assert "0.125 better (0.0625 to 0.188)" in page
    assert "there is new data in week 4" in page
    assert "Drift: the largest PSI of a column" in page
    assert read_history(place.home, "sales").firings[0].drift == 0.25
    assert f'href="../../runs/{first.name}/report.html"' in page
    assert re.findall('<span class="state [a-z]+">(.*?)<', page) == [
        "champion kept", "stopped", "nothing to do", "promoted",
    ]  # fmt: skip
    status, output = report("--retrain", "sales", "--json", "-o", "year.html")
    assert json.loads(output) == {
        "retrain": "sales", "looks": 4, "trainings": 2, "champion": None,
        "report": str(Path("year.html").absolute()),
    }  # fmt: skip


def test_failures_alone_have_a_page(place: Place) -> None:
    add_attempt(place, 1, "keep", state="failed")
    assert report("--retrain", "sales")[0] == 0
    assert [firing.action for firing in read_history(place.home, "sales").firings] == ["failed"]
    (place.root / lines.LOOKS).write_bytes(b"\xff\x00{\n" + b"[" * 100_000 + b'\n{"now": "x"}\n')
    assert report("--retrain", "sales")[0] == 0


def test_a_pipeline_that_nobody_looked_at_is_refused(place: Place) -> None:
    status, output = report("--retrain", "sale")
    assert status == 1
    assert "did you mean `sales`?" in output
    assert report("--retrain", "sales", "last")[0] == 2
    (place.root / "report.html").mkdir()
    assert "is a folder" in report("--retrain", "sales")[1]


def test_looks_leave_lines_that_are_whole_few_and_bounded(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minute in range(180):
        add_look(place.root, LookRecord(NOW + 60 * minute, "none", "nothing is new"))
    assert [look.now for look in read_looks(place.root)] == [NOW, NOW + 3600, NOW + 7200]
    path = place.root / lines.LOOKS
    path.write_bytes(path.read_bytes()[:-9])  # a look was killed while it wrote
    add_look(place.root, LookRecord(NOW + 9000, "stop", "x" * 5000))
    looks = read_looks(place.root)
    assert [look.now for look in looks] == [NOW, NOW + 3600, NOW + 9000]
    assert len(looks[-1].reason) == lines.LONGEST
    monkeypatch.setattr(lines, "LARGEST", 2000)
    for week in range(100):
        add_look(place.root, LookRecord(NOW + week * WEEK, "none", f"week {week}"))
        assert path.stat().st_size <= 2000 + 100
    assert [look.reason for look in read_looks(place.root)][-30:] == [
        f"week {week}" for week in range(70, 100)
    ]
    path.unlink()
    os.mkfifo(path)
    add_look(place.root, LookRecord(NOW, "none", "nothing"))  # neither waits nor fails
    with pytest.warns(Warning, match=r"looks\.jsonl"):
        assert len(read_looks(place.root)) < 40  # of the older file
