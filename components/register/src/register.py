"""Entry point of `register`: apply the gate to the metrics, register the model, test that it predicts."""

from __future__ import annotations

import argparse
from pathlib import Path

from gate import parse_gate, read_metrics, shortfalls
from tags import version_tags

from wsmodels.mlmodel import read_mlmodel
from wsmodels.model_name import choose_model_name
from wsshards.errors import UserError, escape_controls, run_main
from wsshards.whole_file import write_json


def main() -> None:
    """Register the model that the command line names, or report why it is not registered."""
    options = parse()
    gate = parse_gate(options.gate)
    metrics = read_metrics(options.metrics)
    card = read_mlmodel(options.model)
    options.model_name = choose_model_name(options.model_name, card)
    failed = shortfalls(gate, metrics)
    if failed:
        refuse(options, failed)
        return
    # Importing MLflow takes seconds, and what is refused above does not need it.
    import mlflow
    from versions import origin_tags, register_once

    from wsmlflow.active_run import report_mlflow_errors

    with report_mlflow_errors("MLflow does not register the model"), mlflow.start_run() as run:
        tags = version_tags(card, metrics, run.data.tags, "; ".join(map(str, gate)), options.tags)
        tags |= origin_tags(run, options.model)  # of which `worldsize.model` is not the network's name
        version = register_once(run, options.model, options.model_name, tags, options.description)
        uri = f"models:/{options.model_name}/{version}"
        rows = prove(options, version, uri)
    write_json(
        Path(options.registration) / "registration.json",
        {"registered": True, "name": options.model_name, "version": version, "uri": uri, "tags": tags},
    )
    print(f"registered {escape_controls(options.model_name)} version {version}")
    print(f"loaded back {escape_controls(uri)}: it predicts {rows} rows")


def parse() -> argparse.Namespace:
    """Parse the command line in `component.yml`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--metrics", required=True)
    parser.add_argument("--model_name", default="")
    parser.add_argument("--gate", default="")
    parser.add_argument("--on_fail", choices=("error", "skip"), default="error")
    parser.add_argument("--description", default="")
    parser.add_argument("--tags", default="")
    parser.add_argument("--shards", default="")
    parser.add_argument("--registration", required=True)
    return parser.parse_args()


def refuse(options: argparse.Namespace, failed: list[str]) -> None:
    """Register nothing and report the metrics that do not pass.

    Raises:
        UserError: the metrics do not pass and `on_fail` is `error`.
    """
    reason = "; ".join(failed)
    if options.on_fail == "error":
        raise UserError(
            f"nothing is registered: {reason}",
            "train longer or lower the gate; `on_fail: skip` ends the pipeline without an error",
        )
    write_json(
        Path(options.registration) / "registration.json",
        {"registered": False, "name": options.model_name, "reason": reason},
    )
    print(f"nothing is registered: {escape_controls(reason)}")


def prove(options: argparse.Namespace, version: str, uri: str) -> int:
    """Predict with the registered version; if that fails, remove the version again."""
    import mlflow
    from proof import predict_once

    try:
        return predict_once(uri, options.shards)
    except UserError as error:
        mlflow.MlflowClient().delete_model_version(options.model_name, version)
        raise UserError(f"`{uri}` was taken back: {error.message}", error.help) from error


if __name__ == "__main__":
    run_main(main)
