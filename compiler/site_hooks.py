"""MkDocs' hooks: the rules' pages become part of the site, and links to files of the repository lead to GitHub.

The pages in ``docs/`` link to files beside them as GitHub shows them (``../../pipelines/digits_ddp.yml``).
The site has no such files, so a link that leaves ``docs/`` becomes an address of the repository.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from worldsize.rules import pages, registry
from worldsize.rules.rule import Rule

_ROOT = Path(__file__).parents[1]
_INDEX = "rules/index.md"
_LINK = re.compile(r"(?<=\]\()(?!#|[a-z]+:)([^)#\s]+)(#[^)\s]*)?(?=\))")


def on_config(config: Any) -> Any:
    """Put the rules, by family, under the entry `Rules` of the navigation."""
    entry = next(item for item in config.nav if "Rules" in item)
    entry["Rules"] = [
        _INDEX,
        *(
            {title: [{f"{rule.code} {rule.slug}": _page(rule)} for rule in rules]}
            for title, rules in registry.families()
        ),
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each rule, and the list of all."""
    for name, text in _rule_pages():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001 - MkDocs' signature
    """Turn links that leave the documentation into addresses of the repository.

    Raises:
        PluginError: A link leads to a file that the repository does not have.
    """
    if page.file.generated_by:
        return markdown
    source = Path(page.file.abs_src_path)

    def to_repository(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / match[1]))
        if target.is_relative_to(config.docs_dir):
            return match[0]
        if not target.exists():
            raise PluginError(f"{source.name} links to `{match[1]}`, which does not exist")
        kind = "tree" if target.is_dir() else "blob"
        return f"{config.repo_url}/{kind}/main/{target.relative_to(_ROOT).as_posix()}{match[2] or ''}"

    return _LINK.sub(to_repository, markdown)


def _rule_pages() -> Iterator[tuple[str, str]]:
    yield _INDEX, _list_rules()
    for rule in registry.rules():
        title, _, text = pages.read(rule).partition("\n")
        facts = f"`{rule.slug}` · {rule.severity} · {rule.confidence} · since {rule.since}"
        yield _page(rule), f"# {rule.code}: {title.removeprefix('# ')}\n\n{facts}\n{text}"


def _list_rules() -> str:
    blocks = [
        f"## {title}\n\n| Code | Slug | Severity | What is wrong |\n|---|---|---|---|\n"
        + "".join(
            f"| [{rule.code}]({rule.code}.md) | {rule.slug} | {rule.severity} | {rule.summary} |\n"
            for rule in rules
        )
        for title, rules in registry.families()
    ]
    head = "# Rules\n\n`worldsize explain CODE` prints a page. `# worldsize: ignore[CODE] reason` silences one line.\n"
    return "\n".join([head, *blocks])


def _page(rule: Rule) -> str:
    return f"rules/{rule.code}.md"
