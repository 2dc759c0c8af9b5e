"""Read a script as Python does: its encoding, its size, its syntax; and the modules beside it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

from worldsize.adopting.model import AdoptError
from worldsize.base import untrusted
from worldsize.base.problem import Finding
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.base.wording import describe_os_error
from worldsize.scripts.module import Module, parse_module, parse_text

MOST_BYTES = 1_000_000
_LONGEST_LINE = 20_000


def read_script(path: Path) -> tuple[Module, str]:
    """The parsed script, and its encoding.

    Raises:
        AdoptError: It cannot be read, or it is not Python of this interpreter.
    """
    shown = str(path)
    if path.suffix == ".ipynb":
        raise _refuse_notebook(shown)
    if path.is_dir():
        raise _refuse(shown, "this is a folder", "name the script that trains")
    try:
        return parse_bytes(shown, untrusted.read_bytes(path, MOST_BYTES))
    except OSError as error:
        reason = describe_os_error(error)
        raise _refuse(shown, f"the script cannot be read: {reason}", "name the script that trains") from None


def parse_bytes(path: str, data: bytes) -> tuple[Module, str]:
    """The same for the bytes of a file."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise _describe_encoding(path, data, error) from None
    if text.lstrip("\ufeff \r\n").startswith("{") and '"cells"' in text and '"nbformat"' in text:
        raise _refuse_notebook(path)
    source = Source(path, text.removeprefix("\ufeff"))
    if "\0" in text or "\f" in text or not source.text.strip():
        what = "is empty" if not source.text.strip() else "contains control characters"
        raise AdoptError(Finding(Span(path, 1, 1, 1, 1), f"the script {what}"), source)
    if max(map(len, source.text.splitlines())) > _LONGEST_LINE:
        finding = Finding(Span(path, 1, 1, 1, 1), f"a line has more than {_LONGEST_LINE} characters")
        raise AdoptError(finding, source)
    module = parse_module(source)
    if module is None:
        raise AdoptError(_describe_syntax(source), source)
    return module, encoding


def _describe_syntax(source: Source) -> Finding:
    """Where and why Python does not parse it."""
    line, column, message = 1, 1, "it is nested too deeply"
    try:
        parse_text(source.text)
    except SyntaxError as error:
        line, column, message = error.lineno or 1, error.offset or 1, error.msg
    span = Span(source.path, line, max(column, 1), line, max(column, 1) + 1)
    help_ = "mend the line: `python -m py_compile` shows the same"
    if "Missing parentheses" in message or re.match(r"\s*(raise \w+,|except [\w.]+,)", source.line(line)):
        help_ = "convert it to Python 3 first"
    elif source.line(line).lstrip()[:1] in ("%", "!"):
        help_ = "take out what only a notebook runs: `jupyter nbconvert --to script` rewrites it"
    return Finding(span, f"Python cannot parse this script: {message}", help_)


def _refuse_notebook(path: str) -> AdoptError:
    help_ = f"write it as one: `jupyter nbconvert --to script {path}`"
    return _refuse(path, "this is a notebook, and a job runs scripts", help_)


def _describe_encoding(path: str, data: bytes, error: Exception) -> AdoptError:
    """Why the bytes of a script are no text."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return _refuse(path, "the script is UTF-16, which Python does not read", "save it as UTF-8")
    help_ = "save it as UTF-8, or name its encoding in a first line `# -*- coding: … -*-`"
    if not isinstance(error, UnicodeDecodeError):  # of its first lines, or of the encoding that they name
        return _refuse(path, "the script is no text in the encoding that it names", help_)
    line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
    message = f"the script is no text in the encoding that it names, {error.encoding}: byte 0x{byte:02x}"
    return AdoptError(Finding(Span(path, line, 1, line, 1), message, help_), Source(path, ""))


def _refuse(path: str, message: str, help_: str | None) -> AdoptError:
    return AdoptError(Finding(Span(path, 1, 1, 1, 1), message, help_), Source(path, ""))


def list_modules_beside(module: Module) -> Iterator[tuple[str, ast.stmt, Path]]:
    """The imports of modules in the script's folder, or in its package: name, statement, file."""
    folders = _list_folders(Path(module.source.path))
    for full, _, statement in module.imports:
        for name in (full, full.rpartition(".")[0]):  # `from name import function`
            below = [folder / name.replace(".", "/") for folder in folders] if name else []
            files = [path for base in below for path in (Path(f"{base}.py"), base / "__init__.py")]
            path = next((file for file in files if file.is_file()), None)
            if path is not None:
                yield name, statement, path
                break


def read_beside(path: Path) -> Module | None:
    """The parsed module; None if it is no Python."""
    with untrusted.passed_over():
        return parse_module(Source(str(path), untrusted.read_text(path)))
    return None


def find_function_beside(module: Module, called: str) -> tuple[Module, ast.FunctionDef] | None:
    """The function of a module beside the script, by its full name in the script."""
    for name, _, path in list_modules_beside(module):
        if called.rpartition(".")[0] != name:
            continue
        beside = read_beside(path)
        for node in beside.kinds.get(ast.FunctionDef, ()) if beside is not None else ():
            if beside is not None and node.name == called.rpartition(".")[2]:
                return beside, node
    return None


def find_loader_function(module: Module, called: str) -> tuple[Module, ast.FunctionDef] | None:
    """The function beside the script that makes a `DataLoader`, by its full name in the script."""
    beside = find_function_beside(module, called)
    inner = {id(node) for node in ast.walk(beside[1])} if beside is not None else set()
    makes = beside is not None and any(id(call) in inner for call in beside[0].called("DataLoader"))
    return beside if makes else None


def list_classes_beside(module: Module) -> Iterator[tuple[str, ast.ClassDef]]:
    """The classes of modules beside the script that it imports by name, with that name."""
    for _, statement, path in list_modules_beside(module):
        beside = read_beside(path) if isinstance(statement, ast.ImportFrom) else None
        names = {alias.name: alias.asname or alias.name for alias in getattr(statement, "names", ())}
        for node in beside.kinds.get(ast.ClassDef, ()) if beside is not None else ():
            if isinstance(node, ast.ClassDef) and node.name in names:
                yield names[node.name], node


_MOST = 200  # more are not the author's own code


def list_imported_beside(module: Module) -> tuple[tuple[Module, ast.stmt], ...]:
    """Each of these modules, parsed, with the import of the script that leads to it."""
    return module.once(_follow)


def read_with_beside(module: Module) -> tuple[Module, ...]:
    """The script and these modules."""
    return (module, *(beside for beside, _ in list_imported_beside(module)))


def _follow(module: Module) -> tuple[tuple[Module, ast.stmt], ...]:
    script = Path(module.source.path)
    folders = _list_folders(script)
    seen = {script}
    modules: list[tuple[Module, ast.stmt]] = []
    waiting = list(_list_files(module, folders))
    while waiting and len(modules) < _MOST:
        path, statement = waiting.pop(0)
        read = read_beside(path) if path not in seen else None
        seen.add(path)
        if read is not None:
            modules.append((read, statement))
            waiting += [(inner, statement) for inner, _ in _list_files(read, folders)]
    return tuple(modules)


def _list_folders(script: Path) -> list[Path]:
    """The folder of the script, and those around its package."""
    folders = [script.parent]
    while (folders[-1] / "__init__.py").is_file() and folders[-1].name:
        folders.append(folders[-1].parent)
    return folders


def _list_files(module: Module, folders: Sequence[Path]) -> Iterator[tuple[Path, ast.stmt]]:
    """The files that the imports of a module run: the module itself, and its packages before it."""
    script = Path(module.source.path)
    for full, level, statement in module.imports:
        parts = full.split(".")
        for folder in folders if not level else script.parents[level - 1 : level]:
            for length in range(1, len(parts) + 1):
                below = folder.joinpath(*parts[:length])
                files = (below / "__init__.py", below.with_name(f"{below.name}.py"))
                yield from ((path, statement) for path in files if path.is_file())
