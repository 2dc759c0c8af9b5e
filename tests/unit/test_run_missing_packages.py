"""What a failure says of a package that the step's Python does not have."""

from __future__ import annotations

import pytest

from worldsize.running.engine.failures import explain_missing_package

LINE = "ModuleNotFoundError: No module named '{}'"


@pytest.mark.parametrize(
    ("module", "advice"),
    [
        ("numpy", "run `pip install 'worldsize[run]'`"),
        ("sklearn.svm", "run `pip install 'worldsize[run]'`"),
        ("tensorflow", "run `pip install 'worldsize[tensorflow]'`"),
        ("transformers", "help: install it, or"),
    ],
)
def test_the_package_is_named_with_what_installs_it(module: str, advice: str) -> None:
    found = explain_missing_package(["Traceback", '  File "a.py", line 1', LINE.format(module)])
    assert found is not None
    assert found[0] == f"its Python has no module `{module}`"
    assert advice in found[1]


@pytest.mark.parametrize("lines", [[], [LINE.format("numpy"), "going on without"], ["ImportError: numpy"]])
def test_what_a_script_got_over_is_not_the_reason(lines: list[str]) -> None:
    assert explain_missing_package(lines) is None


@pytest.mark.parametrize(
    "line",
    [
        "python: Error while finding module for 'a.b' (ModuleNotFoundError: No module named 'a.b')",
        "error: `score.py` cannot be used: ModuleNotFoundError: No module named 'a.b'",
    ],
)
def test_a_program_that_passes_the_error_on_is_understood(line: str) -> None:
    found = explain_missing_package(["Traceback", line])
    assert found is not None
    assert found[0] == "its Python has no module `a.b`"
