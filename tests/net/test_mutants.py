from __future__ import annotations

import random
import runpy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("coverage")
NET = runpy.run_path(str(Path(__file__).with_name("mutants.py")))


@pytest.mark.parametrize(
    ("line", "kind", "changed"),
    [
        ("return a < b", "off by one", "return a <= b"),
        ("return a[b - 1]", "off by one", "return a[b - 2]"),
        ("return join(a, b)", "swapped arguments", "return join(b, a)"),
        ("return not a", "dropped not", "return a"),
        ("return a and b", "and for or", "return a or b"),
        ("return 'é', not a", "dropped not", "return 'é', a"),
    ],
)
def test_a_fault_of_each_kind(tmp_path: Path, line: str, kind: str, changed: str) -> None:
    path = tmp_path / "a.py"
    path.write_text(f"def f(a, b):\n    {line}\n", encoding="utf-8")
    fault = NET["draw_fault"](random.Random(1), path)
    assert (fault.kind, fault.line) == (kind, 2)
    assert fault.apply(path.read_bytes()).decode() == f"def f(a, b):\n    {changed}\n"


@pytest.mark.parametrize(
    "text", ["a = b < c\n", "def f(a):\n    return a\n", "def f():\n    return g(1, 1)\n"]
)
def test_nothing_to_change(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    assert NET["draw_fault"](random.Random(1), tmp_path / "a.py") is None


@pytest.mark.parametrize(
    "context",
    [
        "t.py::test[a|b (c)]|run",
        "t.py::test[a|b (c)] (call)",
        "t.py::x[1] (setup)|t.py::test[a|b (c)] (call)",
    ],
)
def test_the_test_of_a_context(context: str) -> None:
    assert NET["name_test"](context) == "t.py::test[a|b (c)]"


def test_a_seed_draws_the_same_faults() -> None:
    drawn: list[Any] = [NET["draw_faults"](7, 5) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len({fault.path for fault in drawn[0]}) == 5
