"""The rules' pages: Markdown files beside the rules, printed, listed and copied; and cron expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from worldsize.azureml import cron
from worldsize.base.whole_file import write_whole
from worldsize.rules import registry
from worldsize.rules.registry import Rule

FOLDER = Path(__file__).parent
_LABEL = re.compile(r"\*\*(\w+)(\.?)\*\*")  # `**Why.** …` and `**Bad**`


def read(rule: Rule) -> str:
    """The page of a rule, as Markdown."""
    return (FOLDER / rule.page).read_text(encoding="utf-8")


def render_plain(rule: Rule) -> str:
    """A page as ``worldsize explain`` prints it: without the marks of Markdown."""
    head = f"{rule.code} {rule.slug} ({rule.severity}, since {rule.since})"
    lines = "".join(_plain_lines(read(rule)))
    return f"{head}\n{'=' * len(head)}\n\n{lines}\nConfidence: {rule.confidence}\n"


def _plain_lines(markdown: str) -> Iterator[str]:
    fence = ""
    for line in markdown.splitlines(keepends=True):
        if fence:
            if line.rstrip() == fence:
                fence = ""
            else:
                yield f"    {line}" if line.strip() else line
        elif line.startswith("```"):
            fence = "`" * (len(line) - len(line.lstrip("`")))
        else:
            yield _LABEL.sub(r"\1:", line.removeprefix("# "), count=1)


def render_table(beginning: str = "") -> str:
    """The rules whose codes begin with a text, one a line, under the title of their family."""
    width = max(len(rule.slug) for rule in registry.rules() if rule.code.startswith(beginning))
    blocks = []
    for title, rules in registry.families():
        lines = [
            f"  {rule.code}  {rule.severity:<7}  {rule.slug:<{width}}  {rule.summary}\n"
            for rule in rules
            if rule.code.startswith(beginning)
        ]
        blocks += [f"{title}\n{''.join(lines)}"] if lines else []
    return "\n".join(blocks)


def render_index() -> str:
    """The Markdown list of all pages, with links relative to the folder of the rules."""
    rows = "".join(
        f"| [{rule.code}]({rule.page}) | {rule.slug} | {rule.severity} | {rule.summary} |\n"
        for rule in registry.rules()
    )
    return (
        "# Rules\n\n"
        "`worldsize explain CODE` prints a page. `# worldsize: ignore[CODE] reason` silences one line.\n\n"
        f"| Code | Slug | Severity | What is wrong |\n|---|---|---|---|\n{rows}"
    )


def write(folder: Path) -> list[str]:
    """Write the pages and their list into a folder, laid out as here. Returns the paths."""
    texts = {rule.page: read(rule) for rule in registry.rules()} | {"README.md": render_index()}
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    return [str(folder / name) for name in sorted(texts)]


def find_fire_times(expression: str) -> tuple[list[cron.CronFault], list[str]]:
    """The faults of a cron expression, and its next five times unless one of these keeps it from firing."""
    faults = cron.check_cron(expression)
    if not all(fault.ignored for fault in faults):
        return faults, []
    return faults, [f"{time:%a %Y-%m-%d %H:%M}" for time in cron.next_times(expression, datetime.now())]
