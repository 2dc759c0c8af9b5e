"""A command's exit status, as a shell reports it."""

from __future__ import annotations

import asyncio
import os

import pytest

pytest.importorskip("uvicorn", reason="pip install 'worldsize[serve]'")

from worldsize.serving.front.command import Command


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["no-such-command"], 127),
        (["/"], 126),
        (["sh", "-c", "umask | grep -q 022"], 0),
    ],
)
def test_the_exit_status_is_the_commands(
    words: list[str], status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert asyncio.run(Command(words, dict(os.environ), umask=0o022).run()) == status
    if status in {126, 127}:
        assert capfd.readouterr().err.startswith(f"error: `{words[0]}`: ")
