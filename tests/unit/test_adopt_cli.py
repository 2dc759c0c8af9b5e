"""`worldsize adopt` without the proof: what it shows, writes and refuses."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from worldsize import checking
from worldsize.cli.main import main

SCRIPTS = Path(__file__).parents[1] / "adopt" / "scripts"
SCRIPT = "argparse_digits.py"


def adopt(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["adopt", *arguments])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / SCRIPT).write_bytes((SCRIPTS / SCRIPT).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_shows_the_diff_the_spec_and_the_plan_and_writes_nothing(folder: Path) -> None:
    before = (folder / SCRIPT).read_bytes()

    done = adopt(SCRIPT, "--no-run")

    assert done.exit_code == 0, done.output
    assert f"--- a/{SCRIPT}\n+++ b/{SCRIPT}\n" in done.output
    assert "# WS903: " in done.output
    assert "+    ddp_model = DistributedDataParallel(model)\n" in done.output
    assert "--batch-size ${{plan.batch_size_per_device}}" in done.output
    assert "world size                      4 = 1 instance × 4 GPUs" in done.output
    assert "not proven: `--no-run`" in done.output
    assert "nothing is written: `--write` edits the script, `-o DIR` writes a copy" in done.output
    assert [each.name for each in folder.iterdir()] == [SCRIPT]
    assert (folder / SCRIPT).read_bytes() == before


def test_a_copy_goes_into_a_folder_that_checks_clean(folder: Path) -> None:
    before = (folder / SCRIPT).read_bytes()

    done = adopt(SCRIPT, "--no-run", "-o", "job", "--instance-count", "2")

    assert done.exit_code == 0, done.output
    names = sorted(path.relative_to("job").as_posix() for path in Path("job").rglob("*") if path.is_file())
    assert names == ["argparse_digits.yml", "conda.yml", f"src/{SCRIPT}"]
    assert (folder / SCRIPT).read_bytes() == before
    assert checking.check(["job"]).exit_code == 0
    spec = yaml.safe_load(Path("job/argparse_digits.yml").read_text(encoding="utf-8"))
    step = spec["steps"]["train"]
    assert step["instance_count"] == 2
    assert step["scale"]["reference"] == {"batch_size": 64, "learning_rate": 0.05}
    assert "try it here: worldsize run job/argparse_digits.yml" in done.output


def test_write_edits_the_script_and_puts_the_spec_beside_it(folder: Path) -> None:
    done = adopt(SCRIPT, "--no-run", "--write")

    assert done.exit_code == 0, done.output
    names = {each.name for each in folder.iterdir()}
    assert names == {SCRIPT, "argparse_digits.yml", "conda.yml", ".amlignore"}
    assert "DistributedSampler" in (folder / SCRIPT).read_text(encoding="utf-8")
    assert checking.check(["."]).exit_code == 0

    again = adopt(SCRIPT, "--no-run", "--write")
    assert again.exit_code == 0
    assert again.output == f"`{SCRIPT}` is adopted already, and its spec is there: nothing to write\n"

    (folder / SCRIPT).write_bytes((SCRIPTS / SCRIPT).read_bytes())
    again = adopt(SCRIPT, "--no-run", "--write")
    assert again.exit_code == 1
    assert "`argparse_digits.yml`" in again.output
    assert "exist already, and adopt replaces nothing but the script" in again.output


def test_modules_beside_the_script_and_data_go_with_it(folder: Path) -> None:
    text = (folder / SCRIPT).read_text(encoding="utf-8")
    (folder / SCRIPT).write_text(
        text.replace("import argparse\n", "import argparse\nimport shapes\n", 1), encoding="utf-8"
    )
    (folder / "shapes.py").write_text("import colours\n", encoding="utf-8")
    (folder / "colours.py").write_text("import click\nimport nowhere\n", encoding="utf-8")
    (folder / "unused.py").write_text("import pytest\n", encoding="utf-8")

    done = adopt(SCRIPT, "--no-run", "-o", "job")

    assert done.exit_code == 0, done.output
    assert sorted(each.name for each in Path("job/src").iterdir()) == [SCRIPT, "colours.py", "shapes.py"]
    pins = yaml.safe_load(Path("job/conda.yml").read_text(encoding="utf-8"))["dependencies"][-1]["pip"]
    assert not any("shapes" in each or "pytest" in each for each in pins)
    assert any(each.startswith("click==") for each in pins)
    assert "no package here has `nowhere`, which the script needs" in done.output
    assert any(each.startswith("scikit-learn==") for each in pins)


def test_json_has_everything(folder: Path) -> None:
    done = adopt(SCRIPT, "--no-run", "--json")

    document: dict[str, Any] = json.loads(done.output)
    assert document["framework"] == "torch"
    assert document["proof"] is None
    assert document["findings"] == []
    assert document["plan"]["steps"]["train"]["training"]["global_batch_size"] == 256
    assert all(change["reason"] for change in document["changes"])


def test_options_of_the_user_are_kept_in_the_command(folder: Path) -> None:
    done = adopt(SCRIPT, "--no-run", "--json", "--arguments", "--log-interval 5 --batch-size 32 --epochs=7")

    spec = yaml.safe_load(json.loads(done.output)["spec"])["steps"]["train"]
    assert spec["command"].endswith("--log-interval 5")
    assert spec["scale"]["reference"]["batch_size"] == 32
    assert spec["scale"]["epochs"] == 7


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["absent.py"], 1, "the script cannot be read"),
        (["."], 1, "this is a folder"),
        ([SCRIPT, SCRIPT], 2, "unexpected extra argument"),
        ([SCRIPT, "--data", "absent"], 2, "Path 'absent' does not exist"),
        (
            [SCRIPT, "--instance-type", "Standard_NC96"],
            2,
            "`Standard_NC96` is not a VM size that Worldsize knows",
        ),
        ([SCRIPT, "--arguments", "--name 'x"], 2, "no closing quotation"),
        ([SCRIPT, "-o", "full"], 1, "`full` is not empty"),
        ([SCRIPT, "-o", SCRIPT], 2, "is a file"),
    ],
)
def test_bad_input_is_one_sentence(folder: Path, arguments: list[str], status: int, words: str) -> None:
    (folder / "full").mkdir()
    (folder / "full" / "file").write_text("", encoding="utf-8")

    done = adopt(*arguments, "--no-run")

    assert done.exit_code == status, done.output
    assert words in done.output
    assert "Traceback" not in done.output


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))

    done = adopt(SCRIPT)

    assert done.exit_code == 1
    assert "needs torch" in done.output
    assert "pip install 'worldsize[run]'" in done.output


def test_without_its_data_nothing_is_proven(folder: Path) -> None:
    text = (folder / SCRIPT).read_text(encoding="utf-8")
    option = "    parser.add_argument('--data', default='rows/digits.npz')\n    args = parser.parse_args()\n"
    (folder / SCRIPT).write_text(text.replace("    args = parser.parse_args()\n", option), encoding="utf-8")

    done = adopt(SCRIPT)

    assert done.exit_code == 0, done.output
    assert "not proven: its data `rows/digits.npz` is not here: name it with `--data PATH`" in done.output


def test_required_data_is_asked_for_without_the_proof_too(folder: Path) -> None:
    text = (folder / SCRIPT).read_text(encoding="utf-8")
    (folder / SCRIPT).write_text(
        text.replace(
            "    parser.add_argument('--epochs'",
            "    parser.add_argument('--data-file', required=True)\n    parser.add_argument('--epochs'",
        ),
        encoding="utf-8",
    )

    done = adopt(SCRIPT, "--no-run")

    assert (
        "not proven: `--no-run`; `--data-file` has no default: name the data with `--data PATH`"
        in done.output
    )


def test_findings_name_the_users_own_files(folder: Path) -> None:
    text = (folder / SCRIPT).read_text(encoding="utf-8")
    before, _, after = text.rpartition("\n    args = parser.parse_args(")
    assert before, "the script parses its arguments"
    (folder / SCRIPT).write_text(
        f'{before}\n    parser.add_argument("--name", required=True)\n    args = parser.parse_args({after}',
        encoding="utf-8",
    )
    declared = (
        (folder / SCRIPT)
        .read_text(encoding="utf-8")
        .splitlines()
        .index('    parser.add_argument("--name", required=True)')
    )

    done = adopt(SCRIPT, "--no-run")

    assert done.exit_code == 1, done.output
    assert "worldsize-adopt-" not in done.output
    assert "argparse_digits.yml:" in done.output
    assert f":: {SCRIPT}:{declared + 1}:" in done.output
    assert "= help: give it in `--arguments`" in done.output
    assert done.output.endswith("nothing is written: the spec has the errors above\n")
    found = json.loads(adopt(SCRIPT, "--no-run", "--json", "-o", "job").output)["findings"]
    assert [(each["code"], each["path"]) for each in found] == [("WS941", "job/argparse_digits.yml")]


def test_adopting_again_adds_what_the_script_imports_by_now(folder: Path) -> None:
    assert adopt(SCRIPT, "--no-run", "--write").exit_code == 0
    before = Path("conda.yml").read_text(encoding="utf-8")
    text = (folder / SCRIPT).read_text(encoding="utf-8")
    (folder / SCRIPT).write_text(
        text.replace("import argparse\n", "import argparse\nimport beside\nimport nowhere_known\n", 1),
        encoding="utf-8",
    )
    (folder / "beside.py").write_text("import click\n", encoding="utf-8")

    shown = adopt(SCRIPT, "--no-run")
    assert "`conda.yml` lacks `click`, which the script needs: `--write` adds it" in shown.output

    done = adopt(SCRIPT, "--write")
    assert done.exit_code == 0, done.output
    added = Path("conda.yml").read_text(encoding="utf-8").removeprefix(before.rstrip("\n")).strip()
    assert added.startswith("- click==")
    assert f"wrote conda.yml: `{added.removeprefix('- ')}`, which the script needs" in done.output
    assert "the script needs `nowhere_known`, and no package here has it" in done.output
    assert "nothing to write" in adopt(SCRIPT, "--write").output


def test_options_for_a_spec_that_is_there_are_not_ignored_in_silence() -> None:
    assert adopt(SCRIPT, "--no-run", "--write").exit_code == 0
    again = adopt(
        SCRIPT, "--write", "--instance-type", "standard_nc24s_v3", "--instance-count", "2",
        "--data", SCRIPT, "--arguments", "--seed 2",
    )  # fmt: skip
    assert again.exit_code == 0
    for words in (
        "`instance_type: Standard_NC24s_v3`", "`instance_count: 2`", "`--seed 2` in `command`",
        f"the path `{SCRIPT}` of the input `data`",
    ):  # fmt: skip
        assert f"  write {words} in `argparse_digits.yml` yourself\n" in again.output


def test_a_module_of_no_package_is_told(folder: Path) -> None:
    text = (folder / SCRIPT).read_text(encoding="utf-8")
    (folder / SCRIPT).write_text(text.replace("import argparse\n", "import argparse\nimport nowhere\n", 1))
    done = adopt(SCRIPT, "--no-run", "-o", "job")
    assert "no package here has `nowhere`, which the script needs: add it to `conda.yml`" in done.output


@pytest.mark.parametrize("spec", ["argparse_digits.yml", "renamed.yml"])
def test_the_spec_that_starts_an_adopted_script_is_found(folder: Path, spec: str) -> None:
    assert adopt(SCRIPT, "--no-run", "-o", "job").exit_code == 0
    Path("job/argparse_digits.yml").rename(Path("job", spec))
    before = sorted(Path("job").rglob("*"))

    again = adopt(f"job/src/{SCRIPT}", "--write", "--instance-count", "2")

    assert again.exit_code == 0, again.output
    assert f"`job/src/{SCRIPT}` is adopted already, and its spec is there: nothing to write" in again.output
    assert f"  write `instance_count: 2` in `job/{spec}` yourself\n" in again.output
    assert sorted(Path("job").rglob("*")) == before


def test_data_without_the_name_of_an_option_takes_its_place(folder: Path) -> None:
    text = (folder / SCRIPT).read_text(encoding="utf-8")
    option = "    parser.add_argument('folder')\n    args = parser.parse_args()\n"
    (folder / SCRIPT).write_text(text.replace("    args = parser.parse_args()\n", option), encoding="utf-8")
    (folder / "rows").mkdir()

    named = adopt(SCRIPT, "--no-run", "--data", "rows", "--arguments=--seed 2")
    given = adopt(SCRIPT, "--no-run", "--arguments", "rows --seed 2")

    assert named.exit_code == given.exit_code == 0, named.output + given.output
    assert f"python {SCRIPT} ${{{{inputs.data}}}}" in named.output
    assert f"python {SCRIPT} ${{{{inputs.folder}}}}" in given.output
    assert named.output.count("--seed 2") == given.output.count("--seed 2") == 1


def test_data_that_no_option_takes_is_told(folder: Path) -> None:
    (folder / "rows").mkdir()
    done = adopt(SCRIPT, "--no-run", "--data", "rows")
    assert f"`--data rows` is not used: no option of `{SCRIPT}` takes its data" in done.output


@pytest.mark.parametrize("words", [["--write"], ["--write", "-o", "job/deep"]])
def test_what_cannot_be_written_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    before = (folder / SCRIPT).read_bytes()
    with monkeypatch.context() as read_only:  # root writes any file
        read_only.setattr(os, "access", lambda path, mode: mode != os.W_OK or Path(path).name != SCRIPT)
        done = adopt(SCRIPT, "--no-run", *words)
    assert done.exit_code == 1
    assert done.stderr.endswith(f"error: `{SCRIPT}` cannot be written: permission denied\n")
    assert [each.name for each in folder.iterdir()] == [SCRIPT]
    assert (folder / SCRIPT).read_bytes() == before
    assert adopt(SCRIPT, "--no-run", *words).exit_code == 0
