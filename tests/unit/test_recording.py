"""The README's recording: what a terminal showed, as a picture that holds its end."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("pyte", reason="pyte is missing: pip install -e '.[dev]'")
import record_run  # after pyte is known to be there

SVG = "{http://www.w3.org/2000/svg}"


def _draw(*chunks: tuple[float, bytes]) -> ET.Element:
    return ET.fromstring(record_run.draw(record_run.replay(chunks), "worldsize <run>"))


def test_a_line_that_is_written_over_is_gone_and_the_last_one_stays() -> None:
    picture = _draw(
        (0.0, b"train \x1b[36mrunning\x1b[0m\r\n"), (2.0, b"\x1b[1A\x1b[2Ktrain \x1b[32mdone & <dusted>")
    )
    gone, kept = picture.findall(f"{SVG}g")
    assert (gone.get("class"), gone.get("style")) == ("gone", "animation:on 2s 0s")
    assert (kept.get("class"), kept.get("style")) == (None, "animation:off 2s")
    assert [(text.text, text.get("class")) for text in kept] == [
        ("train", None),
        ("done & <dusted>", "green"),
    ]
    assert [text.get("x") for text in kept] == ["14", "64.4"]


def test_a_long_run_is_played_faster() -> None:
    frames = record_run.replay([(float(second), b"%d\r\n" % second) for second in range(0, 600, 10)])
    assert record_run.PLAYED - 1 < frames[-1][0] <= record_run.PLAYED
    assert len(frames) <= record_run.PLAYED / record_run.STEP + 1


def test_a_command_that_fails_is_not_recorded(tmp_path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)exit status 3:.*said"):
        record_run.record(["/bin/sh", "-c", "echo said; exit 3"], tmp_path)


def test_the_picture_of_the_readme_is_small_and_needs_nothing() -> None:
    text = record_run.PICTURE.read_text(encoding="utf-8")
    assert len(text.encode()) < 150_000
    assert "prefers-color-scheme:dark" in text
    assert re.findall(r"<script|<image|url\(|https?://(?!www\.w3\.org/2000/svg)", text) == []
    picture = ET.fromstring(text)
    shown = " ".join(
        "".join(group.itertext()) for group in picture.findall(f"{SVG}g") if not group.get("class")
    )
    assert re.search(r"run [\d-]+ succeeded after", shown)
    assert "digits-cnn version 1" in shown
    ends = [float(each) for each in re.findall(r"animation:off ([\d.]+)s", text)]
    assert max(ends) <= record_run.PLAYED
