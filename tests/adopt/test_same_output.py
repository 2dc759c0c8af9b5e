"""Adopting a script gives the same bytes each time, whatever the seed of Python's hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from adopt_text import PLAIN

HERE = Path(__file__).parent

# Objects of other sizes come first, so that those of the script lie, and hash, elsewhere.
PROGRAM = """
import json
import sys
from pathlib import Path

from worldsize.adopting.adopt import adopt_script
from worldsize.adopting.project.files import make_project
from worldsize.adopting.project.spec import ProjectRequest
from worldsize.cli.adopt import describe_adoption, render_diff

held = [bytes(size % 509) for size in range(int(sys.argv[1]) * 997)]
del held[:: int(sys.argv[1]) + 2]
for path in map(Path, sys.argv[2:]):
    adoption = adopt_script(path)
    print(json.dumps(describe_adoption(adoption)), render_diff(adoption, colour=False))
    project = make_project(ProjectRequest(adoption, path), path.parent, beside=True)
    print(project.spec, project.files, sep="\\n")
"""

LOST = """\
    if total < low or total > high or epoch > last:
        low, high, last = sort(low, high, last, total)
"""


def test_the_output_is_the_same_for_each_seed(tmp_path: Path) -> None:
    lost = tmp_path / "lost.py"  # three names that one statement sets are reported
    lines = PLAIN.decode().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("for epoch"))
    lost.write_text(
        "".join(
            [*lines[:at], "low = high = last = 0\n", lines[at], "    total = 0.0\n", LOST, *lines[at + 1 :]]
        )
    )
    paths = [str(lost), *sorted(map(str, (*HERE.glob("scripts/*.py"), *HERE.glob("more/*.py"))))]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, seed, *paths],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            timeout=120,
        ).stdout.replace(str(tmp_path).encode(), b"")
        for seed in ("1", "2", "3", "4")
    }
    assert len(outputs) == 1
    assert all(
        f"`{name}` starts anew".encode() in output for output in outputs for name in ("low", "high", "last")
    )
