"""What a Python without the extras is told before a run starts."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from worldsize.running.api import dry_run
from worldsize.running.model.errors import RunError

PIPELINES = Path(__file__).parents[2] / "pipelines"


def without(monkeypatch: pytest.MonkeyPatch, *absent: str) -> None:
    """Make it look as if modules were not installed."""
    find = importlib.util.find_spec

    def look(name: str, *rest: Any) -> Any:
        return None if name in absent else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", look)


def test_a_component_that_cannot_import_is_refused_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "numpy", "torch")
    with pytest.raises(RunError) as caught:
        dry_run(PIPELINES / "digits_ddp.yml")
    text = str(caught.value)
    assert text.count("error: ") == 1
    assert "import `numpy` and `torch`, which this Python does not have" in text
    assert "= help: run `pip install 'worldsize[run]'`" in text


def test_only_the_extras_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "deepspeed", "tensorflow")
    with pytest.raises(RunError, match=r"'worldsize\[deepspeed\]'") as caught:
        dry_run(PIPELINES / "python_source_gpt_deepspeed.yml")
    assert "step `train` imports `deepspeed`" in str(caught.value)


def test_what_no_step_imports_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "deepspeed", "tensorflow")
    assert dry_run(PIPELINES / "digits_ddp.yml")


def test_a_script_of_the_users_own_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "numpy", "torch")
    assert dry_run(PIPELINES / "own_script.yml")


def test_a_tokenizer_needs_its_extra_where_it_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "tokenizers")
    dry_run(PIPELINES / "python_source_gpt.yml")
    with pytest.raises(RunError, match=r"'worldsize\[transformers\]'") as caught:
        dry_run(PIPELINES / "python_source_bpe.yml")
    assert "step `shard` imports `tokenizers`" in str(caught.value)
