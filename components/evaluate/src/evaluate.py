"""Entry point of `evaluate`: evaluate an MLflow model on the held-out rows of a shards folder."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from drift import MAX_COLUMNS, draw_drift, read_drift
from plots import draw_scores

from wsleaks.shards import find_in_shards
from wsmetrics.names import AT_THRESHOLD, CONSTANT, SHARES, choose_headline, describe_uninformed
from wsmodels.held_out import choose_split
from wsmodels.scores import ClassifierScores, make_scores, safe_name
from wsshards.errors import UserError, describe_error, print_warning, run_main
from wsshards.manifest import Manifest, read_manifest
from wsshards.reader import ShardReader
from wsshards.terms import SPLITS
from wsshards.whole_file import write_json

PERFECT = 0.9995  # a score from which on the data is doubted
FEW_ROWS = 200  # of which an honest model may get all right


def main() -> None:
    """Evaluate the model that the command line names."""
    options = parse()
    manifest = read_manifest(options.shards)
    split = choose_split(manifest, options.split)
    reader = ShardReader(options.shards, split)
    scores = make_scores(manifest, len(reader))
    # MLflow takes seconds to import: not before the shards are right.
    from wsmodels.predict import Predictor, read_batches

    print(f"evaluate on {len(reader):,} rows of the {split} split")
    predictor = Predictor(options.model, manifest)
    if isinstance(scores, ClassifierScores):
        scores.threshold = predictor.threshold
    for inputs, targets in read_batches(reader, options.batch_size):
        scores.add(predictor.predict(inputs), targets)
    summary, details = scores.metrics()
    folder = Path(options.metrics)
    folder.mkdir(parents=True, exist_ok=True)
    pictures = draw_scores(scores, folder)
    publish(folder / "metrics.json", summary | details)
    drift = read_drift(Path(options.shards))
    pictures += [draw_drift(drift, folder / "drift.png")] if drift else []
    log(summary, details, drift, pictures)
    for line in describe(summary, details):
        print(line)
    doubt_perfect(summary, choose_headline(summary | details)[0], manifest, Path(options.shards), split)


def describe(summary: dict[str, float], details: dict[str, float]) -> Iterator[str]:
    """Yield a line for each overall metric, what says most first, and one for the decision threshold."""
    both = summary | details
    uninformed = describe_uninformed(both)
    for name in dict.fromkeys([*choose_headline(both), *summary]):
        if not name.startswith(CONSTANT):
            more = f"; {uninformed[name]}" if name in uninformed else ""
            yield f"{name}: {summary[name]:.6g}{more}"
    if "decision_threshold" in details:
        shares = ", ".join(
            f"{name} {details[name + AT_THRESHOLD]:.6g}" for name in ("precision", "recall", "f1")
        )
        yield f"from the decision threshold {details['decision_threshold']:.6g} on: {shares}"


def doubt_perfect(summary: dict[str, float], name: str, manifest: Manifest, shards: Path, split: str) -> None:
    """Warn of a score that leaves nothing to learn, and name the column that tells the label, if one does.

    The score is the one that says most: of few positive rows a constant answer has a high accuracy, and with
    weights of classes a model whose order is perfect has a low one.
    """
    is_perfect = name in SHARES and summary[name] >= PERFECT
    if not is_perfect or summary["rows"] < FEW_ROWS or manifest.label is None:
        return
    what = f"{name} is {summary[name]:.6g}: hardly any model is always right on data that is honest"
    hint = "look for values that are known only after the label, and for copies of training rows"
    for column in find_in_shards(shards, split)[:1]:
        hint = f"{column.describe(', '.join(manifest.label.names))}; {column.help}"
    print_warning(f"{what}; {hint}")


def parse() -> argparse.Namespace:
    """Parse the command line in `component.yml`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--shards", required=True)
    parser.add_argument("--split", choices=("auto", *SPLITS), default="auto")
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--metrics", required=True)
    options = parser.parse_args()
    if options.batch_size < 1:
        raise UserError(f"`batch_size` is {options.batch_size}", "give a whole number of at least 1")
    return options


def publish(path: Path, metrics: dict[str, float]) -> None:
    """Write `metrics.json`."""
    try:
        write_json(path, metrics)
    except OSError as error:
        raise UserError(f"cannot write `{path}`: {describe_error(error)}") from None


def log(
    summary: dict[str, float], details: dict[str, float], drift: dict[str, float], pictures: list[Path]
) -> None:
    """Log the metrics to the run that the platform prepared, except those that an earlier attempt logged.

    `metrics.json` has the metrics of every class and target. MLflow gets them too if they are within its
    limit, and the columns that have drifted furthest, as `feed.psi.COLUMN`.

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
        furthest = list(drift.items())[:MAX_COLUMNS]
        log_metrics_once(run, {f"feed.psi.{safe_name(name)}": psi for name, psi in furthest})
        for picture in pictures:
            log_artifact_once(run, picture)


if __name__ == "__main__":
    run_main(main)
