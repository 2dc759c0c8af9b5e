"""Reading files that grow: characters and lines stay whole wherever a read cuts."""

from __future__ import annotations

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from worldsize.running.launch.logs import Decoder, Follower, last_lines
from worldsize.running.model.results import Progress
from worldsize.running.record.details import ProgressFile, parse_progress

PRINTABLE = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)


@given(st.lists(PRINTABLE, max_size=8), st.lists(st.integers(0, 400), max_size=12))
def test_any_cuts_give_the_same_lines(lines: list[str], cuts: list[int]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    decoder = Decoder()
    found: list[str] = []
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        found += decoder.feed(data[start:end])
    assert found + decoder.feed(b"", final=True) == lines


def test_bytes_that_are_no_text_are_marked() -> None:
    assert Decoder().feed(b"a\xff\xfeb\n") == ["a\ufffd\ufffdb"]


def test_a_line_is_what_a_terminal_shows_in_the_end() -> None:
    assert Decoder().feed(b"10%\r50%\r100%\n\x1b[31mred\x1b[0m\r\n") == ["100%", "red"]


def test_a_follower_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = Follower(path)
    assert follower.lines() == []
    with path.open("wb") as file:
        file.write(b"eins\nzw")
        file.flush()
        assert follower.lines() == ["eins"]
        file.write("ölf €".encode()[:-1])
        file.flush()
        assert follower.lines() == []
        file.write("€".encode()[-1:] + b"\n")
    assert follower.lines() == ["zwölf €"]
    assert follower.lines(final=True) == []


def test_last_lines_of_a_long_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"line {number} é\n\n" for number in range(50_000)) + "end")
    assert last_lines(path, 3) == ["line 49998 é", "line 49999 é", "end"]
    assert last_lines(tmp_path / "none", 3) == []


def test_progress_is_the_newest_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    progress = ProgressFile(path)
    assert progress.read() is None
    path.write_text(
        '{"step": 1, "total_steps": 4, "loss": 2.5}\n{"step": 2, "total_steps": 4, "loss": 1.5}\n{"st'
    )
    newest = progress.read()
    assert newest == Progress(step=2, total_steps=4, loss=1.5)
    assert newest.fraction == 0.5
    assert progress.read() == progress.newest == newest


@given(st.text(max_size=40) | st.recursive(st.none() | st.floats() | st.integers(), st.lists).map(str))
def test_no_line_of_a_script_breaks_the_view(line: str) -> None:
    parse_progress(line)
    parse_progress(f'{{"step": {line}, "loss": "x"}}')


def test_odd_numbers_are_no_progress() -> None:
    assert parse_progress('{"step": NaN, "total_steps": 1e400, "loss": true}') == Progress()
    assert parse_progress('{"step": 3, "total_steps": 0}') == Progress(step=3, total_steps=0)
    assert parse_progress("[1]") is None
