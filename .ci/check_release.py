"""Stops a release whose tag, version and changelog disagree: `python .ci/check_release.py v0.2.0`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def find_disagreement(tag: str, project: str, changelog: str) -> str | None:
    """Say what to change before a tag can be released, given the texts of pyproject.toml and CHANGELOG.md."""
    written = re.search(r'^version = "([^"]+)"$', project, re.MULTILINE)
    version = written[1] if written else "no version"
    if tag != f"v{version}":
        return f"the tag is {tag}, but pyproject.toml has {version}"
    heading = re.search(r"^## (.+)$", changelog, re.MULTILINE)
    newest = heading[1] if heading else "no release"
    if not re.fullmatch(re.escape(version) + r" \(\d{4}-\d\d-\d\d\)", newest):
        return f"the newest release of CHANGELOG.md is `{newest}`; write `{version} (YYYY-MM-DD)`"
    return None


def main() -> None:
    """Check the tag that is the first argument."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "CHANGELOG.md")]
    fault = find_disagreement(sys.argv[1], *texts)
    if fault is not None:
        sys.exit(fault)


if __name__ == "__main__":
    main()
