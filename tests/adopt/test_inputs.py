"""What a script reads from beside it is in the job, or adopt says that it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from worldsize.adopting.adopt import adopt_script
from worldsize.adopting.project.files import Project, make_project
from worldsize.adopting.project.spec import ProjectRequest

SCRIPT = (Path(__file__).with_name("scripts") / "argparse_digits.py").read_text(encoding="utf-8")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    for name in ("data/train.jsonl", "data/val.jsonl", "config.json", "labels.txt", "images/a.png", "old.pt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}", encoding="utf-8")
    return tmp_path / "train.py"


def adopt(script: Path, options: str, text: str = "", *, data: str | None = None) -> tuple[Project, Any]:
    parsed = "    args = parser.parse_args()\n"
    script.write_text(SCRIPT.replace(parsed, options + parsed + text), encoding="utf-8")
    adoption = adopt_script(script)
    given = script.parent / data if data is not None else None
    project = make_project(ProjectRequest(adoption, script, data=given), script.parent / "job", beside=False)
    step = yaml.safe_load(project.files["train.yml"])["steps"]["train"]
    return project, (step, [each.message for each in adoption.obstacles])


def option(name: str, default: str) -> str:
    return f"    parser.add_argument({name!r}, default={default!r})\n"


def test_each_data_option_becomes_an_input(script: Path) -> None:
    options = option("--train_file", "data/train.jsonl") + option("--val_file", "data/val.jsonl")
    _, (step, _) = adopt(script, options, data="data/train.jsonl")
    assert step["with"] == {
        "data": {"type": "uri_file", "path": "../data/train.jsonl"},
        "val_file": {"type": "uri_file", "path": "../data/val.jsonl"},
    }
    assert "--train_file ${{inputs.data}}" in step["command"]
    assert "--val_file ${{inputs.val_file}}" in step["command"]


def test_a_file_in_the_folder_of_the_data_is_a_part_of_it(script: Path) -> None:
    _, (step, _) = adopt(
        script, option("--data_dir", "data") + option("--val_file", "data/val.jsonl"), data="data"
    )
    assert step["with"] == {"data": {"type": "uri_folder", "path": "../data"}}
    assert "--val_file ${{inputs.data}}/val.jsonl" in step["command"]


def test_small_settings_go_with_the_code(script: Path) -> None:
    text = "    json.load(open(args.config))\n    open('labels.txt')\n    torch.save({}, 'old.pt')\n"
    project, (step, _) = adopt(script, option("--config", "config.json"), text)
    assert {"src/config.json", "src/labels.txt"} <= project.files.keys()
    assert "src/old.pt" not in project.files
    assert "with" not in step
    assert "--config" not in step["command"]


def test_large_settings_are_inputs(script: Path) -> None:
    (script.parent / "config.json").write_text(json.dumps("x" * 2_000_000), encoding="utf-8")
    project, (step, _) = adopt(script, option("--config", "config.json"))
    assert step["with"] == {"config": {"type": "uri_file", "path": "../config.json"}}
    assert "src/config.json" not in project.files


def test_folders_that_are_written_or_named_by_chance_are_no_inputs(script: Path) -> None:
    _, (step, _) = adopt(script, option("--log_to", "images") + option("--kind", "images"))
    assert "with" not in step


def test_a_folder_of_the_text_is_left_to_the_author(script: Path) -> None:
    _, (_, messages) = adopt(script, "", "    os.listdir('images')\n    os.listdir('elsewhere')\n")
    assert messages == ["the folder `images` is here, and no input of the job"]


def test_the_spec_beside_the_script_ignores_its_inputs(script: Path) -> None:
    script.write_text(
        SCRIPT.replace(
            "    args = parser.parse_args()\n",
            option("--val_file", "data/val.jsonl") + "    args = parser.parse_args()\n",
        ),
        encoding="utf-8",
    )
    project = make_project(ProjectRequest(adopt_script(script), script), script.parent, beside=True)
    assert project.files[".amlignore"].decode().splitlines()[-1] == "/data/val.jsonl"


def test_a_path_from_the_folder_above_is_an_input_or_told(tmp_path: Path) -> None:
    script = tmp_path / "code/train.py"
    script.parent.mkdir()
    for name in ("rows.csv", "more.csv"):
        (tmp_path / name).write_text("1", encoding="utf-8")
    text = 'ROOT = "../rows.csv"\nGONE = "../gone.csv"\n'
    _, (_, told) = adopt(
        script, option("--more", "../more.csv"), "".join(f"    {each}\n" for each in text.splitlines())
    )

    assert told == ["the file `../rows.csv` is here, and no input of the job"]


def test_large_files_that_stay_behind_are_told_with_who_names_them(script: Path) -> None:
    for name in ("data/train.jsonl", "rows.jsonl", "old.pt"):
        (script.parent / name).write_text("1" * 1_100_000, encoding="utf-8")
    (script.parent / "config.json").write_text(
        '{"data": {"rows": ["rows.jsonl", "data/val.jsonl"]}}', "utf-8"
    )
    text = "    open(args.config)\n    print('data/train.jsonl', 'old.pt')\n"
    _, (_, told) = adopt(script, option("--config", "config.json"), text)
    assert told == [
        "the file `data/train.jsonl` is here, and no input of the job",
        "`rows.jsonl`, which `config.json` names, is here, and no input of the job",
    ]


def test_a_script_that_logs_to_mlflow_gets_what_the_workspace_needs(script: Path) -> None:
    project, _ = adopt(script, "", "    import mlflow\n    mlflow.log_metric('loss', 1.0)\n")
    lines = yaml.safe_load(project.files["conda.yml"])["dependencies"][-1]["pip"]
    assert {"mlflow", "azureml-mlflow"} <= {each.partition("==")[0] for each in lines} | {*project.unknown}
