"""Entry point of `evaluate`: evaluate an MLflow model on the held-out rows of a shards folder."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from scores import ClassifierScores, LanguageScores, draw_confusion

from wsshards.errors import UserError, describe_error, run_main
from wsshards.manifest import LANGUAGE_MODEL
from wsshards.reader import ShardReader


def main() -> None:
    """Evaluate the model that the command line names."""
    options = parse()
    reader = ShardReader(options.shards, options.split)
    from predict import Predictor  # imports MLflow, which takes seconds: not before the shards are right

    predictor = Predictor(options.model, reader.manifest)
    if reader.manifest.task == LANGUAGE_MODEL:
        scores: ClassifierScores | LanguageScores = LanguageScores()
    else:
        scores = ClassifierScores(reader.manifest.label.classes if reader.manifest.label else ())
    for inputs, targets in predictor.batches(reader, options.batch_size):
        scores.add(predictor.predict(inputs), targets)
    summary, details = scores.metrics()
    folder = Path(options.metrics)
    folder.mkdir(parents=True, exist_ok=True)
    picture = None
    if isinstance(scores, ClassifierScores):
        picture = folder / "confusion_matrix.png"
        draw_confusion(scores.confusion(), scores.classes, picture)
    publish(folder / "metrics.json", summary | details)
    log(summary, details, picture)
    for name, value in summary.items():
        print(f"{name}: {value:.6g}")


def parse() -> argparse.Namespace:
    """Parse the command line in `component.yml`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--shards", required=True)
    parser.add_argument("--split", choices=("validation", "train"), default="validation")
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--metrics", required=True)
    options = parser.parse_args()
    if options.batch_size < 1:
        raise UserError(f"`batch_size` is {options.batch_size}", "give a whole number of at least 1")
    return options


def publish(path: Path, metrics: dict[str, float]) -> None:
    """Write `metrics.json` atomically."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write `{path}`: {describe_error(error)}") from None


def log(summary: dict[str, float], details: dict[str, float], picture: Path | None) -> None:
    """Log the metrics to the run that the platform prepared, except those that an earlier attempt logged.

    `metrics.json` has the metrics of every class. MLflow gets them too if they are within its limit.

    Raises:
        UserError: the tracking server does not accept them.
    """
    import mlflow

    from wsmlflow.active_run import (
        MAX_METRIC_NAMES,
        log_artifact_once,
        log_metrics_once,
        report_mlflow_errors,
    )

    both = summary | details
    metrics = both if len(both) <= MAX_METRIC_NAMES else summary
    with report_mlflow_errors("MLflow does not take the metrics"), mlflow.start_run() as run:
        log_metrics_once(run, metrics)
        if picture is not None:
            log_artifact_once(run, picture)


if __name__ == "__main__":
    run_main(main)
