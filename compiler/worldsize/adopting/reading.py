"""Read the file of a script as Python does: its encoding, its size, its syntax."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from pathlib import Path

from worldsize.adopting.model import AdoptError
from worldsize.base.problem import Finding
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.rules.script._module import Module, parse_module

MOST_BYTES = 1_000_000
_LONGEST_LINE = 20_000


def read_script(path: Path) -> tuple[Module, str]:
    """The parsed script, and its encoding.

    Raises:
        AdoptError: It cannot be read, or it is not Python of this interpreter.
    """
    shown = str(path)
    if path.suffix == ".ipynb":
        raise _refuse(
            shown,
            "this is a notebook, and a job runs scripts",
            f"write it as one: `jupyter nbconvert --to script {shown}`",
        )
    if path.is_dir():
        raise _refuse(shown, "this is a folder", "name the script that trains")
    try:
        data = path.read_bytes() if path.stat().st_size <= MOST_BYTES else None
    except OSError as error:
        raise _refuse(shown, f"the script cannot be read: {error.strerror}", None) from None
    if data is None:
        raise _refuse(shown, f"the script has more than {MOST_BYTES} bytes", "name the script that trains")
    return parse_bytes(shown, data)


def parse_bytes(path: str, data: bytes) -> tuple[Module, str]:
    """The same for the bytes of a file."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        help_ = "save it as UTF-8, or name its encoding in a first line `# -*- coding: … -*-`"
        raise _refuse(path, "the script is no text in the encoding that it names", help_) from None
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source.text)
    except SyntaxError as error:
        line, column, message = error.lineno or 1, error.offset or 1, error.msg
    except (ValueError, RecursionError, MemoryError):
        pass
    span = Span(source.path, line, max(column, 1), line, max(column, 1) + 1)
    old = "print" in message and "parentheses" in message
    help_ = "convert it to Python 3 first" if old else "mend the line: `python -m py_compile` shows the same"
    return Finding(span, f"Python cannot parse this script: {message}", help_)


def _refuse(path: str, message: str, help_: str | None) -> AdoptError:
    return AdoptError(Finding(Span(path, 1, 1, 1, 1), message, help_), Source(path, ""))
