"""The rules' docstrings as pages: for a terminal, and as Markdown files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from worldsize.rules import registry
from worldsize.rules.rule import Entry

_EXAMPLE = re.compile(r"^(?P<label>Bad|Good)::\n\n(?P<code>(?:    .*\n|\n)+)", re.MULTILINE)
_LABEL = re.compile(r"^(Why|Fix|Source): ", re.MULTILINE)


def plain(entry: Entry) -> str:
    """A page as ``worldsize explain`` prints it."""
    rule = registry.load(entry)
    head = f"{rule.code} {rule.slug} ({rule.severity}, since {rule.since})"
    return f"{head}\n{'=' * len(head)}\n\n{registry.page(entry)}\n"


def markdown(entry: Entry) -> str:
    """A page as Markdown."""
    rule = registry.load(entry)
    silence = f"# worldsize: ignore[{rule.code}] reason"
    head = f"# {rule.code} {rule.slug}\n\nSeverity: {rule.severity}. Since {rule.since}."
    body = "".join(_blocks(registry.page(entry) + "\n", "python" if rule.code.startswith("WS9") else "yaml"))
    return f"{head} Silence one line with `{silence}`.\n\n{body}"


def _blocks(page: str, language: str) -> Iterator[str]:
    """The page's prose and examples in turn; what stands in an example is never rewritten."""
    end = 0
    for example in _EXAMPLE.finditer(page):
        yield _prose(page[end : example.start()])
        yield f"**{example['label']}**\n\n{_fence(example['code'], language)}\n\n"
        end = example.end()
    yield _prose(page[end:])


def _prose(text: str) -> str:
    return _LABEL.sub(r"**\1.** ", text).replace("``", "`")


def _fence(indented: str, language: str) -> str:
    code = "\n".join(line[4:] for line in indented.rstrip().splitlines())
    # A fence is longer than any run of backticks inside it (CommonMark 0.31, section 4.5).
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{code}\n{marks}"


def table() -> str:
    """All rules, one a line, under the title of their family."""
    rules = {entry.code: registry.load(entry) for entry in registry.entries()}
    width = max(len(rule.slug) for rule in rules.values())
    blocks = []
    for title, entries in registry.families():
        lines = [
            f"  {rule.code}  {rule.severity:<7}  {rule.slug:<{width}}  {rule.summary}\n"
            for rule in (rules[entry.code] for entry in entries)
        ]
        blocks.append(f"{title}\n{''.join(lines)}")
    return "\n".join(blocks)


def index() -> str:
    """The Markdown list of all pages."""
    rules = [registry.load(entry) for entry in registry.entries()]
    rows = "".join(
        f"| [{rule.code}]({rule.code}.md) | {rule.slug} | {rule.severity} | {rule.summary} |\n"
        for rule in rules
    )
    return f"# Rules\n\n| Code | Slug | Severity | What is wrong |\n|---|---|---|---|\n{rows}"


def write(folder: Path) -> list[str]:
    """Write a page a rule and the list, and remove pages of rules that are gone. Returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {f"{entry.code}.md": markdown(entry) for entry in registry.entries()} | {"README.md": index()}
    for stale in folder.glob("WS*.md"):
        if stale.name not in texts:
            stale.unlink()
    for name, text in texts.items():
        temporary = folder / f".{name}.tmp"
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, folder / name)  # noqa: PTH105 - one call, one meaning
    return [str(folder / name) for name in sorted(texts)]
