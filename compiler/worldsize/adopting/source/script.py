"""A parsed script with the edits that are collected for it. Nothing outside of an edit changes a byte."""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, structs

from worldsize.adopting.model import AdoptError, Change, Obstacle
from worldsize.adopting.source.tracing import Tracer
from worldsize.base.problem import Finding
from worldsize.scripts.bindings import Function
from worldsize.scripts.module import Module, keep, list_block

# At one place: the end of what stands before it comes first, and a condition right before its statements.
_AFTER, _BEFORE, _HEAD, _INDENT, _INSIDE = 0, 1, 2, 3, 4
_MOVED = "\0"  # in an edit, for what is moved there; no script has it


class _Edit(Struct, frozen=True, order=True):
    start: int
    priority: int
    number: int
    end: int
    text: str


class Script(Tracer):
    """The text, its tree and the edits. Offsets count characters."""

    def __init__(self, module: Module, arguments: Sequence[str] = ()) -> None:
        super().__init__(module)
        self.arguments = arguments  # of the user's command line
        self.text = module.text
        self.newline = "\r\n" if "\r\n" in self.text else "\n"
        self.unit = _find_unit(self.text)
        self.obstacles: list[Obstacle] = []
        self.names = {node.id for node in module.kinds.get(ast.Name, ())} | set(module.names)
        self.names |= {node.arg for node in module.kinds.get(ast.arg, ())}
        self.names |= {node.name for node in module.kinds.get(ast.FunctionDef, ())}
        self._changes: dict[tuple[int, str | None], Change] = {}
        self._edits: list[_Edit] = []
        self._guarded: set[ast.AST] = set()
        self._enclosed: list[tuple[int, int, int]] = []  # start and end, and the number of the edit
        self._filled: set[ast.Call] = set()
        self._moved: dict[int, ast.expr] = {}  # by the number of the edit that writes it elsewhere

    # What is in the text ------------------------------------------------------------------------

    def start(self, node: ast.AST) -> int:
        """The offset of the first character of a node."""
        span = self.module.full_span(node)
        return self.module.source.offset(span.line, span.column)

    def end(self, node: ast.AST) -> int:
        """The offset behind the last character of a node."""
        span = self.module.full_span(node)
        return self.module.source.offset(span.end_line, span.end_column)

    def written(self, node: ast.AST) -> str:
        """A node as the script writes it."""
        return self.text[self.start(node) : self.end(node)]

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which one stands."""
        block = list_block(self.module.parents[statement], statement)
        if not block:
            raise self.refuse(statement, "this kind of block is not edited", None)
        return block

    def new_name(self, wanted: str) -> str:
        """A name that the script does not use yet."""
        while wanted in self.names:
            wanted += "_"
        self.names.add(wanted)
        return wanted

    def indent(self, statement: ast.stmt) -> str:
        """The white space before a statement."""
        return self.text[self._line_start(statement) : self._first_offset(statement)]

    # What cannot be done ------------------------------------------------------------------------

    def refuse(self, node: ast.AST | None, message: str, help_: str | None) -> AdoptError:
        """The error for a script that cannot be adopted."""
        span = self.module.span(node if node is not None else self.module.tree)
        return AdoptError(Finding(span, message, help_), self.module.source)

    def leave(self, node: ast.AST, message: str, help_: str | None = None) -> None:
        """Leave something to the author, and say so."""
        self.obstacles.append(Obstacle(self.module.span(node), message, help_))

    # Edits --------------------------------------------------------------------------------------

    def note(self, line: int, rule: str | None, reason: str, lines: Iterable[str] = ()) -> None:
        """Record why a line changes, or ``lines`` are inserted there."""
        inserted = next((text for text in map(str.strip, lines) if text), "")
        self._changes.setdefault((line, reason), Change(line, rule, reason, inserted))

    def replace(self, node: ast.AST, text: str, rule: str | None, reason: str) -> None:
        """Write something else in place of a node."""
        self._add(self.start(node), self.end(node), text, _INSIDE)
        self.note(getattr(node, "lineno", 1), rule, reason)

    def insert_behind(self, node: ast.AST, text: str, rule: str | None, reason: str) -> None:
        """Write text right behind a node, on its line."""
        end = self.end(node)
        self._add(end, end, text, _AFTER)
        self.note(getattr(node, "end_lineno", 1), rule, reason)

    def insert_front(self, node: ast.AST, text: str, rule: str | None, reason: str) -> None:
        """Write text right before a node, on its line."""
        start = self.start(node)
        self._add(start, start, text, _BEFORE)
        self.note(getattr(node, "lineno", 1), rule, reason)

    def insert_before(self, statement: ast.stmt, lines: list[str], rule: str | None, reason: str) -> None:
        """Write lines before a statement, as deep as it is; others may follow on its line."""
        if not self._starts_line(statement):
            self._need_own_line(statement)
        begin = self._line_start(statement)
        self._add(begin, begin, self._join(lines, self.indent(statement)), _BEFORE)
        self.note(self._first_line(statement), rule, reason, lines)

    def insert_after(self, statement: ast.stmt, lines: list[str], rule: str | None, reason: str) -> None:
        """Write lines after a statement, as deep as it is."""
        self._need_own_line(statement)
        at = self._line_end(self.end(statement))
        text = self._join(lines, self.indent(statement))
        if at == len(self.text) and not self.text.endswith("\n"):
            text = self.newline + text.removesuffix(self.newline)
        self._add(at, at, text, _AFTER)
        self.note((statement.end_lineno or 1) + 1, rule, reason, lines)

    def set_keyword(self, call: ast.Call, name: str, text: str, rule: str | None, reason: str) -> None:
        """Give a keyword argument of a call this value, also where it has another."""
        passed = next((keyword for keyword in call.keywords if keyword.arg == name), None)
        arguments = [argument for argument in (*call.args, *call.keywords) if self._is_inside(argument, call)]
        behind = max(arguments, key=self.end, default=None)
        if passed is not None:
            if self.written(passed.value) != text:
                self.replace(passed.value, text, rule, reason)
        elif behind is not None:
            self.insert_behind(behind, f",{self.gap(behind, call)}{name}={text}", rule, reason)
        else:
            at = self.text.rindex(")", 0, self.end(call))
            comma = ", " if call in self._filled or call.keywords else ""  # `**settings`, read elsewhere
            self._filled.add(call)
            self._add(at, at, f"{comma}{name}={text}", _INSIDE)
            self.note(call.lineno, rule, reason)

    def _is_inside(self, part: ast.AST, call: ast.Call) -> bool:
        """Whether a part of a call is written in it, and not in a mapping that it takes by ``**``."""
        return self.start(call) <= self.start(part) and self.end(part) <= self.end(call)

    def gap(self, part: ast.AST, whole: ast.AST) -> str:
        """What stands before one of several parts: a line of its own where the last has one, else a space."""
        begin = self.module.source.offset(self.module.full_span(part).line, 1)
        white = self.text[begin : self.start(part)]
        return self.newline + white if not white.strip() and begin > self.start(whole) else " "

    def move_before(self, node: ast.expr, statement: ast.stmt, name: str, reason: str) -> None:
        """Give an expression a name before a statement, with all edits inside of it."""
        self.replace(node, name, None, reason)
        self._moved[len(self._edits)] = node
        self.insert_before(statement, [f"{name} = {_MOVED}"], None, reason)

    def add_parameter(self, function: Function, text: str, rule: str | None, reason: str) -> None:
        """Let a function take another parameter, behind the others."""
        parts = function.args
        parameters = (*parts.posonlyargs, *parts.args, *parts.kwonlyargs)
        if parameters:
            defaults = (default for default in (*parts.defaults, *parts.kw_defaults) if default is not None)
            gap = self.gap(max(parameters, key=self.end), function)
            self.insert_behind(max((*parameters, *defaults), key=self.end), f",{gap}{text}", rule, reason)
            return
        begin = self.module.source.offset(function.lineno, function.col_offset + 1)
        at = self.text.index("(", begin) + 1
        self._add(at, at, text, _INSIDE)
        self.note(function.lineno, rule, reason)

    def insert_decorator(self, function: Function, line: str, rule: str | None, reason: str) -> None:
        """Write a decorator below the others of a function."""
        begin = self.module.source.offset(function.lineno, 1)
        indent = re.match(r"[ \t]*", self.text[begin:])
        self._add(begin, begin, self._join([line], indent[0] if indent else ""), _BEFORE)
        self.note(function.lineno, rule, reason, [line])

    def delete(self, statement: ast.stmt, rule: str | None, reason: str) -> None:
        """Take a statement out with its lines; `pass` remains of the only one of a block."""
        self._need_own_line(statement)
        if len(self.block(statement)) == 1:
            self.replace(statement, "pass", rule, reason)
            return
        self._add(self._line_start(statement), self._line_end(self.end(statement)), "", _INSIDE)
        self.note(statement.lineno, rule, reason)

    def guard(self, statements: list[ast.stmt], condition: str, rule: str | None, reason: str) -> None:
        """Put statements that follow each other under one condition."""
        self.enclose(statements, f"if {condition}:", rule, reason)
        self._guarded.update(statements)

    def enclose(self, statements: list[ast.stmt], head: str, rule: str | None, reason: str) -> None:
        """Indent statements that follow each other under a line such as ``if …:`` or ``with …:``."""
        for statement in statements:
            self._need_own_line(statement)
        first = statements[0]
        begin, indent = self._line_start(first), self.indent(first)
        stop = self.end(statements[-1])
        self._enclosed.append((begin, stop, len(self._edits)))
        self._add(begin, begin, f"{indent}{head}{self.newline}", _HEAD)
        inside = _list_string_lines(self.module)
        at = begin
        while at < stop:
            line = self.module.source.position(at)[0]
            if line not in inside and self.module.source.line(line).strip():
                self._add(at, at, self.unit, _INDENT)
            at = self._line_end(at)
        self.note(first.lineno, rule, reason, [head])

    def is_guarded(self, node: ast.AST) -> bool:
        """Whether an edit puts a node under a condition."""
        return node in self._guarded or any(
            above in self._guarded for above, _ in self.module.ancestors(node)
        )

    def has_own_line(self, statement: ast.stmt) -> bool:
        """Whether nothing else stands on the lines of a statement but a comment."""
        end = self.end(statement)
        after = self.text[end : self._line_end(end)].strip()
        return after[:1] in ("", "#") and self._starts_line(statement)

    def _starts_line(self, statement: ast.stmt) -> bool:
        before = self.text[self._line_start(statement) : self._first_offset(statement)]
        continued = self.text[: self._line_start(statement)].rstrip("\r\n").endswith("\\")
        return not before.strip() and not continued

    def edits_before(self, statement: ast.stmt) -> bool:
        """Whether something is written above a statement; imports are not yet."""
        return any(edit.text.strip() and edit.start < self._line_start(statement) for edit in self._edits)

    def edits_between(self, start: int, end: int) -> bool:
        """Whether something is written behind one offset, up to another."""
        return any(edit.text.strip() and start < edit.start <= end for edit in self._edits)

    def list_inserted(self) -> list[str]:
        """The texts of all edits."""
        return [edit.text for edit in self._edits]

    def rename_added(self, pattern: re.Pattern[str], text: str) -> None:
        """Write something else in what edits add."""
        self._edits = [structs.replace(edit, text=pattern.sub(text, edit.text)) for edit in self._edits]

    def is_replaced(self, node: ast.AST) -> bool:
        """Whether an edit writes something else in place of a node."""
        return any(edit.start <= self.start(node) < edit.end for edit in self._edits)

    def finish(self) -> tuple[str, tuple[Change, ...]]:
        """The new text, and why it changes."""
        edits = sorted(self._edits)
        for number, node in self._moved.items():
            begin, stop = self.start(node), self.end(node)
            inner = [edit for edit in edits if begin < edit.start <= edit.end <= stop and edit.start < stop]
            moved = self._write(inner, begin, stop)
            edits = [
                structs.replace(edit, text=edit.text.replace(_MOVED, moved))
                if edit.number == number
                else edit
                for edit in edits
            ]
        text = wrap_lines(self.text, self._write(edits, 0, len(self.text)), self.unit)
        return text, tuple(sorted(self._changes.values(), key=lambda change: change.line))

    def _write(self, edits: Sequence[_Edit], begin: int, stop: int) -> str:
        """A part of the text with its edits."""
        parts: list[str] = []
        at = begin
        for edit in edits:
            if edit.start < at:  # inside of what another edit has replaced
                continue
            parts += [self.text[at : edit.start], self._deepen(edit)]
            at = edit.end
        return "".join([*parts, self.text[at:stop]])

    def _deepen(self, edit: _Edit) -> str:
        """The text of an edit; lines that it adds between enclosed statements are as deep as these."""
        if edit.start != edit.end or not edit.text.endswith("\n"):
            return edit.text
        depth = sum(
            start < edit.start < stop
            or (start == edit.start and edit.priority == _HEAD and number < edit.number)
            for start, stop, number in self._enclosed
        )
        lines = edit.text.splitlines(keepends=True)
        return "".join(self.unit * depth + line if line.strip() else line for line in lines)

    def _add(self, start: int, end: int, text: str, priority: int) -> None:
        self._edits.append(_Edit(start, priority, len(self._edits), end, text))

    def _join(self, lines: list[str], indent: str) -> str:
        written = (re.sub("^( {4})+", lambda m: self.unit * (len(m[0]) // 4), line) for line in lines)
        return "".join((indent + line if line else "") + self.newline for line in written)

    def _need_own_line(self, statement: ast.stmt) -> None:
        if not self.has_own_line(statement):
            help_ = "write each statement on a line of its own"
            raise self.refuse(statement, "several statements share this line, which has to be edited", help_)

    def _first_offset(self, statement: ast.stmt) -> int:
        decorators = getattr(statement, "decorator_list", [])
        return self.start(decorators[0]) - 1 if decorators else self.start(statement)

    def _first_line(self, statement: ast.stmt) -> int:
        return self.module.source.position(self._first_offset(statement))[0]

    def _line_start(self, statement: ast.stmt) -> int:
        return self.module.source.offset(self._first_line(statement), 1)

    def _line_end(self, offset: int) -> int:
        """Where the next line starts."""
        source = self.module.source
        return source.offset(source.position(offset)[0] + 1, 1)


@keep
def _list_string_lines(module: Module) -> set[int]:
    """The lines that start inside of a string."""
    lines: set[int] = set()
    for kind in (ast.Constant, ast.JoinedStr):
        for node in module.kinds.get(kind, ()):
            lines.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
    # Parts of an implicit concatenation stand on lines of their own; those start outside of a string.
    for token in tokenize.generate_tokens(io.StringIO(module.text, newline="").readline) if lines else ():
        if token.type == tokenize.STRING and token.start[0] in lines:
            starts = module.source.line(token.start[0])[: token.start[1]]
            if not starts.strip():
                lines.discard(token.start[0])
    return lines


def _find_unit(text: str) -> str:
    """One level of indentation: that of the first indented line."""
    first = re.search(r"^([ \t]+)[^\s#]", text, re.MULTILINE)
    white = first[1] if first else "    "
    return "\t" if white.startswith("\t") else white if len(white) in (2, 3, 4, 8) else "    "


LIMIT = 100
_PAIRS = {")": "(", "]": "[", "}": "{"}
_READ = (*_PAIRS, *_PAIRS.values(), ",", "for", "if", "else")
_TRAILERS = ("", ":", ",")


def wrap_lines(before: str, after: str, unit: str) -> str:
    """The text after the edits, with their long lines wrapped; ``unit`` is one level of indentation."""
    lines_before = set(before.splitlines())
    if any(len(line) > LIMIT for line in lines_before):
        return after
    return "".join(
        line if len(text := line.rstrip("\r\n")) <= LIMIT or text in lines_before else _wrap(line, unit)
        for line in after.splitlines(keepends=True)
    )


def _wrap(line: str, unit: str) -> str:
    code = line.strip()
    end = line[len(line.rstrip("\r\n")) :]
    between = "\r\n" if end == "\r\n" else "\n"
    indent = line[: len(line) - len(line.lstrip())]
    return between.join(_split(indent, code, unit)) + end


def _split(indent: str, code: str, unit: str) -> Iterator[str]:
    """A line as it is where it fits or has no bracket at its end; else what the bracket holds on its own."""
    bracket = _find_last_bracket(code) if len(indent + code) > LIMIT else None
    if bracket is None:
        yield indent + code
        return
    start, stop, marks = bracket
    body, inner = code[start + 1 : stop].strip(), indent + unit
    yield indent + code[: start + 1]
    for part in [body] if len(inner + body) <= LIMIT else _divide(code, start, stop, marks):
        yield from _split(inner, part, unit)
    yield indent + code[stop:]


def _divide(code: str, start: int, stop: int, marks: list[tuple[str, int]]) -> Iterator[str]:
    """What a bracket holds, part by part: of a comprehension, of a list, or of a choice by `if`."""
    words = {word for word, _ in marks}
    chosen = ("for",) if "for" in words else (",",) if "," in words else ("if", "else")
    edges = [start + 1, *(at for word, at in marks if word in chosen), stop]
    for first, last in itertools.pairwise(edges):
        part = code[first:last].strip().removeprefix(",").strip()
        if part:
            yield f"{part}," if chosen == (",",) else part


def _find_last_bracket(code: str) -> tuple[int, int, list[tuple[str, int]]] | None:
    """The bracket that ends a line, and where what it holds can be divided; None if the line is not whole."""
    opened: list[tuple[str, int, list[tuple[str, int]]]] = []
    last = None
    for token in _read_tokens(code):
        at = token.start[1]
        if token.string in "([{":
            opened.append((token.string, at, []))
        elif token.string in _PAIRS:
            if not opened or opened[-1][0] != _PAIRS[token.string]:
                return None
            _, start, marks = opened.pop()
            last = (start, at, marks)
        elif opened:
            opened[-1][2].append((token.string, at))
    if last is None or opened or code[last[1] + 1 :].strip() not in _TRAILERS or last[1] == last[0] + 1:
        return None
    return last


def _read_tokens(code: str) -> list[tokenize.TokenInfo]:
    """The brackets of a line, and where these can be divided; none of a part or a comment."""
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(code).readline)]
    except (tokenize.TokenError, SyntaxError):
        return []
    if any(token.type == tokenize.COMMENT for token in tokens):
        return []
    kinds = (tokenize.OP, tokenize.NAME)
    return [token for token in tokens if token.type in kinds and token.string in _READ]
