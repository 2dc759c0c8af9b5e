"""The diff that `adopt` shows has each reason right above the line that it explains."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from worldsize.adopting.adopt import adopt_script
from worldsize.cli.adopt import describe_adoption, render_diff

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("WS902: the rows come in a new order each epoch", "+            self.train_loader.sampler.set_"),
        ("a job that is interrupted goes on from its last epoch", "-        for epoch in range("),
        ("a job that is interrupted goes on from its last epoch", "+            if RANK == 0 and latest:"),
        ("WS901: each process knows which one it is, and what is set by flags", "+# One process per GPU: "),
        ("WS915: the gradients of all processes are averaged", "+        self.ddp_model = Distributed"),
        ("the metric is of the rows of all processes", "+        running = average(running)"),
        ("WS904: one process writes the file", "+        if RANK == 0:"),
        ("the processes end together, and the group with them", "+    dist.barrier()"),
    ],
)  # fmt: skip
def test_a_reason_stands_above_its_line(reason: str, line: str) -> None:
    lines = render_diff(adopt_script(SCRIPTS / "trainer_class.py"), colour=False).splitlines()
    below = [after for before, after in pairwise(lines) if before.startswith(f"# {reason}")]
    assert any(after.startswith(line) for after in below)


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_each_change_has_its_reason_above_a_line_that_changes(path: Path) -> None:
    adoption = adopt_script(path)
    shown = render_diff(adoption, colour=False).splitlines()
    for change in adoption.changes:
        assert any(line.startswith("# ") and line.endswith(change.reason) for line in shown)
    for before, after in pairwise(shown):
        assert not before.startswith("# ") or after[0] in "#+-"


def test_the_diff_for_programs_can_be_applied() -> None:
    adoption = adopt_script(SCRIPTS / "trainer_class.py")
    lines = describe_adoption(adoption)["diff"].splitlines()
    assert {line[0] for line in lines} <= set(" +-@")
    plain = [line for line in render_diff(adoption, colour=False).splitlines() if line[:1] != "#"]
    assert lines == plain
