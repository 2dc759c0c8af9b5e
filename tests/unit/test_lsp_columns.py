"""The editor completes the columns of the table that a step reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsp_project import document
from lsprotocol import types

from worldsize.lsp.buffers import Session
from worldsize.lsp.completion import complete

SPEC = """\
name: rows
compute:
  cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}
steps:
  shard:
    uses: shard_data
    compute: cpu
    with:
      data: {type: uri_file, path: ./rows.csv}
      label: kind
"""
ROWS = 'age,income,kind,"a, b", blank\n' + "".join(f"{n},{n * 2},{'ab'[n % 2]},1,2\n" for n in range(30))


def offer(folder: Path, line: str, spec: str = SPEC) -> list[str]:
    """What is offered at the end of a line that takes the place of the label's, in a spec that was whole."""
    session, uri = Session(), (folder / "spec.yml").as_uri()
    buffer = session.buffers.open(uri, spec, 0)
    assert buffer is not None
    session.analyse(buffer)
    text = spec.replace("label: kind", line)
    session.buffers.change(uri, [types.TextDocumentContentChangeWholeDocument(text)], 1)
    at = session.buffers.positions.to_position(buffer.source, text.index(line) + len(line))
    found = complete(session, buffer, types.CompletionParams(document(uri), at))
    return [] if found is None else [each.label for each in found.items if each.detail == "column"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text(ROWS)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("label: ", ["age", "income", "kind"]),
        ("split_by: i", ["age", "income", "kind"]),
        ("features: age,", ["age,income", "age,kind"]),
        ("missing: ", []),
    ],
)
def test_columns_are_offered_where_one_is_named(folder: Path, line: str, offered: list[str]) -> None:
    assert offer(folder, line) == offered


@pytest.mark.parametrize(
    "spec",
    [
        SPEC.replace("./rows.csv", "./none.csv"),
        SPEC.replace("./rows.csv", "../rows.csv"),  # outside of the project
        SPEC.replace("./rows.csv", "azureml:rows:1"),
        SPEC.replace("shard_data", "./mine.yml"),
    ],
)
def test_other_data_offers_nothing(folder: Path, spec: str) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / "worldsize.yml").write_text("exclude: [x]\n")
    assert offer(inner, "label: ", spec) == []


def test_a_table_that_changed_is_read_again(folder: Path) -> None:
    assert offer(folder, "label: ") == ["age", "income", "kind"]
    (folder / "rows.csv").write_text(ROWS.replace("income", "wealth and more"))
    assert offer(folder, "label: ") == ["age", "wealth and more", "kind"]
    (folder / "rows.csv").write_bytes(b"\0\xff\0")
    assert offer(folder, "label: ") == []
