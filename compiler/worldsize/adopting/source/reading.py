"""Read a script as Python does: its encoding, its size, its syntax; and the modules beside it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

from worldsize.adopting.model import AdoptError
from worldsize.azureml.tree import Tree
from worldsize.base import untrusted
from worldsize.base.problem import Finding
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.base.wording import describe_os_error
from worldsize.scripts.module import Module, keep, parse_module, parse_text
from worldsize.scripts.program import Imported, find_imported, read_imported, read_module

MOST_BYTES = 1_000_000
_MOST_MODULES = 200  # more are not the author's own code
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
    """Why the bytes of a script are not text."""
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


@keep
def _open_beside(module: Module) -> tuple[Tree, Path, tuple[Path, ...]]:
    """What files are read with, the script, and its folder with those around its package."""
    script = Path(module.source.path)
    folders = [script.parent]
    while (folders[-1] / "__init__.py").is_file() and folders[-1].name:
        folders.append(folders[-1].parent)
    return Tree(Path(script.absolute().anchor)), script, tuple(folders)


@keep
def read_beside(module: Module) -> Imported:
    """A script with the modules beside it that it imports."""
    tree, script, folders = _open_beside(module)
    return read_imported(tree, module, script, folders, _MOST_MODULES)


def list_direct(module: Module) -> dict[Module, ast.stmt]:
    """The modules beside a script that it imports itself, each with the import."""
    tree, script, folders = _open_beside(module)
    direct: dict[Module, ast.stmt] = {}
    for name, level, statement in module.imports:
        for path in find_imported(tree, script, folders, name, level):
            if (other := read_module(tree, path)) is not None:
                direct.setdefault(other, statement)
    return direct
