"""Completion, also in YAML that is broken because its line is being typed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from lsprotocol import types
from msgspec import Struct

from worldsize.azureml.model import Port
from worldsize.azureml.references import is_file, local_path
from worldsize.base.resources import built_in_files
from worldsize.base.source import Source
from worldsize.checking.discover import SETTINGS
from worldsize.data.tables import read_table
from worldsize.facts import curated, vm_sizes
from worldsize.lsp import hover
from worldsize.lsp.buffers import YAML, Buffer, Session
from worldsize.lsp.names import Names
from worldsize.lsp.outline import Outline, find_parent, measure_indent, read_outline
from worldsize.lsp.outline import Path as KeyPath
from worldsize.lsp.positions import find_line
from worldsize.lsp.schemas import SchemaView, open_schema
from worldsize.planning import quantities
from worldsize.rules import registry
from wsshards.errors import UserError
from wssources.formats import TABLES

Kind = types.CompletionItemKind
_OPEN_SUPPRESSION = re.compile(r"#\s*worldsize\s*:\s*ignore\s*\[(?P<codes>[^\]]*)\Z")
_FROM_PLAN = ("planned_", "predicted_")  # inputs that only the plan fills
_SIZE_KEYS = ("instance_type", "size", "vm_size")
_MOST = 200  # columns
_PLAIN = re.compile(r"[A-Za-z_](?:[\w .-]*\w)?")  # needs no quotes, neither in YAML nor in a list

_MOST_FILES = 200  # entries of a folder
_SCRIPTS = (".py", ".sh")
_LAUNCHER = re.compile(
    r"""(?:^|[\s/"'])(?:python[\d.]*|bash|sh|torchrun|deepspeed|accelerate launch)[ \t]+\Z"""
)
_LAST_WORD = re.compile(r"[^\s\"'=]*\Z")
_ENDINGS = {"uses": YAML, "component": YAML, "trial": YAML, "code": (), "conda_file": YAML}

_WORD_AFTER = re.compile(r"[\w.$/:@-]*")
_KEY_AFTER = re.compile(r"[\w$-]*")
_EXPRESSION = re.compile(r"\$\{\{\s*(?P<name>[^\s{}]*)\Z")
_DASHES = re.compile(r"(?:-[ \t]+)*")


def complete(session: Session, buffer: Buffer, params: types.CompletionParams) -> types.CompletionList | None:
    """Answer a completion request."""
    if not buffer.is_yaml:
        return None
    text = buffer.source.text
    offset = session.buffers.positions.to_offset(buffer.source, params.position)
    cursor = find_cursor(text, offset)
    if cursor.kind == "comment":
        return _complete_code(session, buffer, cursor, offset)
    whole = Names(session, buffer, buffer.source)
    without_line = Names(session, buffer, Source(buffer.path, _without_line(text, offset)))
    names = without_line if without_line.kind else whole
    if not names.kind:
        return None
    schema = open_schema(names.kind, whole.outline)
    if cursor.in_expression:
        items = list(_complete_expression(names, cursor, text[cursor.end :]))
    elif cursor.kind == "key":
        items = list(_complete_key(names, schema, cursor, text))
    else:
        line = text[find_line(text, offset)[0] : offset]
        items, length = complete_script(names, cursor, line) if cursor.path[-1:] == ("command",) else ([], 0)
        if items:
            return _place(items, session, buffer, offset - length, cursor.end)
        items = list(_complete_value(names, schema, cursor))
    return _place(items, session, buffer, cursor.start, cursor.end)


def _without_line(text: str, offset: int) -> str:
    """The text without the line that is typed, if it is only a part of an entry."""
    start, end = find_line(text, offset)
    return f"{text[:start]}{text[end:]}" if "{" not in text[start:end] else text


def _place(
    items: Iterable[types.CompletionItem], session: Session, buffer: Buffer, start: int, end: int
) -> types.CompletionList:
    """The items with the place of the word that they replace, in their order."""
    range_ = session.buffers.positions.to_range(buffer.source, start, end)
    placed = []
    for number, item in enumerate(items):
        item.text_edit = types.TextEdit(range_, item.insert_text or item.label)
        item.sort_text = item.sort_text or f"{number:05}"
        item.filter_text = item.label
        item.insert_text = None
        placed.append(item)
    return types.CompletionList(is_incomplete=False, items=placed)


def _complete_code(
    session: Session, buffer: Buffer, cursor: Cursor, offset: int
) -> types.CompletionList | None:
    """The codes of rules in `# worldsize: ignore[`, first those that are reported on the line."""
    match = _OPEN_SUPPRESSION.match(cursor.typed)
    if match is None:
        return None
    word = match["codes"].replace(",", " ").rpartition(" ")[2]
    line = buffer.source.position(offset)[0]
    analysis = next(iter(session.list_analyses(buffer)), None)
    diagnostics = analysis.report.diagnostics if analysis is not None else ()
    near = {diagnostic.code for diagnostic in diagnostics if diagnostic.span.line in (line, line + 1)}
    items = [
        types.CompletionItem(
            rule.code,
            kind=Kind.EnumMember,
            detail=rule.summary,
            sort_text=f"{rule.code not in near:d}{rule.code}",
        )
        for rule in registry.rules()
        if rule.code != "WS000"
    ]
    return _place(items, session, buffer, offset - len(word), offset)


def _complete_expression(names: Names, cursor: Cursor, after: str) -> Iterator[types.CompletionItem]:
    step = names.find_step(cursor.path)
    closing = "" if after.lstrip().startswith("}}") else "}}"
    targets: dict[str, str] = {}
    is_own_scope = cursor.path[-1:] in ((), ("command",)) or "environment_variables" in cursor.path
    if is_own_scope or names.kind.endswith("-component") or names.kind == "command-job":
        targets |= dict(names.list_own_ports(step))
    if not is_own_scope or names.is_spec:
        targets |= dict(names.list_bindings(step))
    if names.is_spec and step is not None:
        targets |= {f"plan.{name}": "from the plan of this step" for name in sorted(quantities.NAMES)}
    for name, detail in targets.items():
        yield types.CompletionItem(name, kind=Kind.Reference, detail=detail, insert_text=f"{name}{closing}")


def _complete_key(
    names: Names, schema: SchemaView | None, cursor: Cursor, text: str
) -> Iterator[types.CompletionItem]:
    path, step = cursor.path, names.find_step(cursor.path)
    written = set(names.outline.children(path))
    colon = "" if text[cursor.end : cursor.end + 1] == ":" else ": "
    side = names.find_side(path) if len(path) == 3 else None
    if step is not None and side is not None:
        ports = names.list_ports(step, side)
        for name, port in sorted(ports.items(), key=lambda item: _needs_no_value(item[1])):
            if port is not None and name not in written and not name.startswith(_FROM_PLAN):
                yield _describe_port_item(port, colon)
        if names.read_component(step) is not None:
            return
    if schema is None:
        return
    required = schema.list_required(path)
    keys = schema.list_keys(path)
    for name, shape in sorted(keys.items(), key=lambda item: item[0] not in required):
        if name in written:
            continue
        yield types.CompletionItem(
            name,
            kind=Kind.Property,
            detail="required" if name in required else None,
            documentation=_markdown(schema.describe((*path, name))),
            insert_text=f"{name}{colon}",
            deprecated=True if shape.get("deprecated") else None,
        )


def _needs_no_value(port: Port | None) -> bool:
    """Whether an input needs no value; inputs that need one come first."""
    return port is None or port.optional or port.default is not None or port.name in quantities.PLANNED


def _describe_port_item(port: Port, colon: str) -> types.CompletionItem:
    detail = port.type if not _needs_no_value(port) else f"{port.type}, optional"
    if port.default is not None:
        detail = f"{port.type} = {port.default.value}"
    return types.CompletionItem(
        port.name,
        kind=Kind.Field,
        detail=detail,
        documentation=_markdown(hover.describe_port(port)),
        insert_text=f"{port.name}{colon}",
    )


def _complete_value(
    names: Names, schema: SchemaView | None, cursor: Cursor
) -> Iterator[types.CompletionItem]:
    path, step = cursor.path, names.find_step(cursor.path)
    key = path[-1] if path else ""
    yield from complete_path(names, cursor)
    if key in _SIZE_KEYS:
        yield from _list_sizes(names)
    elif key == "uses" and names.is_spec:
        for name in built_in_files():
            yield types.CompletionItem(name, kind=Kind.Module, detail="built-in component")
    elif key == "compute" and names.is_spec:
        for name in names.outline.children(("compute",)):
            size = names.outline.value("compute", name, "instance_type")
            yield types.CompletionItem(name, kind=Kind.Variable, detail=size)
    elif key == "environment" and names.kind != "settings":
        yield from _list_environments()
    elif step is not None and len(path) == 4 and path[2] == names.inputs_key:
        yield from _complete_column(names, step, cursor)
        yield from _complete_input(names, step, str(key), cursor)
    elif schema is not None:
        for word in schema.list_values(path):
            yield types.CompletionItem(word, kind=Kind.EnumMember)


def _complete_input(names: Names, step: str, key: str, cursor: Cursor) -> Iterator[types.CompletionItem]:
    """The words that an input takes, and what it can be bound to."""
    port = names.list_ports(step, "inputs").get(key)
    words = list(port.enum.value) if port is not None and port.enum is not None else []
    if port is not None and port.type == "boolean":
        words = ["true", "false"]
    for word in words:
        yield types.CompletionItem(str(word), kind=Kind.EnumMember)
    quote = '"' if cursor.in_flow else ""
    for name, detail in names.list_bindings(step):
        if port is None or port.is_data == name.startswith("parent.jobs.") or ".inputs." in name:
            text = f"{quote}${{{{{name}}}}}{quote}"
            yield types.CompletionItem(text, kind=Kind.Reference, detail=detail)


def _list_environments() -> Iterator[types.CompletionItem]:
    """The curated environments, without a version: the newest is unknown here."""
    for name in curated.names():
        reference = f"azureml://registries/azureml/environments/{name}"
        environment = curated.lookup(reference)
        requirements = environment.requirements if environment is not None else ()
        packages = ", ".join(f"`{requirement}`" for requirement in requirements)
        yield types.CompletionItem(
            f"{reference}/versions/",
            kind=Kind.Module,
            detail="curated environment",
            documentation=_markdown(f"Packages: {packages}" if packages else None),
        )


def _list_sizes(names: Names) -> Iterator[types.CompletionItem]:
    run = names.session.recall_resolved(names.buffer).run
    learned = run.context.vm_sizes if run is not None else vm_sizes.NOT_LEARNED
    for name in vm_sizes.names(learned):
        size = vm_sizes.lookup(name, learned)
        if size is not None:
            yield types.CompletionItem(
                name,
                kind=Kind.Constant,
                detail=hover.describe_hardware(size),
                sort_text=f"{size.status != 'current':d}{size.gpus == 0:d}{name}",
                deprecated=True if size.status == "retired" else None,
            )


def _markdown(text: str | None) -> types.MarkupContent | None:
    return None if text is None else types.MarkupContent(types.MarkupKind.Markdown, text)


_ONE, _MANY = frozenset({"split_by", "split_time", "text"}), frozenset({"features", "label"})


def _complete_column(names: Names, step: str, cursor: Cursor) -> Iterator[types.CompletionItem]:
    """The columns that an input may name; in a list, for the one that is being typed."""
    key = str(cursor.path[-1])
    is_of_table = names.outline.value(names.steps_key, step, "uses") == "shard_data"
    run = names.session.recall_resolved(names.buffer).run
    if run is None or not is_of_table or (key not in _ONE and key not in _MANY):
        return
    data = (names.steps_key, step, names.inputs_key, "data")
    place = names.outline.value(*data, "path") or names.outline.value(*data)
    path = local_path(place, names.folder) if place else None
    if path is None or path.suffix.lower() not in TABLES or not run.context.inside(path):
        return
    before = cursor.typed[: cursor.typed.rfind(",") + 1] if key in _MANY else ""
    columns = before.split(",")
    for name in _list_columns(path)[:_MOST]:
        if name not in columns and _PLAIN.fullmatch(name):
            yield types.CompletionItem(before + name, kind=Kind.Field, detail="column")


def _list_columns(path: Path) -> tuple[str, ...]:
    try:
        return read_table(path).columns
    except (UserError, OSError, ValueError):
        return ()


def complete_path(names: Names, cursor: Cursor) -> Iterator[types.CompletionItem]:
    """The files and folders that a value may name, relative to the document."""
    key = str(cursor.path[-1]) if cursor.path else ""
    if key in _ENDINGS and (cursor.typed.startswith((".", "/")) or (key == "code" and not cursor.typed)):
        no_components = (f"./{Path(names.path).name}", *(f"./{name}" for name in SETTINGS))
        folder, typed = names.folder, cursor.typed or "./"
        for item in _list_entries(folder, typed, _ENDINGS[key], only_folders=key == "code"):
            if item.label not in no_components:
                yield item


def complete_script(names: Names, cursor: Cursor, line: str) -> tuple[list[types.CompletionItem], int]:
    """The scripts in `code:` after a launcher in a command, and the length of the word that is typed.

    ``line`` is the line up to the cursor.
    """
    match = _LAST_WORD.search(line)
    word = match.group() if match is not None else ""
    if not _LAUNCHER.search(line[: len(line) - len(word)]):
        return [], 0
    folder = names.folder
    code = names.outline.value(*cursor.path[:-1], "code")
    place = local_path(code, folder) if code else folder
    entries = _list_entries(place, word, _SCRIPTS, only_folders=False) if place is not None else ()
    return list(entries), len(word)


def _list_entries(
    folder: Path, typed: str, endings: tuple[str, ...], *, only_folders: bool
) -> Iterator[types.CompletionItem]:
    """The entries of the folder that a typed path leads to; folders go on with a slash."""
    start = typed[: typed.rfind("/") + 1]
    place = folder if start in ("", "./") else local_path(start, folder)
    if place is None:
        return
    try:
        entries = sorted(entry.name for entry in place.iterdir())
    except (OSError, ValueError):
        return
    for name in [entry for entry in entries if not entry.startswith((".", "__"))][:_MOST_FILES]:
        is_folder = not is_file(place / name)
        if is_folder or (not only_folders and name.lower().endswith(endings)):
            kind = Kind.Folder if is_folder else Kind.File
            text = f"{start}{name}{'/' if is_folder and not only_folders else ''}"
            yield types.CompletionItem(text, kind=kind)


class Cursor(Struct, frozen=True):
    """A place where text is typed.

    ``path`` is that of the value, or of the mapping that a key is typed into. ``text[start:end]`` is the word
    that a completion replaces, and ``typed`` what of it stands before the cursor. In an expression ``${{…``
    the word is the name in the braces.
    """

    kind: Literal["key", "value", "comment"]
    path: KeyPath
    start: int
    end: int
    typed: str
    in_expression: bool = False
    in_flow: bool = False


def find_cursor(text: str, offset: int) -> Cursor:
    """What is typed at an offset, whether or not the text is valid YAML."""
    before = text[:offset]
    outline = read_outline(before)
    line_start = before.rfind("\n") + 1
    line = before[line_start:]
    expression = _EXPRESSION.search(line)
    comment = _find_comment_start(line)
    if comment is not None and outline.block is None:
        return Cursor("comment", (), line_start + comment, offset, line[comment:])
    path, start, is_key = _find_token(outline, line, line_start, offset)
    if expression is not None:
        end = _match_end(_WORD_AFTER, text, offset)
        start = line_start + expression.start("name")
        return Cursor("value", path, start, end, text[start:offset], in_expression=True)
    end = _match_end(_KEY_AFTER if is_key else _WORD_AFTER, text, offset)
    kind: Literal["key", "value"] = "key" if is_key else "value"
    return Cursor(kind, path, start, end, text[start:offset], in_flow=bool(outline.brackets))


def _find_comment_start(line: str) -> int | None:
    """Where the comment of a line starts; quotes are not followed over several lines."""
    quote = ""
    for index, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'" and (index == 0 or line[index - 1] in " \t:,[{-"):
            quote = character
        elif character == "#" and (index == 0 or line[index - 1] in " \t"):
            return index
    return None


def _find_token(outline: Outline, line: str, line_start: int, offset: int) -> tuple[KeyPath, int, bool]:
    """The path, the start of the word and whether it is a key."""
    if outline.brackets:
        bracket = outline.brackets[-1]
        start = bracket.start
        while start < offset and outline.text[start] in " \t\r\n\"'":
            start += 1
        is_key = bracket.value_path is None
        return bracket.value_path or bracket.path, start, is_key
    if outline.block is not None and line_start > outline.block[2]:
        return outline.block[1], offset - len(line.rsplit(" ", maxsplit=1)[-1]), False
    indent = len(line) - len(line.lstrip(" \t"))
    content = _match_end(_DASHES, line, indent)
    last = next(reversed(outline.entries.values()), None)
    if last is not None and last.key_end > last.key_start >= line_start and last.value_start <= offset:
        start = min(last.value_start, offset)
        return last.path, start + (outline.text[start : start + 1] in ("'", '"')), False
    if content > indent and outline.levels and outline.levels[-1].is_item:
        return outline.levels[-1].path, line_start + content, True
    column = measure_indent(line[:indent]) + content - indent
    return _find_mapping(outline, column), line_start + content, True


def _find_mapping(outline: Outline, column: int) -> KeyPath:
    """The mapping of a key at a column; a key that is indented below a plain value belongs beside it."""
    path = find_parent(outline.levels, column)
    while path in outline.entries:
        entry = outline.entries[path]
        value = outline.text[entry.value_start : entry.value_end]
        if not value or value[0] in "&!":
            break
        path = path[:-1]
    return path


def _match_end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return start if match is None else match.end()
