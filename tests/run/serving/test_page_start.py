"""The page without a browser: how it starts, and that it shows what a client has just made."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from serving import Served, serving

pytestmark = [pytest.mark.run, pytest.mark.timeout(120)]
REGISTER = """
import sys
import mlflow
mlflow.MlflowClient().search_registered_models()  # the server has made its tables
registry = mlflow.MlflowClient(registry_uri="sqlite:///" + sys.argv[1])
registry.create_registered_model("digits")
registry.create_model_version("digits", "file:///nowhere")
"""


def visit(served: Served, path: str, **query: str) -> httpx.Response:
    """Ask for one page over a connection of its own."""
    return httpx.get(
        served.address + path,
        params={"token": served.token, **query},
        follow_redirects=True,
        trust_env=False,
        timeout=30,
    )


def test_a_page_that_could_not_start_is_tried_again(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        blocked = served.home / "serve" / "page"
        blocked.write_text("not a folder")
        assert visit(served, "/").status_code == 500
        blocked.unlink()
        answer = visit(served, "/")
        assert answer.status_code == 200
        assert "Jobs · Worldsize" in answer.text


def test_a_model_that_only_mlflow_has_is_found_at_its_own_address(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.python(REGISTER, str(served.home / "mlflow.db"))
        answer = visit(served, "/models/digits")
        assert answer.status_code == 200
        assert "digits, version 1" in answer.text
