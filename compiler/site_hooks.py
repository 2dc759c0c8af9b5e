"""MkDocs' hooks: adds the rules' pages, and turns links to files of the repository into addresses on GitHub.

The pages in ``docs/`` link to files beside them as GitHub shows them (``../../pipelines/digits_ddp.yml``).
The site has no such files, so a link that leaves ``docs/`` becomes an address of the repository. Pictures
are copied.
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
from worldsize.rules.registry import Rule

_ROOT = Path(__file__).parents[1]
_PICTURES = _ROOT / ".github" / "assets"
_INDEX = "rules/index.md"
_LINK = re.compile(r"(?<=\]\()(?!#|[a-z]+:)([^)#\s]+)(#[^)\s]*)?(?=\))")

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):(<code>)~?")


def on_config(config: Any) -> Any:
    """Put the families of rules under the entry `Rules` of the navigation."""
    entry = next(item for item in config.nav if "Rules" in item)
    entry["Rules"] = [_INDEX, *({title: _family_page(rules)} for title, rules in registry.families())]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the rules' pages, and the pictures of the README."""
    for name, text in _rule_pages():
        files.append(File.generated(config, name, content=text))
    for picture in sorted(_PICTURES.iterdir()):
        files.append(File.generated(config, f"assets/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_kwargs: Any) -> str:
    """Turn links that leave the documentation into addresses of the repository.

    Raises:
        PluginError: A link leads to a file that the repository does not have.
    """
    if page.file.generated_by:
        return markdown
    source = Path(page.file.abs_src_path)

    def follow(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / match[1]))
        if target.is_relative_to(config.docs_dir):
            return match[0]
        if not target.exists():
            raise PluginError(f"{source.name} links to `{match[1]}`, which does not exist")
        if target.parent == _PICTURES:
            return os.path.relpath(Path(config.docs_dir, "assets", target.name), source.parent)
        kind = "tree" if target.is_dir() else "blob"
        return f"{config.repo_url}/{kind}/main/{target.relative_to(_ROOT).as_posix()}{match[2] or ''}"

    return _LINK.sub(follow, markdown)


def on_page_content(content: str, **_kwargs: Any) -> str:
    """Show a role of a docstring, as in ``:func:`load```, as the name alone."""
    return _ROLE.sub(r"\1", content)


def _rule_pages() -> Iterator[tuple[str, str]]:
    head = "`worldsize explain CODE` prints a page. `# worldsize: ignore[CODE] reason` silences one line.\n"
    tables = []
    for title, rules in registry.families():
        tables.append(f"## {title}\n\n{_table(rules)}")
        yield _family_page(rules), f"# {title}\n\n{_table(rules)}"
    yield _INDEX, "\n".join(["# Rules\n", head, *tables])
    for rule in registry.rules():
        title, _, text = pages.read(rule).partition("\n")
        facts = f"`{rule.slug}` · {rule.severity} · {rule.confidence} · since {rule.since}"
        yield f"rules/{rule.code}.md", f"# {rule.code}: {title.removeprefix('# ')}\n\n{facts}\n{text}"


def _family_page(rules: list[Rule]) -> str:
    return f"rules/{rules[0].family}.md"


def _table(rules: list[Rule]) -> str:
    rows = (
        f"| [{rule.code}]({rule.code}.md) | {rule.slug} | {rule.severity} | {rule.summary} |\n"
        for rule in rules
    )
    return f"| Code | Slug | Severity | What is wrong |\n|---|---|---|---|\n{''.join(rows)}"
