"""Stops a release whose tag, version and changelog disagree: `python .ci/check_release.py v0.2.0`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def find_disagreement(tag: str, project: str, changelog: str, fragments: Sequence[str] = ()) -> str | None:
    """Say what to change before a tag can be released.

    Args:
        tag: The tag.
        project: The text of pyproject.toml.
        changelog: The text of CHANGELOG.md.
        fragments: The files in compiler/changelog.d that are not in CHANGELOG.md yet.
    """
    written = re.search(r'^version = "([^"]+)"$', project, re.MULTILINE)
    version = written[1] if written else "no version"
    if tag != f"v{version}":
        return f"the tag is {tag}, but pyproject.toml has {version}"
    heading = re.search(r"^## (.+)$", changelog, re.MULTILINE)
    newest = heading[1] if heading else "no release"
    if not re.fullmatch(re.escape(version) + r" \(\d{4}-\d\d-\d\d\)", newest):
        written_by = f"`make changelog` writes `{version} (YYYY-MM-DD)`"
        return f"the newest release of CHANGELOG.md is `{newest}`; {written_by}"
    if fragments:
        return (
            f"CHANGELOG.md lacks {', '.join(fragments)} of compiler/changelog.d; `make changelog` joins them"
        )
    return None


def main() -> None:
    """Check the tag that is the first argument."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "CHANGELOG.md")]
    names = sorted(path.name for path in (ROOT / "compiler/changelog.d").glob("*.md"))
    fault = find_disagreement(sys.argv[1], *texts, [name for name in names if name != "README.md"])
    if fault is not None:
        sys.exit(fault)


if __name__ == "__main__":
    main()
