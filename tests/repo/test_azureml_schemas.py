"""The checker's structure against the judge: azure-ai-ml itself, from whose classes our schemas are made."""

from __future__ import annotations

import logging
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from worldsize.azureml.shape import CHECKED, check_shape, recognise
from worldsize.documents.yaml import load

pytestmark = [pytest.mark.run, pytest.mark.smoke]

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "schemas" / "azureml"
TABLE = runpy.run_path(str(ROOT / "tests" / "unit" / "shape_cases.py"))
CASES = TABLE["read"]()

# A folder of Azure ML's YAML to agree about, for example a clone of Azure/azureml-examples.
CORPUS = os.environ.get("WORLDSIZE_AZUREML_CORPUS")

# Findings that do not say "refused": the SDK accepts these files, and they are worth a word all the same.
WARNINGS = {"aml-ignored-key", "aml-version-read-as-number", "aml-component-name", "aml-private-preview"}

# What the SDK refuses for a reason that lies outside the file's structure.
OUTSIDE = ("Can't find", "No such file", "not found", "FileNotFoundError", "referenced source", "top level")

# What azure-ai-ml and its dependencies warn about is not ours to fail on.
SDK_WARNINGS = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def refusal() -> Iterator[Callable[[Path, str], str | None]]:
    """Why azure-ai-ml refuses a file of a kind, None where it loads and validates."""
    pytest.importorskip("azure.ai.ml", reason="needs the azure extra")
    from azure.ai.ml.entities import _load_functions as sdk

    logging.disable(logging.CRITICAL)
    loaders = {
        "job": sdk.load_job,
        "component": sdk.load_component,
        "compute": sdk.load_compute,
        "schedule": sdk.load_schedule,
        "data": sdk.load_data,
        "environment": sdk.load_environment,
        "model": sdk.load_model,
        "online-endpoint": sdk.load_online_endpoint,
        "online-deployment": sdk.load_online_deployment,
        "batch-endpoint": sdk.load_batch_endpoint,
        "batch-deployment": sdk.load_model_batch_deployment,
    }

    def judge(path: Path, kind: str) -> str | None:
        try:
            load = loaders.get(kind) or loaders[kind.rpartition("-")[2]]
            entity = load(path)
            if kind.endswith(("-job", "-component")) and hasattr(entity, "_validate"):
                result = entity._validate()
                return None if result.passed else str(result._to_dict())
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None

    yield judge
    logging.disable(logging.NOTSET)


def test_regenerating_changes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("azure.ai.ml", reason="needs the azure extra")
    command = [sys.executable, "-W", "ignore", str(SCHEMAS / "generate.py"), "--output", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_bytes() for path in SCHEMAS.glob("*.schema.json")}
    assert sorted(made) == sorted(kept)
    assert [name for name in made if made[name] != kept[name]] == []


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=SDK_WARNINGS) for case in CASES], ids=lambda case: case.name
)
def test_the_table_agrees_with_azure_ai_ml(case: Any, tmp_path: Path, refusal: Any) -> None:
    for name, text in TABLE["SIDE_FILES"].items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    file = tmp_path / "case.yml"
    file.write_text(case.text, encoding="utf-8")
    why = refusal(file, case.kind)
    ours = bool(case.expected) and not case.warns
    if case.disagreement is None:
        assert ours == (why is not None), why
    else:
        assert ours != (why is not None), f"the disagreement is gone: {why}"


def files(root: Path) -> list[Path]:
    """Every YAML file under ``root`` whose structure is checked, in order."""
    return sorted(path for pattern in ("*.yml", "*.yaml") for path in root.rglob(pattern) if path.is_file())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("folder", ["components", "pipelines", CORPUS or ""])
@pytest.mark.timeout(900)
def test_whole_folders_agree_with_azure_ai_ml(folder: str, refusal: Any) -> None:
    if not folder:
        pytest.skip("WORLDSIZE_AZUREML_CORPUS names no folder")
    disagreements = []
    for path in files(ROOT / folder):
        document = load(path)
        kind = recognise(document.root, str(path)) if document.root is not None else None
        if kind not in CHECKED or document.root is None:
            continue
        ours = [problem for problem in check_shape(document.root, kind) if problem.slug not in WARNINGS]
        why = refusal(path, kind)
        outside = why is not None and any(text in why for text in OUTSIDE)
        named = any(problem.slug == "aml-component-name" for problem in check_shape(document.root, kind))
        if bool(ours) != (why is not None) and not outside and not named:
            disagreements.append((str(path), [(str(p.span), p.message) for p in ours], why))
    assert disagreements == []
