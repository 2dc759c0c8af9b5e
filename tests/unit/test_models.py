"""`worldsize models` and `worldsize rollback`: on this machine, without MLflow."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from worldsize.cli.main import main
from worldsize.running.record.models import HomeRegistry
from wschampion.champion import ROLLED_BACK, claim

TABLES = """
CREATE TABLE registered_models (name PRIMARY KEY);
CREATE TABLE model_versions (name, version INTEGER, creation_time, last_updated_time, description,
    current_stage, source, storage_location, run_id, PRIMARY KEY (name, version));
CREATE TABLE model_version_tags (key, value, name, version INTEGER, PRIMARY KEY (key, name, version));
INSERT INTO registered_models VALUES ('digits-cnn');
"""
EVIDENCE = "accuracy 0.92 instead of 0.91"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HomeRegistry:
    """A home with three versions of a model, of which two were champions, and one that was deleted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    registry = HomeRegistry(tmp_path / ".worldsize")
    registry.home.mkdir()
    with contextlib.closing(sqlite3.connect(registry.home / "mlflow.db")) as connection, connection:
        connection.executescript(TABLES)
        for number in range(1, 5):
            folder = tmp_path / f"model {number}"
            folder.mkdir()
            (folder / "MLmodel").touch()
            stage = "None" if number < 4 else "Deleted_Internal"
            connection.execute(
                "INSERT INTO model_versions VALUES ('digits-cnn', ?, ?, NULL, NULL, ?, ?, NULL, NULL)",
                (number, number * 1000, stage, folder.as_uri()),
            )
    for number in (1, 2, 3):
        for key, value in {"metric.accuracy": f"0.9{number}", "metric.recall_7": "0.5"}.items():
            registry.set_tag("digits-cnn", str(number), key, value)
        registry.set_tag("digits-cnn", str(number), "worldsize.data.rows", f"{number}000")
    claim(registry, "digits-cnn", "1", evidence="the first model", job="one", predecessor=None)
    claim(registry, "digits-cnn", "2", evidence=EVIDENCE, job="two", predecessor="1")
    return registry


def call(*words: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == status, result.output
    return result


def listed() -> dict[str, Any]:
    return {v["version"]: v for v in json.loads(call("models", "digits-cnn", "--json").stdout)}


@pytest.mark.usefixtures("home")
def test_versions_are_listed_with_data_metrics_and_reigns() -> None:
    lines = call("models", "digits-cnn").output.splitlines()
    assert lines[0].split() == ["version", "champion", "rows", "data", "until", "accuracy"]
    assert [line.split()[0] for line in lines[1:4]] == ["1", "2", "3"]
    assert " to now " in lines[2]
    assert lines[3].split() == ["3", "3000", "0.93"]
    assert lines[4:] == ["version 1: the first model", f"version 2: {EVIDENCE}"]
    versions = listed()
    assert list(versions) == ["1", "2", "3"]
    since = versions["2"]["since"]
    assert versions["2"] == {
        "version": "2",
        "champion": True,
        "since": since,
        "metrics": {"accuracy": 0.92, "recall_7": 0.5},
        "data": {"rows": "2000"},
        "evidence": EVIDENCE,
    }
    assert (versions["3"]["champion"], versions["3"]["since"], versions["3"]["evidence"]) == (
        False,
        None,
        None,
    )


def test_rollback_makes_the_champion_before_the_champion_again(home: HomeRegistry) -> None:
    said = call("rollback", "digits-cnn").output
    assert said == "version 1 of digits-cnn is the champion\nno job promotes version 2 again\n"
    assert [v["version"] for v in listed().values() if v["champion"]] == ["1"]
    assert {v.version for v in home.versions("digits-cnn") if v.tags.get(ROLLED_BACK)} == {"2"}
    assert call("rollback", "digits-cnn", "1").output == "version 1 of digits-cnn is already the champion\n"
    again = json.loads(call("rollback", "digits-cnn", "2", "--json").stdout)
    assert again == {"name": "digits-cnn", "version": "2", "rolled_back": []}
    output = call("models", "digits-cnn").output
    assert "version 2: by hand, in place of version 1" in output
    assert f": {EVIDENCE}" in output  # why it was the champion before


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ("models", "digit-cnn"),
            "`.worldsize` has no model `digit-cnn`\n  = help: did you mean `digits-cnn`?",
        ),
        (("rollback", "other"), "`.worldsize` has no model `other`\n  = help: there is only `digits-cnn`"),
        (("rollback", "digits-cnn", "4"), "`digits-cnn` has no version `4`\n  = help: it has 1, 2, 3"),
        (
            ("models", "m", "--runs-dir", "none"),
            "`none` has no model `m`\n  = help: `worldsize run` registers",
        ),
    ],
)
@pytest.mark.usefixtures("home")
def test_what_is_not_there_is_said_in_one_sentence(words: tuple[str, ...], error: str) -> None:
    output = call(*words, status=1).output
    assert output.startswith(f"error: {error}")
    assert "Traceback" not in output


def test_a_version_whose_files_are_gone_does_not_become_champion(home: HomeRegistry) -> None:
    Path("model 1", "MLmodel").unlink()
    said = call("rollback", "digits-cnn", status=1).output
    assert said.startswith("error: the files of version 1 of `digits-cnn` are not in `")
    assert listed()["2"]["champion"]
    Path("text").mkdir()
    Path("text", "mlflow.db").write_text("this is not a database")
    said = call("models", "digits-cnn", "--runs-dir", "text", status=1).output
    assert said == "error: cannot use the registry of `text`: file is not a database\n"
    assert home.find_loss("digits-cnn", "9") is None


def test_the_shell_completes_models_and_versions(home: HomeRegistry) -> None:
    from click.shell_completion import ShellComplete

    complete = ShellComplete(main, {}, "worldsize", "_WORLDSIZE_COMPLETE")
    assert [item.value for item in complete.get_completions(["models"], "d")] == ["digits-cnn"]
    assert [item.value for item in complete.get_completions(["rollback", "digits-cnn"], "")] == [
        "3",
        "2",
        "1",
    ]
    assert complete.get_completions(["rollback", "--runs-dir", "elsewhere"], "") == []
    assert home.names() == ["digits-cnn"]
