"""Expectations that several tests share are rewritten whole, whichever of the tests run, and side by side."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from shared_golden import replace_part, update_text

SUPPORT = Path(__file__).parents[1] / "support"
WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from shared_golden import replace_part
for number in range(int(sys.argv[3]), 200, 2):
    replace_part(Path(sys.argv[2]), f"part {number:03} old\\n", f"part {number:03} is new\\n")
"""


def test_workers_rewrite_their_parts_of_one_file(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("".join(f"part {number:03} old\n" for number in range(200)))
    workers = [
        subprocess.Popen([sys.executable, "-S", "-c", WORKER, str(SUPPORT), str(page), str(first)])
        for first in (0, 1)
    ]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    assert page.read_text() == "".join(f"part {number:03} is new\n" for number in range(200))


def test_a_part_that_is_not_there_stops_the_rewriting(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("one\n")
    with pytest.raises(AssertionError, match="does not have this part once: 'two'"):
        replace_part(page, "two", "three")
    with pytest.raises(AssertionError, match="would become empty"):
        update_text(page, lambda _text: "")
    assert page.read_text() == "one\n"
