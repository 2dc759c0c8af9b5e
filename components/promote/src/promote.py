"""Entry point of `promote`: make the registered version the champion, if the comparison says so."""

from __future__ import annotations

import argparse
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wschampion.champion import ROLLED_BACK, PatientRegistry, Registry, Version, claim, settle
from wsshards.errors import UserError, clip_text, escape_controls, run_main
from wsshards.regular_files import read_regular
from wsshards.whole_file import write_json

_LARGEST = 16 << 20  # bytes of a file of JSON


def main() -> None:
    """Promote the version that the command line names, or report why the champion stays."""
    options = parse()
    registration = read_document(options.registration, "registration.json", "register")
    comparison = read_document(options.comparison, "comparison.json", "compare")
    check_documents(registration, comparison)
    # Importing MLflow takes seconds, and what is refused above does not need it.
    import mlflow

    from wsmlflow.active_run import report_mlflow_errors
    from wsmlflow.registry import MlflowRegistry

    registry = PatientRegistry(MlflowRegistry(mlflow.MlflowClient()))
    with report_mlflow_errors("MLflow does not promote the model"):
        promotion = promote(registry, registration, comparison)
    write_json(Path(options.promotion) / "promotion.json", promotion)
    name = escape_controls(f"{promotion['name']} version {promotion['version']}")
    reason = escape_controls(promotion["reason"])
    if promotion["action"] == "promote":
        print(f"{name} is the champion: {reason}")
    else:
        print(f"{name} is not promoted: {reason}" if promotion["version"] else f"no promotion: {reason}")


def parse() -> argparse.Namespace:
    """Parse the command line in `component.yml`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--registration", required=True)
    parser.add_argument("--comparison", required=True)
    parser.add_argument("--promotion", required=True)
    return parser.parse_args()


def read_document(folder: str, file: str, step: str) -> dict[str, Any]:
    """Read a JSON object in the output of another step.

    Raises:
        UserError: it is missing or is not a JSON object.
    """
    path, help_ = Path(folder) / file, f"bind the output of a `{step}` step"
    try:
        document = json.loads(read_regular(path, _LARGEST))
    except FileNotFoundError:
        raise UserError(f"`{folder}` has no `{file}`", help_) from None
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"cannot read `{path}`: {clip_text(str(reason), 200)}", help_) from None
    if not isinstance(document, dict):
        raise UserError(f"`{path}` is not a JSON object", help_)
    return document


def check_documents(registration: Mapping[str, Any], comparison: Mapping[str, Any]) -> None:
    """Check that a registration and a comparison have what they must, and are of the same model.

    Raises:
        UserError: they have not, or are not.
    """
    required = ("name", "version") if registration.get("registered") else ("name",)
    if not all(isinstance(registration.get(key), str) for key in required):
        raise UserError("`registration.json` does not name a version", "bind the output of a `register` step")
    if comparison.get("verdict") not in ("promote", "keep"):
        raise UserError("`comparison.json` has no verdict", "bind the output of a `compare` step")
    champion = comparison.get("champion") or {}
    if champion and champion.get("name") != registration["name"]:
        raise UserError(
            f"the comparison is with the champion of `{champion.get('name')}`, and the model is registered as"
            f" `{registration['name']}`",
            "give `compare` and `register` the same `model_name`",
        )


def check_model(registered: Version, comparison: Mapping[str, Any]) -> None:
    """Check that the version is the model that was compared, by the digest that `register` gives it as a tag.

    Raises:
        UserError: it is another one.
    """
    digest = (comparison.get("challenger") or {}).get("model")
    if digest and registered.tags.get("worldsize.model", digest) != digest:
        raise UserError(
            "the comparison is of another model than the registered one",
            "bind the same model to `compare` and `register`",
        )


def promote(
    registry: Registry, registration: Mapping[str, Any], comparison: Mapping[str, Any]
) -> dict[str, Any]:
    """Make the registered version the champion, if the comparison says so; returns what happened.

    Raises:
        UserError: the registry does not have the version.
    """
    name = registration["name"]
    version = registration["version"] if registration.get("registered") else None
    reason = str(comparison.get("reason") or "")
    compared = (comparison.get("champion") or {}).get("version")
    claims = version is not None and comparison["verdict"] == "promote"
    if claims:
        registered = next((known for known in registry.versions(name) if known.version == version), None)
        if registered is None:
            raise UserError(f"`{name}` has no version `{version}`", "run the pipeline once more")
        check_model(registered, comparison)
        # Azure ML and `worldsize run` keep the id of a job when they restart it.
        job = os.environ.get("AZUREML_RUN_ID") or uuid.uuid4().hex
        champion = claim(registry, name, version, evidence=reason, job=job, predecessor=compared)
    else:
        champion = settle(registry, name)
        if version is None:
            reason = str(registration.get("reason") or "the model is not registered")
    promoted = claims and champion is not None and champion.version == version
    if claims and not promoted:
        reason = explain_loss(registry.versions(name), version, champion, compared)
    return {
        "action": "promote" if promoted else "keep",
        "reason": reason,
        "name": name,
        "version": version,
        "champion": champion and champion.version,
    }


def explain_loss(
    versions: list[Version], version: str, champion: Version | None, compared: str | None
) -> str:
    """Say why a version did not become the champion although it was better than the one it met."""
    if any(known.tags.get(ROLLED_BACK) for known in versions if known.version == version):
        return f"version {version} was rolled back from, and is not promoted again"
    met = f"was compared with version {compared}" if compared else "was compared with none"
    return f"the champion is {'version ' + champion.version if champion else 'gone'}, and the model {met}"


if __name__ == "__main__":
    run_main(main)
