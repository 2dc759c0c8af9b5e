"""`worldsize lsp` with a real client: every feature, and what must not end the server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lsp_client import Client
from lsp_project import COMPONENT, SPEC, apply, complete, define, document, hover, write_project
from lsprotocol import types

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


def test_diagnostics_are_those_of_check(client: Client, folder: Path, uri: str) -> None:
    client.diagnostics(uri)
    faulty = SPEC.replace("width: 20", "width: 2000").replace("model: cnn", "modle: cnn")
    client.change(uri, faulty)
    shown = list(client.diagnostics(uri))
    client.wait_until(lambda: (folder / "report.yml").as_uri() in client.published)
    command = [
        sys.executable,
        "-m",
        "worldsize",
        "check",
        "-",
        "--stdin-filename",
        "spec.yml",
        "--json",
        "--min-severity",
        "info",  # an editor shows notes too
    ]
    result = subprocess.run(
        command, cwd=folder, input=faulty, capture_output=True, text=True, timeout=60, check=False
    )
    expected = json.loads(result.stdout)["diagnostics"]
    shown += client.published[(folder / "report.yml").as_uri()].diagnostics
    assert len(shown) == len(expected) > 1
    assert {each.code for each in shown} == {each["code"] for each in expected}
    links = [each.code_description.href for each in shown if each.code_description is not None]
    assert len(links) == len(shown)
    assert all(link.endswith(".md") for link in links)


def test_positions_count_utf16_units(client: Client, uri: str) -> None:
    text = SPEC.replace("with: {model:", 'with: {style: "世😀", wdith: 3, model:')
    client.change(uri, text)
    line = next(number for number, each in enumerate(text.split("\n")) if "wdith" in each)
    shown = [each for each in client.diagnostics(uri) if "`wdith`" in each.message]
    start = len('    with: {style: "世😀", ') + 1
    assert shown[0].range == types.Range(types.Position(line, start), types.Position(line, start + 5))


def test_incremental_edits_beside_characters_of_two_units(client: Client, uri: str) -> None:
    clean = len(client.diagnostics(uri))
    line = SPEC.split("\n")[1]
    end = len(line.encode("utf-16-le")) // 2
    here = types.Position(1, end)
    insert = types.TextDocumentContentChangePartial(types.Range(here, here), "\ncomptue: 1\u2028\x0b")
    client.change(uri, insert)
    assert any("comptue" in each.message or each.code == "WS004" for each in client.diagnostics(uri))
    remove = types.TextDocumentContentChangePartial(types.Range(here, types.Position(2, 12)), "")
    client.change(uri, remove)
    assert len(client.diagnostics(uri)) == clean


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("Standard_NC48ads", "2 × NVIDIA A100"),
        ("compute: gpu", "Standard_NC48ads_A100_v4"),
        ("train:", "world size"),
        ("train_ddp", "PyTorch DDP"),
        ("instance_count", "Instances the step runs on"),
        ("optimizer:", "default"),
        ("scale:", "scale"),
        ("width: 20", "at most 200"),
        ("${{parent.jobs.train", "output of `train`"),
        ("${{parent.inputs.rounds", "rounds"),
        ("max_instances", "max_instances"),
    ],
)
def test_hover(client: Client, uri: str, part: str, expected: str) -> None:
    offset = len(part) - 1 if part.startswith("compute") else 1
    assert expected in hover(client, uri, part, offset)


def test_hover_lists_the_words_of_a_key_only_where_it_takes_no_others(client: Client, uri: str) -> None:
    text = SPEC.replace("model: cnn", "modle: cnn")
    client.change(uri, text)
    assert "One of" not in hover(client, uri, "modle", text=text)


@pytest.mark.parametrize(
    ("cron", "expected"),
    [('"30 4 * * 1"', "- Mon "), ('"30 4 * *"', "Five fields"), ('"30 4 * * 1"  # weekly', " 04:30")],
)
def test_hover_on_a_schedule_shows_when_it_fires_next(
    client: Client, uri: str, cron: str, expected: str
) -> None:
    text = f"{SPEC}schedule:\n  cron: {cron}\n  time_zone: UTC\n"
    client.change(uri, text)
    assert expected in hover(client, uri, "30 4", text=text)
    assert "more." in hover(client, uri, "time_zone", text=text)


def test_hover_shows_prices_with_region_and_date(client: Client, uri: str) -> None:
    text = hover(client, uri, "Standard_D16s_v5")
    assert "16 vCPUs" in text
    assert "USD an hour in eastus (20" in text


def test_hover_shows_the_arithmetic_of_the_plan_also_while_the_text_is_broken(
    client: Client, uri: str
) -> None:
    text = SPEC.replace(
        "    instance_count: 2\n", "    instance_count: 2\n    command: echo ${{plan.world_size}}\n"
    )
    text = text.replace("    uses: train_ddp\n", "").replace("    with:\n      model: cnn\n", "    with:\n")
    shown = " ".join(hover(client, uri, "train:").split())
    assert "| world size | 4 | = 2 instances × 2 GPUs |" in shown
    client.change(uri, text)
    assert "2 instances × 2 GPUs" in hover(client, uri, "${{plan.world", text=text)
    client.change(uri, SPEC + "  : [")
    assert "Standard_NC48ads_A100_v4" in hover(client, uri, "Standard_NC48ads")


def test_hover_on_a_suppression_shows_the_rule(client: Client, uri: str) -> None:
    text = SPEC + "# worldsize: ignore[WS225, WS203] a reason\n"
    client.change(uri, text)
    assert "processes-exceed-gpus" in hover(client, uri, "WS203", text=text)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("      model: cnn\n", "      model: cnn\n      @\n", {"batch_size_per_device", "precision"}),
        ("      model: cnn\n", "      model: cnn\n      prec@", {"precision"}),
        ("width: 20}", "st@}", {"style", "width"}),
        ("width: 20}", "style: @}", {"plain", "wide"}),
        ("width: 20}", "style: pl@", {"plain", "wide"}),
        ("width: 20}", 'width: "${{@', {"parent.inputs.rounds", "plan.world_size"}),
        ("${{parent.jobs.shard.outputs.shards}}", "${{parent.jobs.@", {"parent.jobs.shard.outputs.shards"}),
        ("${{parent.jobs.shard.outputs.shards}}", "@", {"${{parent.jobs.shard.outputs.shards}}"}),
        ("instance_type: Standard_D16s_v5}", "instance_type: St@}", {"Standard_ND96isr_H100_v5"}),
        ("instance_type: Standard_D16s_v5}", "instance_type: @", {"Standard_ND96isr_H100_v5"}),
        ("    compute: gpu\n", "    compute: @\n", {"gpu", "cpu"}),
        ("    uses: train_ddp\n", "    uses: tr@\n", {"train_ddp", "train_horovod"}),
        ("    instance_count: 2\n", "    in@\n", {"instance_count", "process_count_per_instance"}),
        ("    scale:\n", "    scale:\n      rule: @\n", {"auto", "linear", "sqrt", "none"}),
        ("    scale:\n", "    scale:\n      w@\n", {"warmup_epochs", "rule"}),
        ("max_instances: 4}", "max_instances: 4, tier: @}", {"low_priority", "dedicated"}),
        ("max_instances: 4}", "max_instances: 4}  # worldsize: ignore[WS2@", {"WS203", "WS225"}),
        ("name: world\n", "name: world\nset@\n", {"settings", "schedule"}),
        ("    uses: train_ddp\n", "    uses: train_ddp\n   in@\n", {"environment_variables"}),
        ("    uses: train_ddp\n", "    uses: train_ddp\n     in@\n", {"environment_variables"}),
        ("    uses: train_ddp\n", "    uses: train_ddp\n\tin@\n", {"environment_variables"}),
        ("    uses: train_ddp\n", "\tuses: train_ddp\n\tin@\n", {"environment_variables"}),
        ("    uses: train_ddp\n", "    uses:\t@\n", {"train_ddp"}),
        ("      model: cnn\n", "      model: cnn\n       prec@\n", {"precision"}),
        ("      model: cnn\n", "      model\n      prec@\n", {"precision"}),
        ("uses: ./report.yml", "uses: ./@", {"./report.yml", "./code/"}),
        ("uses: ./report.yml", "code: @", {"./code"}),
        ("uses: ./report.yml", "command: python @\n    code: .", {"report.py", "code/"}),
        ("uses: ./report.yml", "command: python code/s@\n    code: .", {"code/start.py"}),
        ("uses: ./report.yml", "command: >\n      bash @\n    code: ./code", {"start.sh", "start.py"}),
        (
            "uses: ./report.yml",
            "environment: azureml:@",
            {"azureml://registries/azureml/environments/sklearn-1.5/versions/"},
        ),
    ],
)
def test_completion_while_typing(client: Client, uri: str, old: str, new: str, expected: set[str]) -> None:
    assert old in SPEC
    items = complete(client, uri, SPEC.replace(old, new, 1))
    assert expected <= items.keys(), sorted(items)
    assert all(isinstance(item.text_edit, types.TextEdit) for item in items.values())


def test_neither_settings_nor_the_document_are_completed_as_components(client: Client, uri: str) -> None:
    items = complete(client, uri, SPEC.replace("uses: ./report.yml", "uses: ./@"))
    assert items.keys().isdisjoint({"./worldsize.yml", "./spec.yml"})


def test_a_completed_input_has_its_type_default_and_description(client: Client, uri: str) -> None:
    item = complete(client, uri, SPEC.replace("width: 20}", "@}"))["style"]
    assert item.detail == "string = plain"
    assert isinstance(item.documentation, types.MarkupContent)
    assert "How it looks" in item.documentation.value
    assert isinstance(item.text_edit, types.TextEdit)
    assert item.text_edit.new_text == "style: "


def test_a_completed_binding_is_closed_and_checks_clean(client: Client, uri: str) -> None:
    text = SPEC.replace("${{parent.jobs.shard.outputs.shards}}", "${{parent.jobs.@")
    item = complete(client, uri, text)["parent.jobs.shard.outputs.shards"]
    assert isinstance(item.text_edit, types.TextEdit)
    assert apply(text.replace("@", ""), [item.text_edit]) == SPEC


@pytest.mark.parametrize(
    ("part", "offset", "expected"),
    [
        ("uses: ./report.yml", 9, ("report.yml", 0)),
        ("uses: train_ddp", 8, ("component.yml", 0)),
        ("compute: gpu", 10, ("spec.yml", 3)),
        ("azureml:gpu-cluster", 12, ("worldsize.yml", 0)),
        ("width: 20", 2, ("report.yml", 6)),
        ("${{parent.jobs.shard", 16, ("spec.yml", 8)),
        ("${{parent.inputs.rounds", 20, ("spec.yml", 6)),
        ("jobs.train.outputs.model", 20, ("component.yml", None)),
    ],
)
def test_definition(
    client: Client, uri: str, part: str, offset: int, expected: tuple[str, int | None]
) -> None:
    file, line = define(client, uri, part, offset)
    assert file == expected[0]
    assert expected[1] is None or line == expected[1]


def test_definition_of_a_script_and_a_port_in_a_component(client: Client, folder: Path) -> None:
    uri = client.open(folder / "report.yml")
    assert define(client, uri, "report.py", 3, COMPONENT) == ("report.py", 0)
    assert define(client, uri, "inputs.style", 8, COMPONENT) == ("report.yml", 5)
    client.close(uri)


def test_definition_of_what_a_file_of_the_project_declares(client: Client, folder: Path) -> None:
    job = "type: command\ncommand: ls\nenvironment: azureml:sklearn:2\ncompute: azureml:small\n"
    for version in (1, 2):
        text = f"version: {version}\nname: sklearn\nimage: python:3.11\nconda_file: conda.yml\n"
        (folder / f"sklearn-{version}.yml").write_text(text)
    (folder / "small.yml").write_text("type: amlcompute\nname: small\nsize: Standard_DS3_v2\n")
    (folder / "job.yml").write_text(job)
    uri = client.open(folder / "job.yml")
    assert define(client, uri, "azureml:sklearn", 10, job) == ("sklearn-2.yml", 1)
    assert define(client, uri, "azureml:small", 10, job) == ("small.yml", 1)
    client.close(uri)
    for name in ("sklearn-1.yml", "sklearn-2.yml", "small.yml", "job.yml"):
        (folder / name).unlink()


def test_a_fix_is_an_action_and_a_suppression_another(client: Client, uri: str) -> None:
    text = SPEC.replace("width: 20", "widht: 20")
    client.change(uri, text)
    shown = next(each for each in client.diagnostics(uri) if "`widht`" in each.message)
    params = types.CodeActionParams(document(uri), shown.range, types.CodeActionContext([shown]))
    found = client.call(client.client.text_document_code_action_async(params))
    actions = [each for each in found or () if isinstance(each, types.CodeAction)]
    results = [apply(text, list((each.edit.changes or {})[uri])) for each in actions if each.edit is not None]
    assert SPEC in results
    assert any(f"# worldsize: ignore[{shown.code}]" in each for each in results)


def test_related_places_and_open_components_count(client: Client, folder: Path, uri: str) -> None:
    """A component that is being edited, and not saved, is what the spec is checked against."""
    clean = client.diagnostics(uri)
    component = client.open(folder / "report.yml", COMPONENT.replace("  width: {", "  breadth: {"))
    client.wait_until(lambda: len(client.published[uri].diagnostics) != len(clean))
    assert any(
        "breadth" in each.message or "width" in each.message for each in client.published[uri].diagnostics
    )
    client.close(component)
    client.wait_until(lambda: len(client.published[uri].diagnostics) == len(clean))


def test_a_script_gets_the_diagnostics_of_the_spec_that_uses_it(
    client: Client, folder: Path, written: Callable[[Path], Path]
) -> None:
    cases = written(Path(__file__).parents[1] / "rules" / "WS901-no-process-group.md")
    project = folder / "scripts"
    shutil.copytree(cases / "bad", project)
    job = project / "job.yml"
    uri = client.open(job)
    client.diagnostics(uri)
    report = worldsize.check(job)
    scripts = {each.span.path for each in report.diagnostics if each.span.path.endswith(".py")}
    assert scripts
    places = [Path(script).absolute().as_uri() for script in scripts]
    client.wait_until(lambda: all(each in client.published for each in places))  # the job's come first
    assert all(client.published[each].diagnostics for each in places)
    client.close(uri)
    client.wait_until(lambda: not client.published[Path(next(iter(scripts))).absolute().as_uri()].diagnostics)


@pytest.mark.parametrize(
    "text",
    [
        "", "\x00", "{", "- [", "a: b: c", "steps:\n" * 50, "\ufeff" + SPEC, "&a [*a]",
        SPEC.replace("\n", "\r\n"),
        "apiVersion: v1\nkind: Pod\n", "${{", "#" * 5000, "\t- x", "? a\n: b", "😀" * 300, SPEC[:400],
    ],
)  # fmt: skip
def test_garbage_ends_nothing(client: Client, folder: Path, text: str) -> None:
    uri = client.open(folder / "garbage.yml", text)
    client.diagnostics(uri)
    position = types.Position(0, min(len(text), 3))
    client.call(client.client.text_document_hover_async(types.HoverParams(document(uri), position)))
    client.call(client.client.text_document_completion_async(types.CompletionParams(document(uri), position)))
    client.call(client.client.text_document_definition_async(types.DefinitionParams(document(uri), position)))
    client.close(uri)
    assert not client.logged


def test_foreign_files_get_nothing(client: Client, folder: Path) -> None:
    uri = client.open(folder / "deployment.yml", "apiVersion: v1\nkind: Pod\nspec: {containers: [}\n")
    assert client.diagnostics(uri) == []
    client.close(uri)


def test_a_deleted_file(client: Client, folder: Path) -> None:
    path = folder / "gone.yml"
    path.write_text(SPEC, encoding="utf-8")
    uri = client.open(path)
    path.unlink()
    client.change(uri, SPEC.replace("model: cnn", "modle: cnn"))
    assert any("modle" in each.message for each in client.diagnostics(uri))
    client.close(uri)


@pytest.mark.parametrize("name", ["untitled:Untitled-1", "untitled:{}/new%20%C3%BC.yml"])
def test_a_document_that_is_not_saved_yet_is_checked(client: Client, folder: Path, name: str) -> None:
    """Components are looked for in the working folder, or beside the file that it will be."""
    uri = name.format(folder)
    item = types.TextDocumentItem(uri, "yaml", 1, SPEC.replace("width: 20", "wdith: 20"))
    client.versions[uri] = 1
    client.do(client.client.text_document_did_open, types.DidOpenTextDocumentParams(item))
    assert any("`./report.yml` has no input `wdith`" in each.message for each in client.diagnostics(uri))
    client.close(uri)


def test_an_unsaved_document_in_another_language_is_none_of_ours(client: Client) -> None:
    item = types.TextDocumentItem("untitled:Untitled-2", "python", 1, SPEC)
    client.do(client.client.text_document_did_open, types.DidOpenTextDocumentParams(item))
    params = types.HoverParams(document("untitled:Untitled-2"), types.Position(3, 50))
    assert client.call(client.client.text_document_hover_async(params)) is None


def test_keys_that_follow_each_other_are_checked_once(client: Client, uri: str) -> None:
    client.diagnostics(uri)
    before = client.counts[uri]
    for number in range(40):
        client.change(uri, SPEC + "#" * number)
    client.diagnostics(uri)
    assert client.counts[uri] - before < 20
