from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import case_pages
import pytest
from click.testing import CliRunner

import worldsize
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Problem
from worldsize.base.span import Span
from worldsize.checking.checker import check_files
from worldsize.cli import main
from worldsize.documents.yaml import Document
from worldsize.rules import engine, registry
from worldsize.rules.engine import CONDITIONS
from worldsize.rules.registry import Rule

CLEAN = """\
name: digits
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC64as_T4_v3}
steps:
  train:
    command: python -c "print('hello')"
    environment: azureml:my-training:4
    compute: gpu
"""
TWICE = CLEAN + "  train: {command: echo, environment: 'azureml:e:1', compute: gpu}\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def codes(*paths: str, **options: list[str]) -> list[str]:
    return [diagnostic.code for diagnostic in worldsize.check(paths, **options).diagnostics]  # type: ignore[arg-type]


def test_a_clean_spec_has_no_findings(tree: Path) -> None:
    (tree / "spec.yml").write_text(CLEAN)
    report = worldsize.check("spec.yml")
    assert (report.diagnostics, report.files, report.exit_code) == ((), ("spec.yml",), 0)


def test_folders_pass_over_what_is_not_ours(tree: Path) -> None:
    (tree / "ok.yml").write_text(CLEAN)
    (tree / "workflow.yml").write_text("on: push\njobs: {a: {runs-on: x, steps: [{run: echo}]}}\n")
    (tree / "devops.yml").write_text("steps:\n- script: echo\n")
    (tree / "chart.yaml").write_text("{{ if .Values.x }}\na: b: c\n")
    (tree / "empty.yml").write_text("")
    (tree / "notes.txt").write_text(TWICE)
    for folder in (".git", ".venv", "node_modules", ".worldsize"):
        (tree / folder).mkdir()
        (tree / folder / "bad.yml").write_text(TWICE)
    assert worldsize.check(".").files == ("ok.yml",)


def test_broken_files_in_folders_are_reported_where_they_are_ours(tree: Path) -> None:
    (tree / "job.yml").write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\na: b: c\n"
    )
    assert codes(".") == ["WS001"]


BROKEN = {
    "pipeline by its type": ("a.yml", "type: pipeline\njobs:\n  a:\n    command: echo: x: y\n", True),
    "pipeline by its jobs": ("a.yml", "jobs:\n  a:\n    command: a: b\n    environment: e\n", True),
    "jobs in one line": ("a.yml", "jobs:\n  a: {type: command, command: a: b}\n  b: c: d\n", True),
    "command": ("a.yml", "type: command\ncommand: a: b\n", True),
    "data": ("a.yml", "inputs:\n  d: {type: uri_folder}\nx: a: b\n", True),
    "spec": ("a.yml", "steps:\n  train:\n    uses: train_ddp\n    with: a: b\n", True),
    "job by its name": ("train_job.yml", "command: a: b\ncode: .\n", True),
    "component by its name": ("component.yml", "inputs:\n  a: b: c\n", True),
    "nothing": ("a.yml", "command: a: b\n", False),
    "only a name": ("pipeline.yml", "a: b: c\n", False),
    "GitHub": (
        "pipeline.yml",
        "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n    - name: a: b\n      uses: c/d@v1\n",
        False,
    ),
    "GitHub action": ("a.yml", "inputs: {a: b}\nruns:\n  steps:\n  - name: a: b\n    uses: c/d@v1\n", False),
    "Compose": ("docker-compose.yml", "services:\n  a:\n    command: a: b\n    environment: [c]\n", False),
    "Kubernetes": ("job.yml", "apiVersion: batch/v1\nkind: Job\nspec: a: b\ncommand: c\n", False),
    "CircleCI": ("a.yml", "jobs:\n  a:\n    environment: b\n    steps:\n    - run: c: d\n", False),
    "GitLab": ("job.yml", "environment: a\nb:\n  script: c: d\n", False),
    "Concourse": ("pipeline.yml", "jobs:\n- name: a: b\n  plan: []\n", False),
    "Buildkite": ("pipeline.yml", "steps:\n  - command: a: b\n    environment: c\n", False),
    "Kubeflow": ("component.yaml", "inputs:\n- {name: a}\nimplementation: b: c\n", False),
    "Helm": ("job.yaml", "{{ if .Values.x }}\ncommand: a\nenvironment: b\n", False),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_parsed_is_told_by_its_signs(tree: Path, name: str) -> None:
    file, text, ours = BROKEN[name]
    (tree / file).write_text(text)
    assert codes(".") == ["WS001"] * ours


def test_files_of_one_call_are_sorted_and_checked_once(tree: Path) -> None:
    (tree / "b").mkdir()
    for name in ("b/x.yml", "a.yml", "c.yaml"):
        (tree / name).write_text(TWICE)
    report = worldsize.check(["c.yaml", ".", "b", "./a.yml"])
    assert report.files == ("a.yml", "b/x.yml", "c.yaml")
    assert [diagnostic.span.path for diagnostic in report.diagnostics] == ["a.yml", "b/x.yml", "c.yaml"]


def test_linked_folders_do_not_loop(tree: Path) -> None:
    (tree / "a.yml").write_text(CLEAN)
    (tree / "loop").symlink_to(tree)
    assert worldsize.check(".").files == ("a.yml",)


def test_select_and_ignore_take_codes_families_and_slugs(tree: Path) -> None:
    (tree / "spec.yml").write_text(TWICE.replace("name:", "nmae:"))
    both = set(codes("spec.yml"))
    assert {"WS002", "WS101"} <= both
    assert codes("spec.yml", select=["WS002"]) == ["WS002"]
    assert codes("spec.yml", select=["ws0"]) == ["WS002"]
    assert "WS002" not in codes("spec.yml", ignore=["yaml-duplicate-key"])
    with pytest.raises(ValueError, match="yaml-duplicate-key"):
        codes("spec.yml", select=["yaml-duplicate-keys"])


def test_suppression_on_the_line_and_on_the_line_above(tree: Path) -> None:
    lines = TWICE.splitlines()
    (tree / "same.yml").write_text("\n".join([*lines[:-1], lines[-1] + " # worldsize: ignore[WS002] meant"]))
    (tree / "above.yml").write_text(
        "\n".join([*lines[:-1], "  # worldsize: ignore[yaml-duplicate-key]", "  # meant", lines[-1]])
    )
    (tree / "other.yml").write_text("\n".join([*lines[:-1], lines[-1] + " # worldsize: ignore[WS001]"]))
    assert codes("same.yml") == []
    assert codes("above.yml") == []
    assert codes("other.yml") == ["WS002", "WS011"]
    assert codes("other.yml", ignore=["WS001"]) == ["WS002"]


def test_a_part_of_a_checkout_does_not_tell_that_a_suppression_is_unused(tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / "jobs").mkdir()
    comments = "  # worldsize: ignore[WS203]\n  # worldsize: ignore[WS101]\n"
    lines = CLEAN.splitlines(keepends=True)
    (tree / "jobs" / "spec.yml").write_text("".join([*lines[:-1], comments, lines[-1]]))
    assert codes("jobs") == ["WS011"]  # the VM size of a cluster may be outside of the folder
    assert codes(".") == ["WS011", "WS011"]


def test_data_of_the_workspace_is_read_where_the_project_maps_it(tree: Path) -> None:
    (tree / "data").mkdir()
    (tree / "data" / "rows.csv").write_text("a,churned\n1,yes\n2,no\n" * 20)
    (tree / "worldsize.yml").write_text("assets: {azureml:rows@latest: ./data/rows.csv}\n")
    (tree / "spec.yml").write_text(
        "name: rows\ncompute:\n  cpu: {target: azureml:c, instance_type: Standard_D16s_v5}\n"
        "steps:\n  shard:\n    uses: shard_data\n    compute: cpu\n"
        "    with: {data: {path: 'azureml:rows@latest', type: uri_file}, label: churn}\n"
    )
    (found,) = [each for each in worldsize.check("spec.yml").diagnostics if each.code == "WS532"]
    assert found.help is not None
    assert "churned" in found.help


def test_a_file_given_up_early_has_no_unused_suppressions(tree: Path) -> None:
    (tree / "spec.yml").write_text(CLEAN.replace("name:", "nmae:") + "# worldsize: ignore[WS002]\n")
    assert "WS011" not in codes("spec.yml")


@pytest.fixture
def broken_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that raises, in the place of an ordinary one."""
    rule = Rule("WS005", "yaml-empty", "error", "raises", on=("Document",))

    def check_document(context: Tree, document: Document) -> Iterator[Finding]:
        raise KeyError("oh")
        yield

    monkeypatch.setattr(registry, "list_rules_on", lambda _types: [rule])
    monkeypatch.setattr(registry, "load_checks", lambda _rule: [("Document", check_document)])


def test_two_threads_may_need_a_rule_for_the_first_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_checks.py").write_text("import time\ntime.sleep(0.2)\ndef check_document(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(Rule, "module", "slow_checks")
    rule = Rule("WS005", "yaml-empty", "error", "is slow to import", on=("Document",))
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(registry.load_checks, rule)
        while "slow_checks" not in sys.modules:
            time.sleep(0.001)
        assert registry.load_checks(rule) == first.result()


@pytest.mark.usefixtures("broken_rule")
def test_a_crashing_rule_is_named_and_stops_nobody(tree: Path) -> None:
    (tree / "spec.yml").write_text("# worldsize: ignore[internal-error]\n" + TWICE)
    report = worldsize.check("spec.yml", select=["WS005"])
    assert [diagnostic.code for diagnostic in report.diagnostics] == ["WS000"]
    assert "rule `WS005 yaml-empty`" in report.diagnostics[0].message
    assert "KeyError: 'oh'" in report.diagnostics[0].message
    assert report.exit_code == 3
    assert {"WS000", "WS002"} <= set(codes("spec.yml"))


def test_an_unregistered_slug_is_a_fault_of_ours(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "spec.yml").write_text(CLEAN)
    monkeypatch.setattr(
        "worldsize.resolving.resolve.from_document",
        lambda document: (None, [Problem("no-such-slug", document.root.span, "odd")]),
    )
    report = worldsize.check("spec.yml")
    assert report.exit_code == 3
    assert "`no-such-slug` (odd)" in report.diagnostics[0].message


def test_a_crashing_layer_is_reported_and_the_other_files_are_checked(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "a.yml").write_text(CLEAN)
    (tree / "b.yml").write_text("stages: 1\n")

    def crash(document: object) -> None:
        raise RuntimeError("line\nbreak" + "x" * 500)

    monkeypatch.setattr("worldsize.resolving.resolve.from_document", crash)
    assert codes("a.yml", "b.yml") == ["WS000", "WS009"]


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.output


def test_exit_statuses(tree: Path) -> None:
    (tree / "ok.yml").write_text(CLEAN)
    (tree / "bad.yml").write_text(TWICE)
    (tree / "other.yml").write_text("a: 1\n")
    assert invoke("check", "ok.yml")[0] == 0
    assert invoke("check", "bad.yml")[0] == 1
    assert invoke("check", "other.yml")[0] == 0
    assert invoke("check", "none.yml")[0] == 2
    assert invoke("check", "ok.yml", "--select", "WS999")[0] == 2
    assert invoke("check", "bad.yml", "--ignore", "WS002,WS1")[0] == 0


def test_paths_are_relative_to_the_working_folder(tree: Path) -> None:
    (tree / "sub").mkdir()
    (tree / "sub" / "bad.yml").write_text(TWICE)
    for path in ("sub", str(tree / "sub" / "bad.yml")):
        _, output = invoke("check", path)
        assert output.startswith("sub/bad.yml:9:3: error[WS002]")


@pytest.mark.parametrize("format_", ["json", "sarif", "github", "junit"])
def test_formats_of_the_command(tree: Path, format_: str) -> None:
    (tree / "bad.yml").write_text(TWICE)
    status, output = invoke("check", "bad.yml", "--format", format_)
    assert status == 1
    assert "WS002" in output
    assert "\x1b" not in output


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_output_is_the_same_for_every_hash_seed(tree: Path) -> None:
    more_than_listed = "".join(f"  s{number}: {{uses: 1}}\n" for number in range(300))
    (tree / "bad.yml").write_text(TWICE.replace("name:", "nmae:") + more_than_listed)
    outputs = {
        subprocess.run(
            [sys.executable, "-m", "worldsize", "check", "bad.yml"],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            timeout=60,
            check=False,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1
    assert b"WS002" in outputs.pop()


def test_explain_prints_pages_by_code_and_slug(tree: Path) -> None:
    by_code, by_slug = invoke("explain", "ws002"), invoke("explain", "yaml-duplicate-key")
    assert by_code == by_slug
    assert by_code[0] == 0
    assert "Why: " in by_code[1]
    status, family = invoke("explain", "ws5")
    assert status == 0
    assert family.startswith("WS5: data")
    assert {line.split()[0][:3] for line in family.splitlines()[1:]} == {"WS5"}
    status, table = invoke("explain")
    assert status == 0
    assert [line.split()[0] for line in table.splitlines() if line.startswith("  WS")] == [
        rule.code for _, rules in registry.families() for rule in rules
    ]
    assert table.startswith("WS0: ")
    status, message = invoke("explain", "yaml-duplicate-keys")
    assert status == 2
    assert "did you mean `yaml-duplicate-key`?" in message


def test_explain_writes_the_pages(tree: Path) -> None:
    assert invoke("explain", "--write", "pages")[0] == 0
    written = {str(path.relative_to(tree / "pages")) for path in (tree / "pages").rglob("*.md")}
    assert written == {rule.page for rule in registry.rules()} | {"README.md"}
    linked = re.findall(r"\]\((.*?)\)", (tree / "pages" / "README.md").read_text())
    assert linked == [rule.page for rule in registry.rules()]


ROOT = Path(__file__).parents[2]


def test_rules_that_are_not_loaded_would_find_nothing(
    written: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [path for path in sorted((ROOT / "pipelines").rglob("*.yml")) if "\nsteps:" in path.read_text()]
    for page in case_pages.read_all(ROOT / "tests" / "rules"):
        found = [file.path for file in page.files if file.path.endswith(".yml") and "\nsteps:" in file.text]
        specs += [written(page.path) / path for path in found]
    conditional = [rule for rule in registry.rules() if rule.when is not None]
    conditions = dict(CONDITIONS)
    for name in CONDITIONS:
        monkeypatch.setitem(CONDITIONS, name, lambda *_: True)
    left_out = 0
    for run in check_files(specs)[1]:
        by_file: dict[str, dict[str, list[tuple[Any, Span]]]] = {}
        for name, fed in run.subjects.items():
            for subject, span in fed:
                by_file.setdefault(span.path, {}).setdefault(name, []).append((subject, span))
        for path, subjects in by_file.items():
            unmet = {name for name, condition in conditions.items() if not condition(run.context, subjects)}
            rules = [rule for rule in conditional if rule.when in unmet]
            monkeypatch.setattr(registry, "list_rules_on", lambda _types, rules=rules: rules)
            assert not list(engine.run(run.context, subjects)), path
            left_out += len(rules)
    assert left_out > 1000


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_a_right_spec_loads_no_rules_for_scripts_and_native_jobs() -> None:
    code = "import sys, worldsize; worldsize.check('pipelines/digits_ddp.yml'); print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    loaded = result.stdout.split()
    late = {
        "click",
        "pathspec",
        "rich",
        "ruamel.yaml",
        "worldsize.rules.graph.graph_cycle",
    }
    assert not late & set(loaded)
    assert not [name for name in loaded if name.startswith("worldsize.rules.script.")]


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_a_native_pipeline_without_ignore_files_loads_no_reader_of_patterns(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(
        "type: pipeline\njobs:\n  a: {type: command, command: ls, environment: azureml:e@latest}\n"
    )
    code = (
        "import os, sys\nos._exit = lambda _: sys.exit(print(*sys.modules))\n"
        "sys.argv[1:] = ['check', 'pipeline.yml']\n"
        "from worldsize.__main__ import main\nmain()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert "worldsize.azureml.ignore" in result.stdout
    assert not {"inspect", "pathspec", "typing_extensions"} & set(result.stdout.split())


@pytest.mark.parametrize("name", ["a" * 300, "漢" * 100, "a/" * 3000, "f" * 200 + "/" + "ä" * 128])
def test_names_that_no_file_can_have_are_missing_files(tree: Path, name: str) -> None:
    job = f"type: command\ncommand: echo\nenvironment: {{image: x:1, conda_file: {name}}}\ncode: {name}\n"
    (tree / "job.yml").write_text(job)
    assert codes("job.yml", ignore=["WS8"]) == ["WS507", "WS502"]
    (tree / "pipeline.yml").write_text(
        f"type: pipeline\njobs: {{a: {{type: command, component: ./{name}}}}}\n"
    )
    assert "WS602" in codes("pipeline.yml")
    (tree / "spec.yml").write_text(CLEAN.replace("command: python", f"code: {name}\n    command: python"))
    assert "WS502" in codes("spec.yml")
    assert codes(".", select=["WS000"]) == []
    missing = [each.message for each in worldsize.check(".", select=["WS502", "WS507", "WS602"]).diagnostics]
    assert len(missing) == 4
    assert all(message.endswith("exist") and len(message) <= 200 for message in missing)


def test_the_components_of_a_job_are_checked_with_it_and_what_they_use(tree: Path) -> None:
    (tree / "job.yml").write_text(
        "type: pipeline\nsettings: {default_compute: azureml:c}\njobs:\n"
        "  a: {type: command, component: ./leaf.yml}\n  b: {type: command, component: ./leaf.yml}\n"
        "  c: {type: pipeline, component: ./inner.yml}\n  d: {type: command, component: ./flow.yml}\n"
    )
    (tree / "inner.yml").write_text(
        "type: pipeline\nname: inner\ndescripton: a\njobs: {d: {type: command, component: ./deep.yml}}\n"
    )
    (tree / "leaf.yml").write_text(
        "name: leaf\ncomand: echo\nenvironment: azureml:e:1\n"
    )  # of no kind by itself
    (tree / "deep.yml").write_text("type: command\nname: deep\ncommand: a: b\n")
    (tree / "flow.yml").write_text("nodes: []\nnothing: of ours\n")
    report = worldsize.check("job.yml")
    assert [(each.span.path, each.span.line, each.code) for each in report.diagnostics] == [
        ("deep.yml", 3, "WS001"),
        ("inner.yml", 3, "WS140"),
        ("leaf.yml", 2, "WS140"),
    ]
    assert report.files == ("inner.yml", "job.yml", "leaf.yml")


def test_a_component_is_no_job_without_a_compute(tree: Path) -> None:
    (tree / "job.yml").write_text(
        "type: pipeline\nsettings: {default_compute: azureml:c}\n"
        "jobs: {a: {type: command, component: ./c.yml}}\n"
    )
    (tree / "c.yml").write_text("type: command\nname: c\ncommand: echo\nenvironment: azureml:e:1\n")
    assert codes("job.yml") == []
