"""`worldsize init` writes projects that check clean, says what it chose, and replaces nothing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

import worldsize
from worldsize import checking
from worldsize.azureml.yaml_dump import Flow, dump
from worldsize.cli.main import main

SCRIPT = Path(__file__).parents[1] / "adopt" / "scripts" / "argparse_digits.py"
CASES = [
    (
        "price,rooms,area\n" + "".join(f"{n}.5,{n % 3},{n * 37 % 61}\n" for n in range(60)),
        ["--label", "price"],
        {},
    ),
    ("rooms,area,label\n" + "".join(f"{n},{n * 2},{'ab'[n % 2]}\n" for n in range(60)), [], {}),
    (
        "rooms,area,progression\n" + "".join(f"{n * 11 % 61},{n * 37 % 61},{n * 3}\n" for n in range(60)),
        [],
        {"task": "regression"},
    ),
    (
        "rooms,kind\n" + "".join(f"{n if n % 4 else ''},{'ab'[n % 2]}\n" for n in range(60)),
        [],
        {"missing": "fill"},
    ),
    (
        "review,label\n"
        + "".join(f"a long text about the film number {n} of all,{'ab'[n % 2]}\n" for n in range(60)),
        [],
        {"text": "review"},
    ),
]


def init(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["init", *arguments])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("text", "options", "settings"), CASES)
def test_a_table_becomes_a_spec_without_findings(
    folder: Path, text: str, options: list[str], settings: dict[str, str]
) -> None:
    (folder / "data.csv").write_text(text, encoding="utf-8")

    done = init("--from", "data.csv", *options)

    assert done.exit_code == 0, done.output
    spec = (folder / "data.yml").read_text(encoding="utf-8")
    assert len(spec.splitlines()) <= 20
    given = yaml.safe_load(spec)["steps"]["shard"]["with"]
    assert given["data"] == {"type": "uri_file", "path": "./data.csv"}
    assert {name: given[name] for name in given if name not in ("data", "label")} == settings
    assert checking.check(["."]).diagnostics == ()
    assert "/data.csv" in (folder / ".amlignore").read_text(encoding="utf-8").splitlines()


def test_a_table_outside_the_project_may_be_checked(folder: Path) -> None:
    (folder / "data.csv").write_text(CASES[0][0], encoding="utf-8")
    assert init("project", "--from", "data.csv").exit_code == 0
    settings = yaml.safe_load((folder / "project/worldsize.yml").read_text(encoding="utf-8"))
    assert settings["allow"] == ["../data.csv"]
    (folder / "data.csv").write_text("other\n1\n2\n")
    [fault] = {diagnostic.code for diagnostic in checking.check(["project"]).diagnostics}
    assert fault == "WS532"


def test_the_label_is_chosen_by_its_name_and_said(folder: Path) -> None:
    (folder / "data.csv").write_text(
        "target,area\n" + "".join(f"{n % 2},{n}\n" for n in range(60)), encoding="utf-8"
    )

    init("--from", "data.csv", "--name", "Flats & houses")

    spec = (folder / "flats_houses.yml").read_text(encoding="utf-8")
    assert "label: target  # by its name" in spec


def test_two_labels_are_asked_for(folder: Path) -> None:
    (folder / "data.csv").write_text("y,class,area\n1,2,3\n4,5,6\n", encoding="utf-8")

    done = init("--from", "data.csv")

    assert done.exit_code == 1
    assert "several columns of `data.csv` may be the label: `y`, `class`" in done.output
    assert "`--label COLUMN`" in done.output
    assert [each.name for each in folder.iterdir()] == ["data.csv"]


def test_a_label_that_is_no_column_is_refused(folder: Path) -> None:
    (folder / "data.csv").write_text("price,area\n1,2\n3,4\n", encoding="utf-8")

    done = init("--from", "data.csv", "--label", "prise")

    assert done.exit_code == 1
    assert "`data.csv` has no column `prise`" in done.output
    assert "did you mean `price`?" in done.output


def test_faults_of_the_data_keep_it_from_being_written(folder: Path) -> None:
    (folder / "data.csv").write_text("area,price\n" + "".join(f"{n},\n" for n in range(60)), encoding="utf-8")

    done = init("--from", "data.csv", "--label", "price")

    assert done.exit_code == 1
    assert "the data has faults; nothing is written" in done.output
    assert [each.name for each in folder.iterdir()] == ["data.csv"]


def test_without_a_source_it_is_an_example(folder: Path) -> None:
    done = init("digits", "--instance-type", "standard_nc96ads_a100_v4", "--instance-count", "2")

    assert done.exit_code == 0, done.output
    spec = yaml.safe_load((folder / "digits" / "digits.yml").read_text(encoding="utf-8"))
    assert spec["steps"]["train"]["instance_count"] == 2
    assert spec["compute"]["gpu"]["instance_type"] == "Standard_NC96ads_A100_v4"
    assert not checking.check(["digits"]).errors
    assert "run it:    worldsize run digits/digits.yml" in done.output


CONNECTED = ("Standard_NC96ads_A100_v4", "Standard_ND96asr_v4", "Standard_ND96isr_H100_v5")
ANY_SIZE = [
    ("Standard_NC24ads_A100_v4", 1),
    *((size, count) for size in CONNECTED for count in (1, 2, 3, 5, 8)),
]


@pytest.mark.parametrize("source", [None, "data.csv"])
@pytest.mark.parametrize(("size", "count"), ANY_SIZE)
def test_a_project_of_any_size_passes_its_own_check(
    size: str, count: int, source: str | None, tmp_path: Path
) -> None:
    if source is not None:
        rows = "".join(f"{n},{n % 7},{n % 2}\n" for n in range(2000))
        (tmp_path / source).write_text(f"area,rooms,label\n{rows}", encoding="utf-8")
    path = tmp_path / source if source is not None else None
    worldsize.init(tmp_path, source=path, name="job", instance_type=size, instance_count=count)
    assert checking.check([tmp_path]).exit_code == 0


def test_pictures_in_class_folders_become_a_spec(folder: Path) -> None:
    from PIL import Image

    for name in ("cats", "dogs"):
        (folder / "pets" / name).mkdir(parents=True)
        for number in range(12):
            image = Image.new("RGB", (8, 8), (number * 20, 0, 0))
            image.save(folder / "pets" / name / f"{number}.png")

    done = init("--from", "pets")

    assert done.exit_code == 0, done.output
    assert checking.check(["."]).diagnostics == ()
    assert "path: ./pets" in (folder / "pets.yml").read_text(encoding="utf-8")


PIPELINE = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
settings: {default_compute: azureml:cpus}
jobs:
  prepare:
    type: command
    command: python -V
    environment: azureml:mine:1
  train:
    type: command
    compute: azureml:gpus
    command: python -V
    code: ./training
    environment: azureml:mine:1
    resources: {instance_count: 3}
    distribution: {type: pytorch, process_count_per_instance: 8}
"""


@pytest.fixture
def pipeline(folder: Path) -> Path:
    (folder / "training").mkdir()
    (folder / "training" / "train.py").write_text("print()\n", encoding="utf-8")
    (folder / "pipeline.yml").write_text(PIPELINE, encoding="utf-8")
    return folder / "pipeline.yml"


def test_a_pipeline_stays_and_no_size_of_its_clusters_is_invented(folder: Path, pipeline: Path) -> None:
    done = init("--from", "pipeline.yml")

    assert done.exit_code == 0, done.output
    text = (folder / "worldsize.yml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["compute"] == {"cpus": {}, "gpus": {}}
    assert text.count("# TODO: add `instance_type`") == 2
    assert pipeline.read_text(encoding="utf-8") == PIPELINE
    assert not checking.check(["."]).errors


def test_what_is_not_uploaded_is_said_where_the_code_lies(folder: Path, pipeline: Path) -> None:
    init("--from", pipeline.name)

    assert (folder / "training" / ".amlignore").is_file()
    assert not (folder / ".amlignore").exists()


def test_a_size_that_a_file_or_the_user_gives_is_kept(folder: Path, pipeline: Path) -> None:
    (folder / "cpus.yml").write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/amlCompute.schema.json\n"
        "name: cpus\ntype: amlcompute\nsize: Standard_D4s_v5\n",
        encoding="utf-8",
    )

    done = init("--from", pipeline.name, "--instance-type", "standard_nd96isr_h100_v5")

    assert done.exit_code == 0, done.output
    settings = yaml.safe_load((folder / "worldsize.yml").read_text(encoding="utf-8"))
    assert settings["compute"] == {"gpus": {"instance_type": "Standard_ND96isr_H100_v5"}}


def test_a_script_gets_its_ignore_file_beside_its_code(folder: Path) -> None:
    shutil.copy(SCRIPT, folder / "fit.py")

    done = init("--from", "fit.py", "--name", "mine")

    assert done.exit_code == 0, done.output
    assert (folder / "mine.yml").read_text(encoding="utf-8").count("name: mine") == 2
    assert (folder / "src" / ".amlignore").is_file()
    assert not (folder / ".amlignore").exists()
    assert not checking.check(["."]).errors


def test_the_first_spec_may_grow(folder: Path) -> None:
    init("--name", "digits")

    spec = folder / "digits.yml"
    text = spec.read_text(encoding="utf-8").replace("compute: gpu", "compute: gpu\n    instance_count: 4")
    spec.write_text(text, encoding="utf-8")
    assert "instance_count: 4" in text
    assert not checking.check(["."]).errors


ROWS = "".join(f"{n},{n % 3},{'ab'[n % 2]}\n" for n in range(60))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("bom.csv", b"\xef\xbb\xbf" + f"x,y z,kind\n{ROWS}".encode(), ""),
        ("crlf.csv", f"x,z,kind\n{ROWS}".replace("\n", "\r\n").encode(), ""),
        ("größe.csv", f"größe,höhe,Ж\n{ROWS}".encode(), ""),
        ("my file.csv", f"my x,my z,the kind\n{ROWS}".encode(), ""),
        (
            "latin.csv",
            f"größe,höhe,art\n{ROWS}".encode("latin-1"),
            "cannot read `latin.csv`: it is not UTF-8",
        ),
        ("numbers.csv", b"1,2\n3,4\n", "`numbers.csv` has no header: its first row is all numbers"),
        ("mixed.csv", b"0.5,a\n1.5,b\n2.5,a\n", "its first row has the number `0.5`"),
        ("empty.csv", b"", "`empty.csv` is empty"),
        ("header.csv", b"x,y,kind\n", "`header.csv` has no rows"),
        ("one.csv", b"x,y,kind\n1,2,a\n", "`one.csv` has only 1 row"),
        ("semicolons.csv", b"x;y\n1,5;2\n", "pandas.read_csv(…, sep=';')"),
        ("tabs.csv", b"x\ty\n1\t2\n", "separated by tabs"),
        ("text.parquet", b"none", "cannot read `text.parquet`: Parquet file size is 4 bytes"),
        ("lines.jsonl", b"{\n", "row 1 of `lines.jsonl` is not JSON"),
    ],
)
def test_a_table_is_read_or_refused_in_one_sentence(
    folder: Path, name: str, content: bytes, words: str
) -> None:
    (folder / name).write_bytes(content)

    done = init("--from", name)

    assert words in done.output
    assert done.exit_code == bool(words), done.output
    assert done.output.count("error: ") == bool(words)
    if words:
        assert [each.name for each in folder.iterdir()] == [name]
    else:
        assert checking.check(["."]).diagnostics == ()


def test_a_folder_of_tables_is_not_one_of_pictures(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "a b.csv").write_text("x,y\n", encoding="utf-8")

    done = init("--from", "data")

    assert done.exit_code == 1
    assert "name one of its tables: `--from 'data/a b.csv'`" in done.output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("name", ["locked", "locked/data.csv", "closed.csv"])
def test_what_may_not_be_read_is_named(folder: Path, name: str) -> None:
    (folder / "locked").mkdir(mode=0)
    (folder / "closed.csv").touch(mode=0)

    done = init("--from", name)

    assert done.exit_code == 1, done.output
    assert "permission" in done.output.lower()


def test_a_spec_that_exists_is_in_the_way(folder: Path) -> None:
    (folder / "digits.yml").write_text("mine\n", encoding="utf-8")

    done = init("--name", "digits")

    assert done.exit_code == 1
    assert "`digits.yml` exists already; nothing is written" in done.output
    assert [each.name for each in folder.iterdir()] == ["digits.yml"]
    assert init("--name", "digits", "--force").exit_code == 0
    assert "mine" not in (folder / "digits.yml").read_text(encoding="utf-8")


def test_other_files_that_exist_are_kept_and_named(folder: Path) -> None:
    (folder / ".amlignore").write_text("mine\n", encoding="utf-8")

    done = init("--name", "digits")

    assert done.exit_code == 0
    assert "kept `.amlignore`: `--force` replaces what exists" in done.output
    assert (folder / ".amlignore").read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (None, "`it` does not exist"),
        ("it", "`it` contains no pictures"),
        ("it.pdf", "`it.pdf` is nothing that a project starts from"),
    ],
)
def test_what_no_project_starts_from_is_refused(folder: Path, make: str | None, words: str) -> None:
    if make == "it":
        (folder / "it").mkdir()
    elif make:
        (folder / make).write_text("x", encoding="utf-8")

    done = init("--from", make or "it")

    assert done.exit_code == 1
    assert words in done.output
    assert "start from a table" in done.output


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("rows.tsv", "x\ty\n", "pandas.read_csv('rows.tsv', sep='\\t').to_csv('rows.csv', index=False)"),
        ("book.xlsx", "x", "pandas.read_excel('book.xlsx')"),
        ("broken.yml", "a: [1\n", "`broken.yml` cannot be read, in line 1: not valid YAML"),
        ("other.yml", "hello: world\n", "`other.yml` is not Azure ML YAML"),
        ("spec.yml", "name: x\ncompute: {}\nsteps: {a: {uses: evaluate}}\n", "`spec.yml` is a spec already"),
        ("../above.yml", PIPELINE, "start around it: `worldsize init .. --from ../above.yml`"),
    ],
)
def test_it_says_what_to_start_from_instead(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str, words: str
) -> None:
    folder = folder / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / name).write_text(content, encoding="utf-8")

    done = init("--from", name)

    assert done.exit_code == 1
    assert words in done.output
    assert not (folder / "worldsize.yml").exists()


def test_an_unknown_size_is_a_usage_error() -> None:
    done = init("--instance-type", "Standard_NC96ads_A100_v5")

    assert done.exit_code == 2
    assert "did you mean" in done.output


def test_the_workflow_pins_its_actions(folder: Path) -> None:
    init("--name", "digits")

    path = folder / ".github" / "workflows" / "worldsize.yml"
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    used = [step["uses"] for step in workflow["jobs"]["check"]["steps"] if "uses" in step]
    assert used
    assert all(len(each.partition("@")[2]) == 40 for each in used)
    assert workflow["permissions"] == {}


def test_a_mapping_on_one_line_reads_back() -> None:
    document = {"a": Flow(b=Flow(c=1e-05, d="x: {y}, z"), e="${{inputs.f}}", g="")}

    text = dump(document)

    assert len(text.splitlines()) == 1
    assert yaml.safe_load(text) == json.loads(json.dumps(document))
