"""Entry point of `compare`: decide whether a new model takes the champion's place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from new_rows import NewRows, find_new_rows, read_data
from question import Question, parse, read_question

from wsmodels.mlmodel import read_mlmodel
from wsshards.errors import UserError, describe_error, escape_controls, run_main
from wsshards.reader import ShardReader
from wsshards.whole_file import write_json


def main() -> None:
    """Compare the model that the command line names with the champion."""
    options = parse()
    comparison = compare(read_question(options))
    folder = Path(options.comparison)
    try:
        write_json(folder / "comparison.json", comparison)
    except OSError as error:
        raise UserError(f"cannot write `{folder}`: {describe_error(error)}") from None
    log(comparison, folder)
    print(f"{comparison['verdict']}: {escape_controls(comparison['reason'])}")


def compare(question: Question) -> dict[str, Any]:
    """Return the content of `comparison.json`.

    Raises:
        UserError: a model does not load, fails, or does not fit the rows.
    """
    # MLflow takes seconds to import: not before the inputs are right.
    from champion import download_version, read_champion
    from measuring import NEW, Contestant, HeldOut, measure, name_errors
    from verdict import count_bytes, decide_alone, judge

    from wsmodels.predict import Predictor

    version = read_champion(question.name)
    with name_errors(NEW):
        challenger = Contestant(NEW, Predictor(question.model, question.manifest))
    reader = ShardReader(question.shards, question.split)
    held_out = HeldOut(reader, question.subject, question.statistics, question.batch_size)
    data: dict[str, Any] = {}
    rows: NewRows
    reason: str | None = f"`{question.name}` has no champion yet"
    if version is not None:
        title = f"the champion `{question.name}` version {version.version}"
        try:
            with TemporaryDirectory() as folder:
                with name_errors(title):
                    path = download_version(question.name, version.version, folder)
                    data = read_data(read_mlmodel(path))
                rows = choose_rows(question, reader, data)
                reason = rows.seen
                if reason is None:
                    with name_errors(title):
                        predictor = Predictor(path, question.manifest, maps_classes=True)
                    champion = Contestant(title, predictor)
                    both = measure([champion, challenger], replace(held_out, chosen=rows.chosen))
                    sizes = [count_bytes(Path(model)) for model in (path, question.model)]
        except UserError as error:
            if not error.message.startswith(title):
                raise
            reason = error.message
            if not question.rule.is_newest:
                way = f"`worldsize rollback {question.name} VERSION` restores another one, and the rule"
                raise UserError(reason, f"{way} `newest` promotes the new model") from error
        if reason is None:
            return judge(question, version, data, both, sizes)
    assert reason is not None
    alone = measure([challenger], held_out)
    return decide_alone(question, version, alone, reason, data)


def choose_rows(question: Question, reader: ShardReader, data: dict[str, Any]) -> NewRows:
    """Return the rows to compare the models on: those that are new to both.

    Args:
        question: what is to be decided.
        reader: of the rows.
        data: what the champion was trained on.
    """
    chosen: NewRows = NewRows()
    if len(reader) < question.minimum_rows:
        few = f"{len(reader):,} rows of the `{question.split}` split are fewer than {question.minimum_rows:,}"
        return NewRows(seen=few)
    for title, trained_on in (("the champion", data), ("the new model", question.data)):
        rows = find_new_rows(trained_on, reader)
        if rows.seen is not None:
            return NewRows(seen=f"it is not known that the rows are new to {title}: {rows.seen}")
        if rows.chosen is not None:
            chosen = rows if chosen.chosen is None else NewRows(chosen.chosen & rows.chosen)
    count = len(reader) if chosen.chosen is None else int(chosen.chosen.sum())
    if count < question.minimum_rows:
        many = f"{count:,} of {len(reader):,} rows of the `{question.split}` split are new to both models"
        return NewRows(seen=f"{many}, fewer than {question.minimum_rows:,}")
    return chosen


def log(comparison: dict[str, Any], folder: Path) -> None:
    """Draw the difference, and log it to the run that the platform prepared.

    Raises:
        UserError: the tracking server does not accept it.
    """
    import mlflow
    from picture import draw_differences

    from wsmlflow.active_run import log_artifact_once, log_metrics_once, report_mlflow_errors

    difference = comparison["difference"]
    with report_mlflow_errors("MLflow does not take the comparison"), mlflow.start_run() as run:
        if difference is not None:
            metrics = {"difference": difference["value"], "standard_error": difference["standard_error"]}
            log_metrics_once(run, metrics)
            log_artifact_once(run, draw_differences(comparison, folder / "comparison.png"))


if __name__ == "__main__":
    run_main(main)
