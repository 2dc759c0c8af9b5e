"""Turns parser events into nodes, with an explicit stack so that no input exceeds Python's recursion limit.

libyaml scans the text if PyYAML was built with it; the pure Python scanner yields the same tree. What
PyYAML's composer accepts silently (repeated keys, a million-fold alias) or raises as an exception without a
position (unhashable keys, impossible dates) becomes a problem with a position.
"""

from __future__ import annotations

from typing import Any

import yaml
from msgspec import Struct, field

from worldsize.base import limits
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Problem, Related
from worldsize.base.source import Source
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence
from worldsize.documents.yaml.scalars import classify_scalar, explain_unreadable

_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Blanks and whole comment lines, then a property, and the same again up to the value.
_PROPERTY = compile_later(r"\s*(?:#[^\r\n]*[\r\n]\s*)*[&!]\S*\s*(?:(?<=\s)#[^\r\n]*(?:[\r\n]\s*|\Z))*")
_SUSPECT = frozenset("+-.0123456789=<")  # first characters of plain words that PyYAML may fail on
_REPEATED = ("yaml-duplicate-key", "yaml-key-repeated")
_COLLECTION_TAGS = frozenset({None, "!", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"})


class _Stop(Exception):  # noqa: N818 - not an error of the program: the file is given up
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class _Frame(Struct):
    """A collection whose end event is still to come."""

    node: Mapping | Sequence
    anchor: str | None
    key: Scalar | None = None
    weight: int = 1  # nodes of the expanded tree below, itself included
    height: int = 1  # levels of the expanded tree below, itself included


class Composer(Struct):
    """The state of one composition; ``root`` and ``problems`` are its result."""

    source: Source
    root: Node | None = None
    problems: list[Problem] = field(default_factory=list)
    scalars: list[tuple[int, int, str]] = field(default_factory=list)  # start, end, style: not comments
    _stack: list[_Frame] = field(default_factory=list)
    _anchors: dict[str, tuple[Node, int, int]] = field(default_factory=dict)
    _nodes: int = 0
    _aliased: int = 0
    _documents: int = 0

    def run(self) -> None:
        """Compose the whole text. ``root`` is None if PyYAML would fail; repeated keys do not matter."""
        try:
            self._events()
        except _Stop as stop:
            self.problems.append(stop.problem)
        except yaml.YAMLError as error:
            self.problems.append(explain_syntax_error(self.source, error))
        if any(problem.slug not in _REPEATED for problem in self.problems):
            self.root = None

    def _events(self) -> None:
        loader = _LOADER(self.source.text)
        handlers = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._open_mapping,
            yaml.SequenceStartEvent: self._open_sequence,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._document,
        }
        try:
            while (event := loader.get_event()) is not None:
                handler = handlers.get(type(event))
                if handler is not None:
                    handler(event)
        finally:
            loader.dispose()

    def _document(self, event: Any) -> None:
        self._documents += 1
        self._anchors.clear()
        if self._documents > 1:
            mark = event.start_mark.index
            raise self._stop(
                "yaml-syntax",
                mark,
                mark + 3,
                "a second document starts here, but Azure ML reads one document per file",
                "move it to a file of its own, or remove the `---`",
            )

    def _scalar(self, event: Any) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        tag, style = _tag(event), event.style or ""
        if event.anchor or event.tag:
            start = min(self._skip_properties(start, event), end)
        if style in ("|", ">"):
            end = start + len(self.source.text[start:end].rstrip())
        node = Scalar(self.source, start, end, event.value, style, tag)
        self.scalars.append((start, end, style))
        if tag is not None or (not style and event.value[:1] in _SUSPECT):
            self._check_scalar(node)
        self._count(start)
        if event.anchor:
            self._name(event, node)
            self._anchors[event.anchor] = (node, 1, 1)
        self._attach(node, 1, 1, end)

    def _check_scalar(self, node: Scalar) -> None:
        frame = self._stack[-1] if self._stack else None
        is_key = frame is not None and isinstance(frame.node, Mapping) and frame.key is None
        reason = explain_unreadable(node.text, node.style, node.tag, is_key=is_key)
        if reason is not None:
            help_ = "quote it to keep it as text"
            self.problems.append(Problem("yaml-syntax", node.span, reason, help_))

    def _open_mapping(self, event: Any) -> None:
        start = self._skip_properties(event.start_mark.index, event)
        self._open(event, Mapping(self.source, start, start, [], bool(event.flow_style)))

    def _open_sequence(self, event: Any) -> None:
        start = self._skip_properties(event.start_mark.index, event)
        self._open(event, Sequence(self.source, start, start, [], bool(event.flow_style)))

    def _open(self, event: Any, node: Mapping | Sequence) -> None:
        self._count(node.start)
        if event.tag not in _COLLECTION_TAGS:
            mark = event.start_mark.index
            shown = event.tag.replace("tag:yaml.org,2002:", "!!")
            message = f"tag `{shown}` is unknown to Azure ML"
            raise self._stop("yaml-syntax", mark, node.start, message, "remove the tag")
        if len(self._stack) >= limits.DEPTH:
            raise self._too_deep(node.start)
        if event.anchor:
            self._name(event, node)
        self._stack.append(_Frame(node, event.anchor))

    def _name(self, event: Any, node: Node) -> None:
        if event.anchor in self._anchors or any(frame.anchor == event.anchor for frame in self._stack):
            message = f"anchor `&{event.anchor}` is defined twice"
            start = event.start_mark.index
            raise self._stop("yaml-syntax", start, node.start, message, "give each anchor its own name")

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        node = frame.node
        if node.flow:
            node.end = event.end_mark.index
        if isinstance(node, Mapping):
            merged = finish_mapping(node, self.problems)
            self._aliased += merged
            frame.weight += merged
            self._check_expansion(node.start, node.end)
        if frame.anchor:
            self._anchors[frame.anchor] = (node, frame.weight, frame.height)
        self._attach(node, frame.weight, frame.height, node.end)

    def _alias(self, event: Any) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            raise self._unknown_alias(event.anchor, start, end)
        node, weight, height = anchored
        if len(self._stack) + height > limits.DEPTH:
            raise self._too_deep(start)
        self._aliased += weight
        self._check_expansion(start, end)
        self._attach(node, weight, height, end)

    def _unknown_alias(self, name: str, start: int, end: int) -> _Stop:
        if any(frame.anchor == name for frame in self._stack):
            message = f"alias `*{name}` is inside its own anchor, so it refers to itself"
            return self._stop("yaml-alias-bomb", start, end, message, "remove the alias")
        message = f"alias `*{name}` has no anchor `&{name}` before it"
        return self._stop("yaml-syntax", start, end, message, "quote the text if it starts with `*`")

    def _attach(self, node: Node, weight: int, height: int, end: int) -> None:
        if not self._stack:
            self.root = node
            return
        frame = self._stack[-1]
        frame.weight += weight
        if height >= frame.height:
            frame.height = height + 1
        parent = frame.node
        parent.end = end
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif frame.key is not None:
            parent.entries.append((frame.key, node))
            frame.key = None
        elif isinstance(node, Scalar):
            frame.key = node
        else:
            frame.key = self._not_a_key(node)

    def _not_a_key(self, node: Node) -> Scalar:
        what = "list" if isinstance(node, Sequence) else "mapping"
        help_ = "quote the value if the brackets or braces are part of its text"
        text = self.source.text[node.start : node.end]
        shown = f"`{text}` is read as a {what}, but " if len(text) <= 60 and "\n" not in text else ""
        problem = Problem("yaml-syntax", node.span, f"{shown}a {what} cannot be a key", help_)
        if self.problems and self.problems[-1].message.endswith("cannot be a key"):
            inner = self.problems[-1].span
            if problem.span <= inner:  # `{{x}}` is one cause: keep the outer place
                self.problems.pop()
        self.problems.append(problem)
        return Scalar(self.source, node.start, node.end, text, '"')

    def _skip_properties(self, start: int, event: Any) -> int:
        """The offset after ``&anchor`` and ``!tag``, which are not part of the value."""
        for wanted in (event.anchor, event.tag):
            match = _PROPERTY.match(self.source.text, start) if wanted else None
            start = match.end() if match else start
        return start

    def _count(self, offset: int) -> None:
        self._nodes += 1
        if not self._nodes % 256:
            limits.check_time()
        if self._nodes > limits.NODES:
            message = f"the file holds more than {limits.NODES:,} values"
            raise self._stop("yaml-too-large", offset, offset, message, "split the file")

    def _check_expansion(self, start: int, end: int) -> None:
        if self._aliased > limits.ALIASED:
            message = f"the aliases expand to more than {limits.ALIASED:,} values"
            raise self._stop(
                "yaml-alias-bomb",
                start,
                end,
                message,
                "use fewer aliases of anchors that hold aliases themselves",
            )

    def _too_deep(self, offset: int) -> _Stop:
        message = f"more than {limits.DEPTH} levels of nesting"
        return self._stop("yaml-too-deep", offset, offset + 1, message, "flatten the structure")

    def _stop(self, slug: str, start: int, end: int, message: str, help_: str) -> _Stop:
        return _Stop(Problem(slug, self.source.span(start, end), message, help_))


def _tag(event: Any) -> str | None:
    """The tag that decides the value; a lone ``!`` cancels the effect of quotes, or stands for empty text."""
    if event.tag == "!":
        return "!" if event.implicit[0] else "!!str"
    if event.tag is None and event.style in ("'", '"', "|", ">") and event.implicit[0]:
        return "!"
    tag: str | None = event.tag
    return tag


Entry = tuple[Scalar, Node]


def finish_mapping(mapping: Mapping, problems: list[Problem]) -> int:
    """Expand ``<<`` in place, report repeated keys, and return the number of entries that merging added."""
    merges = [entry for entry in mapping.entries if _is_merge(entry[0])]
    if merges:
        own_entries = [entry for entry in mapping.entries if not _is_merge(entry[0])]
        _report_duplicates(own_entries, problems)
        merged = _merge_entries(merges, problems)
        mapping.entries = merged + own_entries
        return len(merged)
    _report_duplicates(mapping.entries, problems)
    return 0


def _is_merge(key: Scalar) -> bool:
    return key.text == "<<" and classify_scalar(key.text, key.style, key.tag) == "merge"


def _merge_entries(merges: list[Entry], problems: list[Problem]) -> list[Entry]:
    """Entries of the merged mappings, each key once: the first mapping wins."""
    chosen: dict[object, Entry] = {}
    for key, value in merges:
        sources = value.items if isinstance(value, Sequence) else [value]
        for source in reversed(sources):
            if not isinstance(source, Mapping):
                message = "`<<` merges a mapping or a list of mappings, but this is neither"
                help_ = "name an anchored mapping such as `<<: *defaults`"
                span = source.span if source.end > source.start else key.span
                problems.append(Problem("yaml-syntax", span, message, help_))
                continue
            for entry in source.entries:
                chosen[entry[0].value] = entry
    return list(chosen.values())


def _are_equal(one: Node, other: Node) -> bool:
    """Whether two values are the same word or number; mappings and lists are not compared."""
    if not isinstance(one, Scalar) or not isinstance(other, Scalar):
        return False
    return type(one.value) is type(other.value) and one.value == other.value


def _report_duplicates(entries: list[Entry], problems: list[Problem]) -> None:
    """Report each repetition at the later key; keys are equal if their Python values are."""
    seen: dict[object, Entry] = {}
    for key, value in entries:
        first, first_value = seen.setdefault(key.value, (key, value))
        if first is key:
            continue
        if len(problems) >= limits.FOUND:
            return
        if _are_equal(value, first_value):
            message = f"`{key.text}` is given twice in this mapping, with the same value"
            related = (Related(first.span, "this is the first"),)
            problems.append(Problem("yaml-key-repeated", key.span, message, "remove one of them", related))
            continue
        written = "" if key.text == first.text else f" (as `{first.text}`)"
        problems.append(
            Problem(
                "yaml-duplicate-key",
                key.span,
                f"`{key.text}` is given twice in this mapping{written}, and only the last value counts",
                "keep one of them",
                (Related(first.span, "this first value is lost"),),
            )
        )


# Part of the parser's message -> what to write. The first match wins.
_HELP = (
    ("mapping values are not allowed", "quote a value that contains `: `, or check the indentation"),
    (
        "cannot start any token",
        "indent with spaces, and quote values that start with a tab, `@` or a back-tick",
    ),
    ("could not find expected ':'", "write `key: value`, with a space after the colon"),
    ("did not find expected ',' or", "close the bracket or brace, or separate the items with `,`"),
    ("did not find expected key", "check the indentation of this line against the one above"),
    ("did not find expected '-' indicator", "line this up with the `-` of the items above"),
    ("expected <block end>", "check the indentation of this line against the one above"),
    ("block sequence entries are not allowed", "start the list on its own line"),
    ("unexpected end of stream", "close the quote"),
    ("alphabetic or numeric character", "quote the text if it starts with `*` or `&`"),
    ("unknown escape character", "double the backslash, or use single quotes"),
    ("hexdecimal", "double the backslash, or use single quotes"),
    ("undefined tag handle", "quote the text if it starts with `!`"),
    ("anchor", "quote the text if it starts with `*` or `&`"),
    ("tab", "indent with spaces"),
)


_CONFLICT = compile_later(r"(?m)^(?:<{7}|>{7}) \S[^\r\n]*")


def explain_syntax_error(source: Source, error: Any) -> Problem:
    """The problem of a parser error, at the position where the parser stopped, or at an unresolved merge."""
    if (marker := _CONFLICT.search(source.text)) is not None:
        message = "not valid YAML: git left a merge conflict here"
        help_ = "keep one of the two versions, and remove the lines `<<<<<<<`, `=======` and `>>>>>>>`"
        return Problem("yaml-syntax", source.span(*marker.span()), message, help_)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    text = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "invalid YAML")
    text = " ".join(text.split())
    if mark is not None and "found character that" in text:
        text = text.replace("character that", f"{_shown(source.text[mark.index : mark.index + 1])} that")
    context = getattr(error, "context", None)
    message = f"not valid YAML: {text}" + (f" ({' '.join(str(context).split())})" if context else "")
    start = min(mark.index, len(source.text)) if mark is not None else 0
    start = _step_back(source.text, start)
    end = min(start + 1, len(source.text))
    span = source.span(start, end)
    help_ = next(
        (advice for words, advice in _HELP if words in text), "compare the line with the lines above"
    )
    return Problem("yaml-syntax", span, message.replace("'", "`").rstrip("."), help_)


def _shown(character: str) -> str:
    return {"\t": "a tab", "`": "a back-tick"}.get(character, f"character `{character}`")


def _step_back(text: str, offset: int) -> int:
    """Move an offset at the end of the file to the last visible character, which can be shown."""
    if offset < len(text):
        return offset
    return max(0, len(text.rstrip()) - 1)
