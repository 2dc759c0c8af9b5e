"""The fixes of all bad examples: the finding is gone, the file still parses, a second fix does nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import case_pages
import pytest

import worldsize
from worldsize.checking import fixing
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic

HERE = Path(__file__).parent
BAD = [
    case
    for page in case_pages.read_all(HERE, "WS*.md")
    for case in page.cases
    # what has limits of its own or is no text has no fixes
    if case.name.startswith("bad") and not any(file.path == "limits.json" for file in page.common)
]


def is_fixable(diagnostic: Diagnostic, *, unsafe: bool) -> bool:
    return diagnostic.fix is not None and (unsafe or diagnostic.fix.safe)


def read(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def assert_parses(path: Path, before: bytes) -> None:
    if path.suffix == ".py":
        ast.parse(path.read_text(encoding="utf-8"))
    elif yaml.load(path, before).root is not None:
        assert yaml.load(path, path.read_bytes()).root is not None, path


def list_client_errors(path: Path) -> set[str]:
    """What azure-ai-ml has against a file of a job or component, without a workspace."""
    from azure.ai.ml import load_component, load_job

    try:
        load = load_component if "Component.schema" in path.read_text().partition("\n")[0] else load_job
        return set(load(path)._validate().error_messages.values())
    except Exception as error:
        return {str(error)}


@pytest.fixture(scope="module")
def fixable(written: Callable[[Path], Path]) -> set[str]:
    """The folders of the examples with a fix; one check of all takes a tenth of the time of one for each."""
    with pytest.MonkeyPatch.context() as patch:
        (folder,) = {written(case.page).parent for case in BAD}
        patch.chdir(folder)
        found = worldsize.check([str(case) for case in BAD]).diagnostics
    folders = {Path(each.span.path).parts[0] for each in found if is_fixable(each, unsafe=True)}
    assert len(folders) >= 38
    return folders


@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
def test_after_a_fix_the_finding_is_gone(
    unsafe: bool, fixable: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in fixable:
        case_pages.write(case_pages.read(HERE / f"{folder}.md").files, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    bad = [str(case) for case in BAD if case.page.stem in fixable]
    wanted = {
        (each.code, each.message, each.span.path)
        for each in worldsize.check(bad).diagnostics
        if is_fixable(each, unsafe=unsafe)
    }
    before = read(tmp_path)
    report = fixing.fix(bad, unsafe=unsafe).report
    assert not wanted & {(each.code, each.message, each.span.path) for each in report.diagnostics}
    assert not [each for each in report.diagnostics if is_fixable(each, unsafe=unsafe)]
    after = read(tmp_path)
    for path, content in after.items():
        if content != before[path]:
            assert_parses(path, before[path])
    assert fixing.fix(bad, unsafe=unsafe).changes == ()
    assert read(tmp_path) == after
    changed = {path.relative_to(tmp_path).parts[0] for path in after if after[path] != before[path]}
    assert changed >= {Path(path).parts[0] for _, _, path in wanted}


@pytest.mark.run
@pytest.mark.filterwarnings("ignore")  # of the client's own libraries
@pytest.mark.timeout(120)
def test_a_safe_fix_brings_no_error_of_the_client(
    fixable: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in fixable:
        case_pages.write(case_pages.read(HERE / f"{folder}.md").files, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    files = [
        path
        for case in BAD
        if case.page.stem in fixable
        for path in (
            [Path(str(case))] if Path(str(case)).is_file() else sorted(Path(str(case)).glob("*.yml"))
        )
        if re.search(r"(Job|Component)\.schema", path.read_text().partition("\n")[0])
    ]
    before = {path: list_client_errors(path) for path in files}
    assert len(fixing.fix([str(path) for path in files]).changes) >= 10
    assert not {path: new for path in files if (new := list_client_errors(path) - before[path])}
