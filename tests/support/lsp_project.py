"""A spec and a component for tests of the language server, and requests about them."""

from __future__ import annotations

from pathlib import Path

from lsp_client import Client
from lsprotocol import types

COMPONENT = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
type: command
name: report
inputs:
  model: {type: mlflow_model, description: What is reported}
  style: {type: string, enum: [plain, wide], default: plain, description: How it looks}
  width: {type: integer, min: 10, max: 200}
outputs:
  page: {type: uri_folder}
command: python report.py --model ${{inputs.model}} --style ${{inputs.style}} --out ${{outputs.page}}
code: .
environment: azureml://registries/azureml/environments/sklearn-1.5/versions/45
"""
SPEC = """\
name: world
description: 世界 😀 in a comment is one thing  # 😀😀
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC48ads_A100_v4, max_instances: 4}
  cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}
inputs:
  rounds: {type: integer, default: 3}
steps:
  shard:
    uses: shard_data
    compute: cpu
    with: {source: "builtin:digits"}
  train:
    uses: train_ddp
    compute: gpu
    instance_count: 2
    with:
      model: cnn
      epochs: ${{parent.inputs.rounds}}
      optimizer: sgd
      shards: ${{parent.jobs.shard.outputs.shards}}
    scale:
      reference: {batch_size: 32, learning_rate: 0.05}
  report:
    uses: ./report.yml
    compute: cpu
    with: {model: "${{parent.jobs.train.outputs.model}}", width: 20}
"""


def write_project(folder: Path) -> Path:
    """A folder with the spec, its component and scripts, and settings."""
    (folder / "worldsize.yml").write_text(
        "compute: {gpu-cluster: {instance_type: Standard_NC48ads_A100_v4}}\n"
    )
    (folder / "report.yml").write_text(COMPONENT)
    (folder / "report.py").write_text("import argparse\n")
    (folder / "code").mkdir()
    for name in ("start.py", "start.sh"):
        (folder / "code" / name).write_text("")
    (folder / "spec.yml").write_text(SPEC, encoding="utf-8")
    return folder


def at(text: str, part: str, offset: int = 0) -> types.Position:
    """The position in UTF-16 units of a place after the first occurrence of a part."""
    index = text.index(part) + offset
    start = text.rfind("\n", 0, index) + 1
    return types.Position(text.count("\n", 0, index), len(text[start:index].encode("utf-16-le")) // 2)


def document(uri: str) -> types.TextDocumentIdentifier:
    return types.TextDocumentIdentifier(uri)


def hover(client: Client, uri: str, part: str, offset: int = 1, text: str = SPEC) -> str:
    params = types.HoverParams(document(uri), at(text, part, offset))
    found = client.call(client.client.text_document_hover_async(params))
    assert found is not None, part
    assert isinstance(found.contents, types.MarkupContent)
    return found.contents.value


def complete(client: Client, uri: str, text: str) -> dict[str, types.CompletionItem]:
    """What is offered at the mark `@`."""
    position = at(text, "@")
    client.change(uri, text.replace("@", "", 1))
    params = types.CompletionParams(document(uri), position)
    found = client.call(client.client.text_document_completion_async(params))
    assert isinstance(found, types.CompletionList)
    return {item.label: item for item in found.items}


def define(client: Client, uri: str, part: str, offset: int = 1, text: str = SPEC) -> tuple[str, int]:
    params = types.DefinitionParams(document(uri), at(text, part, offset))
    found = client.call(client.client.text_document_definition_async(params))
    assert isinstance(found, types.Location), part
    return found.uri.rpartition("/")[2], found.range.start.line


def apply(text: str, edits: list[types.TextEdit]) -> str:
    """Apply edits in UTF-16 units."""
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda each: (-each.range.start.line, -each.range.start.character)):
        assert edit.range.start.line == edit.range.end.line
        line = lines[edit.range.start.line].encode("utf-16-le")
        start, end = edit.range.start.character * 2, edit.range.end.character * 2
        lines[edit.range.start.line] = (
            line[:start].decode("utf-16-le") + edit.new_text + line[end:].decode("utf-16-le")
        )
    return "\n".join(lines)
