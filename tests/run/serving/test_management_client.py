"""The real azure-ai-ml client, each of its operation groups, against one server.

The client deserialises every answer with its own models of the service, so a key that is missing or of
another type fails here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from serving import serving

pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(120)]

PROGRAM = Path(__file__).with_name("management_groups.py")
GROUPS = [
    "workspaces",
    "computes",
    "data",
    "models",
    "environments",
    "components",
    "datastores_and_connections",
    "registries",
]


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What went wrong in each group; one client does all of them, because importing it takes seconds."""
    folder = tmp_path_factory.mktemp("workspace")
    reference = "azureml://registries/azureml/models/bert/versions/3"
    (folder / "worldsize.yml").write_text(f"assets:\n  {reference}: ./bert\n")
    (folder / "bert").mkdir()
    with serving(folder) as server:
        found: dict[str, str] = json.loads(server.run(sys.executable, str(PROGRAM)).stdout.splitlines()[-1])
        return found


@pytest.mark.parametrize("group", GROUPS)
def test_an_operation_group_works(faults: dict[str, str], group: str) -> None:
    assert group not in faults, faults[group]
