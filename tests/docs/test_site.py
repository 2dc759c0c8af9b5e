"""The documentation site is built offline, and none of its links leads nowhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from worldsize.cli.main import COMMANDS
from worldsize.rules import registry

pytestmark = [pytest.mark.run, pytest.mark.smoke]

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"""<(?:img|script|link|iframe)\b[^>]*?\b(?:src|href)=["']?(https?://[^"'\s>]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    built = subprocess.run(
        [*command, "--config-file", ROOT / "compiler/mkdocs.yml", "--site-dir", folder],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_every_command_and_rule_is_on_it(site: Path) -> None:
    commands = (site / "reference/cli/index.html").read_text(encoding="utf-8")
    assert {name for name in COMMANDS if f'id="worldsize-{name}"' in commands} == set(COMMANDS)
    assert {
        rule.code for rule in registry.rules() if not (site / f"rules/{rule.code}/index.html").exists()
    } == set()


def test_its_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loaded = {
        address: page.relative_to(site)
        for page in site.rglob("*.html")
        for address in LOADED.findall(page.read_text(encoding="utf-8"))
    }
    assert loaded == {}
