"""What is said of scripts that train, together with their jobs; the cases are in ``training_scripts.md``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import worldsize

TEXT = Path(__file__).with_name("training_scripts.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^(#+ [^\n]+)\n(.*?)(?=^#+ |\Z)", re.MULTILINE | re.DOTALL)
# The scripts have no comments, so that each such line is a heading.
SECTIONS = {title: dict(FENCE.findall(body)) for title, body in SECTION.findall(TEXT)}
PARTS = {title[7:]: files["python"] for title, files in SECTIONS.items() if title.startswith("# part ")}
CASES = [title for title in SECTIONS if title.startswith("## ")]


@pytest.mark.parametrize("title", CASES)
def test_a_script_and_its_job_have_one_finding_or_none(title: str, tmp_path: Path) -> None:
    _, code, job = re.fullmatch(r"## (.+): (WS\d+|silent), (.+)", title).groups()  # type: ignore[union-attr]
    (tmp_path / "src").mkdir()
    for name, text in SECTIONS[title].items():
        filled = re.sub(r"^@(\w+)\n", lambda match: PARTS[match[1]], text, flags=re.MULTILINE)
        (tmp_path / "src" / name).write_text(filled)
    (tmp_path / "job.yml").write_text(SECTIONS[f"# job {job}"]["yaml"])
    report = worldsize.check([str(tmp_path)])
    found = {each.code for each in report.diagnostics if each.severity != "info"}
    assert found == (set() if code == "silent" else {code})
