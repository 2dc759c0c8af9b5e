"""In an editor every rule says what `worldsize check` says, and every fix of `check --fix` is an action."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import case_pages
import pytest
from lsprotocol import types

import worldsize
from worldsize.base.source import Source
from worldsize.checking import fixing
from worldsize.checking.checker import check_files
from worldsize.checking.discover import recognise_kind
from worldsize.checking.selection import Choice
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.lsp.actions import FIX_ALL, apply_one, group_by_file, list_actions
from worldsize.lsp.analysis import is_ours
from worldsize.lsp.buffers import Buffer, Session

RULES = Path(__file__).parents[1] / "rules"


class Case(NamedTuple):
    """A YAML file in the folder of a rule's cases."""

    page: Path
    name: str

    def __str__(self) -> str:
        """The name of the case among all pages."""
        return f"{self.page.stem}/{self.name}"


CASES = [
    Case(page.path, file.path)
    for page in case_pages.read_all(RULES, "WS*.md")
    for file in page.files
    if file.path.endswith((".yml", ".yaml")) and "/" not in file.path
]
SMALL_LIMITS = [
    case
    for case in CASES
    if not any(file.path == "limits.json" for file in case_pages.read(case.page).common)
]


@pytest.fixture
def path(case: Case, written: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a case, in whose folder the test works."""
    monkeypatch.chdir(written(case.page))
    return written(case.page) / case.name


def read_text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # an editor cannot open it


def open_in_editor(path: Path, text: str) -> tuple[Session, Buffer]:
    session = Session()
    buffer = session.buffers.open(path.absolute().as_uri(), text, 1)
    assert buffer is not None
    return session, buffer


def describe(finding: Diagnostic) -> tuple[object, ...]:
    text = f"{finding.message}\nhelp: {finding.help}" if finding.help else finding.message
    span = finding.span
    return os.path.realpath(span.path), span.line - 1, span.end_line - 1, finding.code, text


def is_known(path: Path, text: str) -> bool:
    document = yaml.load(path.name, text)
    return is_ours(document) and (document.root is None or recognise_kind(document, named=False) is not None)


BAD = [case for case in SMALL_LIMITS if case.name.startswith("bad")]
GOOD = [case for case in SMALL_LIMITS if case.name.startswith("good")]


@pytest.mark.parametrize("case", [*BAD[::2], *GOOD[::8]], ids=str)
def test_the_editor_says_what_check_says(path: Path) -> None:
    text = read_text(path)
    if text is None or not is_known(path, text):
        return
    session, buffer = open_in_editor(path, text)
    groups = group_by_file(session.analyse(buffer), session.buffers)
    shown = {
        (file, each.range.start.line, each.range.end.line, each.code, each.message)
        for file, diagnostics in groups.items()
        for each in diagnostics
    }
    assert shown == {describe(each) for each in worldsize.check(path.name).diagnostics}


def test_most_cases_are_compared(written: Callable[[Path], Path]) -> None:
    paths = [written(case.page) / case.name for case in SMALL_LIMITS]
    texts = [(path, read_text(path)) for path in paths]
    compared = [path for path, text in texts if text is not None and is_known(path, text)]
    assert len(compared) > 0.9 * len(CASES)


@pytest.mark.parametrize("case", BAD, ids=str)
def test_every_fix_is_an_action_with_the_same_result(path: Path) -> None:
    text = read_text(path)
    if text is None or not is_known(path, text):
        return
    session, buffer = open_in_editor(path, text)
    fixable = [each for each in session.analyse(buffer).report.diagnostics if each.fix is not None]
    codes = [each.code for each in fixable]
    for finding in fixable:
        assert finding.fix is not None
        file = Path(finding.fix.span.path)
        before = text if file.resolve() == path.resolve() else file.read_text(encoding="utf-8")
        expected, count = apply_one(Source(str(file), before), finding.fix)
        if not count:
            continue
        place = Path(finding.span.path)
        if place.resolve() != path.resolve():
            session.buffers.open(place.absolute().as_uri(), place.read_text(encoding="utf-8"), 1)
        shown = session.buffers.at_path(place)
        assert shown is not None
        results = []
        for action in ask_actions(session, shown, finding):
            edits = (action.edit.changes if action.edit is not None else None) or {}
            results += [
                apply(session, before, each) for uri, each in edits.items() if uri == file.absolute().as_uri()
            ]
        assert expected in results
        if codes.count(finding.code) == 1:
            assert fix_in_terminal(path.name, text, finding.code, file) in results


def fix_in_terminal(name: str, text: str, code: str, file: Path) -> str:
    """What `check --fix --unsafe-fixes --select CODE` makes of a file."""
    changes = fixing.fix(
        [name], Choice((code,)), unsafe=True, write=False, texts={name: text.encode()}
    ).changes
    return next(each.after.decode() for each in changes if Path(each.path).resolve() == file.resolve())


def ask_actions(session: Session, buffer: Buffer, finding: Diagnostic) -> list[types.CodeAction]:
    range_ = session.buffers.positions.span_to_range(buffer.source, finding.span)
    context = types.CodeActionContext([], only=[types.CodeActionKind.QuickFix])
    document = types.TextDocumentIdentifier(buffer.uri)
    return list_actions(session, buffer, types.CodeActionParams(document, range_, context))


def apply(session: Session, text: str, edits: list[types.TextEdit]) -> str:
    source = Source("a", text)
    assert len(edits) == 1
    start = session.buffers.positions.to_offset(source, edits[0].range.start)
    end = session.buffers.positions.to_offset(source, edits[0].range.end)
    return f"{text[:start]}{edits[0].new_text}{text[end:]}"


def test_all_safe_fixes_at_once_are_those_of_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "name: a\ncompute: {gpu: {target: azureml:gpu, instance_type: standard_nc24s_v3}}\n"
        "steps:\n  shard: {uses: shard_data, compute: gpu, wiht: {source: builtin:digits}}\n"
    )
    path = tmp_path / "spec.yml"
    path.write_text("name: on the disk\n")
    session, buffer = open_in_editor(path, text)
    everywhere = types.Range(types.Position(0, 0), types.Position(9, 0))
    context = types.CodeActionContext([], only=[FIX_ALL])
    params = types.CodeActionParams(types.TextDocumentIdentifier(buffer.uri), everywhere, context)
    actions = list_actions(session, buffer, params)
    expected = fixing.fix(["spec.yml"], write=False, texts={"spec.yml": text.encode()}).changes
    assert [each.kind for each in actions] == [FIX_ALL] * len(expected)
    for action, change in zip(actions, expected, strict=True):
        assert action.edit is not None
        assert action.edit.changes is not None
        assert apply(session, text, list(action.edit.changes[buffer.uri])) == change.after.decode()
    assert path.read_text() == "name: on the disk\n"


@pytest.mark.parametrize(
    "case", [each for each in BAD if each.page.name[:3] in ("WS2", "WS6", "WS7")][::3], ids=str
)
def test_a_suppression_silences_the_finding(path: Path) -> None:
    text = read_text(path)
    assert text is not None
    session, buffer = open_in_editor(path, text)
    findings = [each for each in session.analyse(buffer).report.diagnostics if each.span.path == buffer.path]
    for finding in findings[:1]:
        titles = {each.title: each for each in ask_actions(session, buffer, finding)}
        action = titles.get(f"Suppress {finding.code} on this line")
        if action is None or action.edit is None:
            continue
        changed = apply(session, text, list((action.edit.changes or {})[buffer.uri]))
        report = check_files([path.name], texts={path.name: changed.encode()})[0]
        left = [(each.code, each.span.column, each.message) for each in report.diagnostics]
        assert (finding.code, finding.span.column, finding.message) not in left
