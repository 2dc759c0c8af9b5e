"""A whole file, typed bit by bit: every request is answered, and what is shown is never old."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lsp_client import Client
from lsp_project import COMPONENT, SPEC, document
from lsprotocol import types

from worldsize.lsp.analysis import analyse
from worldsize.lsp.buffers import Session
from worldsize.lsp.completion import complete
from worldsize.lsp.definition import find_definition
from worldsize.lsp.hover import hover
from worldsize.lsp.references import find_references, list_symbols

STRIDE = 3  # characters that are typed at once in files other than the first
PIPELINES = Path(__file__).parents[2] / "pipelines"
TEXTS = {
    "spec": SPEC,
    "component": COMPONENT,
    "windows": SPEC.replace("\n", "\r\n"),
    "tabs": SPEC.replace("    ", "\t"),
    "marks": SPEC.replace("cnn", "c\u0301nn 😀"),
    "sweep": (PIPELINES / "digits_sweep.yml").read_text(),
}


@pytest.mark.parametrize("name", list(TEXTS))
def test_every_prefix_has_its_answers(tmp_path: Path, name: str) -> None:
    (tmp_path / "report.yml").write_text(COMPONENT)
    session, uri, text = Session(), (tmp_path / "file.yml").as_uri(), TEXTS[name]
    buffer = session.buffers.open(uri, "", 0)
    assert buffer is not None
    here = document(uri)
    stride = 1 if name == "spec" else STRIDE
    for number, start in enumerate(range(0, len(text), stride)):
        end = session.buffers.positions.to_position(buffer.source, len(buffer.source.text))
        insert = types.TextDocumentContentChangePartial(types.Range(end, end), text[start : start + stride])
        session.buffers.change(uri, [insert], number)
        assert len(buffer.source.text) == min(start + stride, len(text))
        after = session.buffers.positions.to_position(buffer.source, len(buffer.source.text))
        complete(session, buffer, types.CompletionParams(here, after))
        if number % 5 == 0:
            before = types.Position(number % (after.line + 1), number % 40)
            hover(session, buffer, types.HoverParams(here, before))
            find_definition(session, buffer, types.DefinitionParams(here, before))
            context = types.ReferenceContext(include_declaration=True)
            find_references(session, buffer, types.ReferenceParams(context, here, before))
            list_symbols(session, buffer, types.DocumentSymbolParams(here))
    assert buffer.source.text == text
    fresh = analyse(buffer.path, session.buffers.texts()).report.diagnostics
    assert session.analyse(buffer).report.diagnostics == fresh


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    (tmp_path / "report.yml").write_text(COMPONENT)
    (tmp_path / "report.py").write_text("")
    client = Client(tmp_path)
    yield client
    assert client.stop() == 0


def test_what_is_shown_after_fast_typing_belongs_to_the_last_key(client: Client, tmp_path: Path) -> None:
    uri = client.open(tmp_path / "spec.yml", SPEC)
    clean = client.diagnostics(uri)
    line = SPEC.split("\n").index("      model: cnn")
    word = "      model_of_mine: 3\n"
    for column, character in enumerate(word):
        here = types.Position(line, column)
        client.change(uri, types.TextDocumentContentChangePartial(types.Range(here, here), character))
    assert any("model_of_mine" in each.message for each in client.diagnostics(uri))
    for column in range(len(word) - 2, -1, -1):
        gone = types.Range(types.Position(line, column), types.Position(line, column + 1))
        client.change(uri, types.TextDocumentContentChangePartial(gone, ""))
    end = types.Range(types.Position(line, 0), types.Position(line + 1, 0))
    client.change(uri, types.TextDocumentContentChangePartial(end, ""))
    assert client.diagnostics(uri) == clean
    assert not client.logged
