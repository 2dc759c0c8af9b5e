"""`worldsize lsp` with a real client: rename, references and the outline of steps, inputs and outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lsp_client import Client
from lsp_project import SPEC, apply, at, document, write_project
from lsprotocol import types
from pygls.exceptions import JsonRpcException

import worldsize


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("lsp"))


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    client = Client(folder)
    yield client
    assert client.stop() == 0


@pytest.fixture
def uri(client: Client, folder: Path) -> Iterator[str]:
    uri = client.open(folder / "spec.yml")
    yield uri
    client.close(uri)


def prepare(client: Client, uri: str, part: str, offset: int) -> types.PrepareRenameResult | None:
    params = types.PrepareRenameParams(document(uri), at(SPEC, part, offset))
    return client.call(client.client.text_document_prepare_rename_async(params))


def rename(client: Client, uri: str, part: str, offset: int, new: str) -> types.WorkspaceEdit | None:
    params = types.RenameParams(document(uri), at(SPEC, part, offset), new)
    return client.call(client.client.text_document_rename_async(params))


@pytest.mark.parametrize(("part", "offset"), [("  train:", 3), ("jobs.train.outputs", 6)])
def test_a_renamed_step_keeps_its_bindings(
    client: Client, folder: Path, uri: str, part: str, offset: int
) -> None:
    prepared = prepare(client, uri, part, offset)
    assert isinstance(prepared, types.PrepareRenamePlaceholder)
    assert prepared.placeholder == "train"
    edit = rename(client, uri, part, offset, "fit")
    assert edit is not None
    assert edit.changes is not None
    renamed = apply(SPEC, list(edit.changes[uri]))
    assert renamed == SPEC.replace("  train:", "  fit:").replace("jobs.train.", "jobs.fit.")
    path = folder / "spec.yml"
    before, after = (
        [
            (each.code, each.span.line)
            for each in worldsize.check(path, texts={str(path): text.encode()}).diagnostics
        ]
        for text in (SPEC, renamed)
    )
    assert before == after


@pytest.mark.parametrize(
    ("new", "reason"),
    [("Fit", "not a name"), ("report", "already"), ("a b", "not a name"), ("", "not a name")],
)
def test_a_rename_is_refused_with_the_reason(client: Client, uri: str, new: str, reason: str) -> None:
    with pytest.raises(JsonRpcException, match=reason):
        rename(client, uri, "  train:", 3, new)


SCRIPT_SPEC = SPEC.replace(
    "  report:\n",
    """\
  count:
    command: python count.py --shards ${{inputs.shards}} --rounds ${{inputs.rounds}} --out ${{outputs.table}}
    code: .
    compute: cpu
    with:
      shards: ${{parent.jobs.shard.outputs.shards}}
      rounds: ${{parent.inputs.rounds}}
    outputs:
      table: {type: uri_folder}
  "draw":
    command: python draw.py --table ${{inputs.table}} --rounds ${{parent.jobs.count.inputs.rounds}}
    code: .
    compute: cpu
    with: {table: "${{parent.jobs.count.outputs.table}}"}
  report:
""",
)


@pytest.mark.parametrize(
    ("part", "offset", "changed"),
    [
        ("  <rounds>: {type", 3, 3),
        ("inputs.<rounds>}} --out", 8, 3),
        ("jobs.count.outputs.<table>", 21, 3),
        ("with: {<table>", 8, 2),
        ('"<draw>"', 2, 1),
    ],
)
def test_a_renamed_input_or_output_keeps_its_bindings(
    client: Client, uri: str, part: str, offset: int, changed: int
) -> None:
    client.change(uri, SCRIPT_SPEC)
    position = at(SCRIPT_SPEC, part.replace("<", "").replace(">", ""), offset)
    edit = client.call(
        client.client.text_document_rename_async(types.RenameParams(document(uri), position, "new_one"))
    )
    assert edit is not None
    edits = list((edit.changes or {})[uri])
    renamed = apply(SCRIPT_SPEC, edits)
    assert renamed.count("new_one") == len(edits) == changed
    assert re.sub(r"<\w+>", "new_one", part) in renamed
    client.change(uri, renamed)
    shown = client.diagnostics(uri)
    client.change(uri, SCRIPT_SPEC)
    assert sorted(each.code for each in shown) == sorted(each.code for each in client.diagnostics(uri))


def test_a_name_of_a_component_is_changed_there(client: Client, uri: str) -> None:
    with pytest.raises(JsonRpcException, match=r"`width` is a name of the component `./report.yml`"):
        rename(client, uri, "width: 20", 2, "breadth")
    with pytest.raises(JsonRpcException, match=r"`width` is a name of the component `./report.yml`"):
        prepare(client, uri, "width: 20", 2)


def test_the_outline_has_steps_ports_and_profiles(client: Client, uri: str) -> None:
    client.change(uri, SCRIPT_SPEC + "  broken: [")
    params = types.DocumentSymbolParams(document(uri))
    found = client.call(client.client.text_document_document_symbol_async(params))
    shown = {each.name: each for each in found or () if isinstance(each, types.DocumentSymbol)}
    assert list(shown) == ["compute", "inputs", "steps"]
    steps = shown["steps"].children or []
    assert [each.name for each in steps] == ["shard", "train", "count", "draw", "report", "broken"]
    assert [each.detail for each in steps[:2]] == ["shard_data", "train_ddp"]
    assert [each.name for each in steps[2].children or ()] == ["shards", "rounds", "table"]
    for outer in (shown["steps"], *steps):
        for each in outer.children or ():
            assert outer.range.start.line <= each.range.start.line <= each.range.end.line
            assert each.range.end.line <= outer.range.end.line


def test_references_of_a_step(client: Client, uri: str) -> None:
    params = types.ReferenceParams(
        types.ReferenceContext(include_declaration=True), document(uri), at(SPEC, "  shard:", 3)
    )
    found = client.call(client.client.text_document_references_async(params))
    assert found is not None
    assert [each.range.start.line for each in found] == [8, 20]
