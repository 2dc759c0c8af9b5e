"""What a finding offers, its fix and the texts that its help says to write, is applied: the finding is gone.

The fixes of all bad examples: the finding is gone, the file still parses, a second fix does nothing.

The texts that a finding's help says to write, and the edits that write them.

A help has one form, so that a program can follow it as a person does:

- ``write `TEXT` ``, ``add``, ``use``, ``set``, ``pass``, ``say`` or ``did you mean``; also a number,
  ``write 8``. A text ``key: value`` is an entry of the mapping that the caret is in, of one around it or of a
  file beside it. One that begins with ``--`` is an option of the command. Any other text stands in place of
  what the caret or a related place underlines, or of what the help names after ``in place of``.
- `` under `with:` `` names the mapping, `` to `src/.amlignore` `` the file; ``set `epochs` to 3`` is
  ``write `epochs: 3` ``.
- `` `A` and `B` `` and `` `A` with `B` `` belong together; `` `A`, or `B` `` are alternatives. Of those after
  ``one of`` only the author knows which.
- ``remove `key` `` and ``remove it`` take an entry, an option or a word away.
- A text with a hole is for the author of the file to complete: ``key:``, ``azureml:NAME:VERSION``, ``…``, and
  a bare name after ``add`` or ``set``.

What a help says without these words, such as ``call `init()` first`` or ``rename it``, is for a person alone.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Sequence_
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

import case_pages
import pytest
import yaml as pyyaml

import worldsize
from worldsize.base.span import Span
from worldsize.checking import Report, fixing
from worldsize.checking.checker import check_files
from worldsize.checking.fixing import Edit, _quote_like
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.yaml import Document, Mapping, Node, Scalar, Sequence
from worldsize.documents.yaml.nodes import insert_entry, list_items

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


_TEXT = re.compile(r"`([^`]+)`|(?<=write )(\d[\d.e-]*\d|\d|\"[^\"]*\")|(?<=remove )(it)\b")
_VERB = re.compile(
    r"(?:^|[\s(,;:])"
    r"(?P<verb>write|add|use|set|pass it|pass|say|bind it to an input|list them|did you mean|remove)"
    r"(?: one of| for example| it|,? such as|, as in|, a whole number, such as| the value itself,)*:? ?$"
)
_TOGETHER = re.compile(r"(?: \([^)]*\))?(?:,? and(?: write| add| set)?(?:, beside it,)?|,| with) ?$")
_INSTEAD = re.compile(r"(?:[^`?;]*,)?(?: \([^)]*\))? or(?: write| add| set| use)?(?: for example)? $")
_WHERE = {" under ": "under", " from ": "under", " in place of ": "replaces", " to ": "file", " in ": "file"}
_HOLE = re.compile(r"…|[:=]$|(?<![$\w])(?:NAME|STEP|VERSION|TAG|OUTPUT|path/to)\b")
_SET = re.compile(r"(?:set|raise) `([\w.]+)` to `?([\w.]+)`?(?: or `([\w.]+)`)?")
_MANY = 60  # ways to write one alternative


class Alternative(NamedTuple):
    """Texts that are written together, and where."""

    texts: tuple[str, ...]
    under: str = ""  # the key of the mapping that gets them
    replaces: str = ""
    file: str = ""
    removes: bool = False
    one_of: bool = False
    verb: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left for the author to fill in."""
        named = self.verb in {"add", "set"} and not self.file
        return self.removes or not any(
            _HOLE.search(text) or (named and not is_entry(text) and not text.startswith(("-", "$")))
            for text in self.texts
        )


def read_alternatives(help_: str) -> list[Alternative]:
    """What a help says to write, each of its alternatives once."""
    help_ = _SET.sub(
        lambda match: f"write `{match[1]}: {match[2]}`" + f" or `{match[1]}: {match[3]}`" * bool(match[3]),
        help_,
    )
    read: list[Alternative] = []
    end, follows = 0, False  # whether the last text was one to write
    for match in _TEXT.finditer(help_):
        between, text = help_[end : match.start()], match[1] or match[2] or match[3]
        end = match.end()
        verb = _VERB.search(between)
        if verb and read and "and write" in between and follows:
            read[-1] = read[-1]._replace(texts=(*read[-1].texts, text))
        elif verb:
            read.append(
                Alternative(
                    (text,), removes=verb["verb"] == "remove", one_of="one of" in between, verb=verb["verb"]
                )
            )
            follows = True
        elif not follows:
            continue
        elif between in _WHERE:
            read[-1] = read[-1]._replace(
                **{_WHERE[between]: text.rstrip(":") if between == " under " else text}
            )
        elif _INSTEAD.fullmatch(between) or (
            _TOGETHER.fullmatch(between)
            and (read[-1].one_of or (between == ", " and read[-1].verb != "add" and not is_entry(text)))
        ):
            read.append(
                Alternative((text,), removes=read[-1].removes, one_of=read[-1].one_of, verb=read[-1].verb)
            )
        elif _TOGETHER.fullmatch(between):
            read[-1] = read[-1]._replace(texts=(*read[-1].texts, text))
        else:
            follows = False
    return read


def is_entry(text: str) -> bool:
    """Whether a text is ``key: value``."""
    try:
        return isinstance(pyyaml.safe_load(text), dict)
    except pyyaml.YAMLError:
        return False


def write_each(folder: Path, spans: Sequence_[Span], alternative: Alternative) -> Iterator[tuple[Path, str]]:
    """A file with the texts of an alternative, for each place where they can stand, the likeliest first.

    Args:
        folder: The folder that all files are in.
        spans: The place of the finding, and the places that it relates to.
        alternative: What the help says to write.
    """
    if alternative.file:
        near = (base / alternative.file for base in Path(spans[0].path).parents)
        path = next(path for path in near if path.parent.is_dir())
        before = path.read_text(encoding="utf-8").rstrip("\n") + "\n" if path.exists() else ""
        yield path, before + "".join(f"{text}\n" for text in alternative.texts)
        return
    places = [(Path(span.path), span) for span in spans]
    places += [(path, None) for path in sorted(folder.rglob("*.y*ml"))]
    for path, span in places:
        document = yaml.load(path, path.read_bytes())
        ways = product(*(list(_list_edits(document, span, alternative, text)) for text in alternative.texts))
        for edits in islice(ways, _MANY):
            yield path, _splice(document.text, edits)


def _splice(text: str, edits: Iterable[Edit]) -> str:
    parts, at = [], 0
    for edit in sorted(edits):
        parts += [text[at : edit.start], edit.text]
        at = max(edit.end, at)
    return "".join([*parts, text[at:]])


def _list_edits(document: Document, span: Span | None, alternative: Alternative, text: str) -> Iterator[Edit]:
    """The edits of one text, at a place of the file or, without one, anywhere that its form allows."""
    source, root = document.source, document.root
    start = source.offset(span.line, span.column) if span else 0
    end = max(source.offset(span.end_line, span.end_column), start) if span else 0
    around = list(_list_around(root, start))[::-1] if span else []
    mappings = [node for node in around if isinstance(node, Mapping)]
    is_yaml = root is not None and not document.path.endswith(".py")
    if alternative.removes:
        yield from _list_removals(document, mappings, text, start) if is_yaml else ()
        yield from _list_words(document.text, text, start, end) if span else ()
    elif alternative.replaces:
        for match in re.finditer(re.escape(alternative.replaces), document.text):
            yield Edit(match.start(), match.end(), text)
    elif is_entry(text) and is_yaml:
        yield from _list_entries(document, mappings, alternative.under, text)
        for key, value in mappings[0].entries if mappings else ():
            if key.start <= start < key.end:
                yield Edit(key.start, value.end, text)
    elif text.startswith("-"):
        yield from _list_options(document, text)
    elif span:
        yield from _list_values(document, mappings, text, start, end)
    if span and not alternative.removes and not alternative.replaces and not is_entry(text):
        scalars = [node for node in around if isinstance(node, Scalar)] if is_yaml else []
        yield from (_append(document.text, scalar, text) for scalar in [*scalars, *_list_commands(root)])
        yield Edit(start, end, text)


def _list_values(
    document: Document, around: list[Mapping], text: str, start: int, end: int
) -> Iterator[Edit]:
    """Write a value in place of what the caret underlines, or what its key has."""
    old = document.text[start:end]
    yield Edit(start, end, _quote_like(old, text))
    if text[0] == text[-1] == '"' and text[1:-1] in document.text:
        at = document.text.index(text[1:-1])
        yield Edit(at, at + len(text) - 2, text)
    if old and around and (node := around[0].get(old)):
        yield Edit(node.start, node.end, text)


def _list_options(document: Document, text: str) -> Iterator[Edit]:
    """Write an option where the command has it."""
    flag = re.escape(re.split("[ =]", text, maxsplit=1)[0])
    for match in re.finditer(rf"{flag}(?:[ =](?!-)[^\s\"']+)?", document.text):
        yield Edit(match.start(), match.end(), text)


def _list_commands(root: Node | None) -> Iterator[Scalar]:
    for node in _list_mappings(root):
        if isinstance(value := node.get("command"), Scalar):
            yield value


def _append(text: str, command: Scalar, words: str) -> Edit:
    """Words at the end of a command."""
    at = command.end - (command.style in {"'", '"'})
    at -= len(text[:at]) - len(text[:at].rstrip("\n"))
    return Edit(at, at, f" {words}")


def _list_around(node: Node | None, offset: int) -> Iterator[Node]:
    """The nodes around a place, from the root; below the key of a mapping, what the key has."""
    while node is not None:
        yield node
        inside: Node | None = None
        for key, value in node.entries if isinstance(node, Mapping) else ():
            if any(part.start <= offset < max(part.end, part.start + 1) for part in (key, value)):
                inside = value
        for item in list_items(node):
            if item.start <= offset < max(item.end, item.start + 1):
                inside = item
        node = inside


def _list_entries(document: Document, around: list[Mapping], under: str, text: str) -> Iterator[Edit]:
    """Write an entry where the key is, from inside to outside, else into a mapping that has none."""
    key = next(iter(pyyaml.safe_load(text)))
    everywhere = [*around, *(node for node in _list_mappings(document.root) if node not in around)]
    if under:
        inner = [value for node in everywhere if isinstance(value := node.get(under), Mapping)]
        for node in around:
            if node.get(under) is None:
                yield _insert(document.text, node, f"{under}: {{{_quote(text)}}}")
        everywhere = around = inner
    for node in everywhere:
        value = node.get(key)
        if value is not None:
            new = (_quote(text) if node.flow else text).partition(":")[2].strip()
            yield Edit(value.start, value.end, new)
    for node in around or [document.root]:
        if isinstance(node, Mapping) and node.get(key) is None:
            yield _insert(document.text, node, text)


def _quote(entry: str) -> str:
    """An entry as braces need it: a value with braces of its own is quoted."""
    key, _, value = entry.partition(": ")
    return f'{key}: "{value}"' if value.startswith("${{") else entry


def _insert(text: str, mapping: Mapping, entry: str) -> Edit:
    changed = insert_entry(text, mapping, _quote(entry) if mapping.flow else entry)
    at = next((at for at, (old, new) in enumerate(zip(text, changed, strict=False)) if old != new), len(text))
    return Edit(at, at, changed[at : at + len(changed) - len(text)])


def _list_mappings(node: Node | None) -> Iterator[Mapping]:
    if isinstance(node, Mapping):
        yield node
        for _, value in node.entries:
            yield from _list_mappings(value)
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from _list_mappings(item)


def _list_removals(document: Document, around: list[Mapping], word: str, start: int) -> Iterator[Edit]:
    """Remove the entry of a key, from inside to outside; what held only this entry goes with it."""
    text, name = document.text, word.partition(":")[0]
    for node in [*around, *(node for node in _list_mappings(document.root) if node not in around)]:
        for key, value in node.entries:
            here = key.start <= start < max(value.end, key.end) if word == "it" else key.text == name
            holder = next(
                (
                    pair
                    for other in _list_mappings(document.root)
                    for pair in other.entries
                    if pair[1] is node
                ),
                None,
            )
            if here and len(node.entries) == 1 and holder:
                yield _remove(text, *holder, flow=text[: holder[0].start].rstrip()[-1:] in {"{", ","})
            elif here:
                yield _remove(text, key, value, flow=node.flow)


def _remove(text: str, key: Scalar, value: Node, *, flow: bool) -> Edit:
    if not flow:
        first, last = text.rfind("\n", 0, key.start) + 1, text.find("\n", max(value.end - 1, key.end))
        return Edit(first, len(text) if last < 0 else last + 1, "")
    after = re.compile(r"\s*,\s*").match(text, value.end)
    before = re.compile(r",\s*$").search(text, 0, key.start)
    return Edit(key.start if after or not before else before.start(), after.end() if after else value.end, "")


def _list_words(text: str, word: str, start: int, end: int) -> Iterator[Edit]:
    """Remove what the caret underlines, or an option with its value."""
    if word == "it":
        yield Edit(start, end, "")
    for match in re.finditer(
        rf"{re.escape(word)}(?:[ =](?!-)[^\s\"']+)?" if word.startswith("-") else re.escape(word), text
    ):
        yield Edit(match.start(), match.end(), "")


PAGES = [
    page
    for page in case_pages.read_all(HERE, "WS*.md")
    if not any(file.path == "limits.json" for file in page.common)
]
# What a help of these rules says to write is more than a program can place.
APART = {
    "WS320": "what fits is listed, settings of several mappings in each",
    "WS321": "what fits is listed, settings of several mappings in each",
    "WS348": "the key of a configuration moves to another mapping",
    "WS534": "a label of whole numbers that all differ is only offered as classes by the step's own message",
    "WS645": "a block of several lines is written in another style",
}
_MORE = re.compile(r"\(and \d+ more\)")


def list_findings(page: case_pages.Page) -> Iterator[tuple[str, Report, Diagnostic]]:
    """The findings of a page's own rule, each sort of help once, with the case that has it."""
    helps = set()
    for case in page.cases:
        if case.name.startswith(("bad", "pair")):
            report = worldsize.check(case.name)
            for diagnostic in report.diagnostics:
                help_ = re.sub(r"\d+", "0", diagnostic.help or "")
                if diagnostic.code == page.path.stem.partition("-")[0] and help_ not in helps:
                    helps.add(help_)
                    yield case.name, report, diagnostic


def write_and_check(name: str, before: Report, diagnostic: Diagnostic, alternative: Alternative) -> str:
    """What is wrong after the alternative was written where it can stand; empty if nothing is."""
    codes, faults = count_codes(before, diagnostic), []
    spans = [diagnostic.span, *(related.span for related in diagnostic.related)]
    for path, text in write_each(Path(), spans, alternative):
        if alternative.file:  # no file that is checked, and so read from the disk
            old = path.read_bytes() if path.exists() else None
            path.write_text(text)
            report = worldsize.check(name)
            path.unlink() if old is None else path.write_bytes(old)
        else:
            report = check_files([name], texts={str(path): text.encode()})[0]
        after = count_codes(report, diagnostic)
        if after[diagnostic.code] < codes[diagnostic.code] and not after - codes:
            return ""
        faults.append(f"new: {dict(after - codes)}" if after - codes else "still there")
    return f"`{' and '.join(alternative.texts)}`: {min(faults, default='no place')}"


def count_codes(report: Report, diagnostic: Diagnostic) -> Counter[str]:
    """The errors and warnings, and the notes of the finding's own rule."""
    return Counter(
        other.code
        for other in report.diagnostics
        if other.severity != "info" or other.code == diagnostic.code
    )


def list_faults(name: str, report: Report, diagnostic: Diagnostic) -> Iterator[str]:
    """The texts that do not silence the finding, or of choices none does."""
    alternatives = read_alternatives(diagnostic.help or "")
    faults = [
        (alternative.one_of, write_and_check(name, report, diagnostic, alternative))
        for alternative in alternatives
        if alternative.is_complete
    ]
    choices = [fault for one_of, fault in faults if one_of]
    yield from (fault for one_of, fault in faults if fault and (not one_of or all(choices)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_what_a_help_says_to_write_silences_its_finding_without_a_new_one(
    page: case_pages.Page, written: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written(page.path))
    for name, report, diagnostic in list_findings(page):
        faults = list(list_faults(name, report, diagnostic))
        if not _MORE.search(diagnostic.message):  # the first of several: the next one is reported then
            assert bool(faults) <= (diagnostic.code in APART), (diagnostic.message, diagnostic.help, faults)
