"""The texts that a finding's help says to write, and the edits that write them.

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

import re
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Sequence_
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

import yaml as pyyaml

from worldsize.base.span import Span
from worldsize.checking.fixing import Edit, _quote_like
from worldsize.documents import yaml
from worldsize.documents.yaml import Document, Mapping, Node, Scalar, Sequence
from worldsize.documents.yaml.nodes import insert_entry, list_items

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
