"""What the tests of the local workspace share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from management import Management
from serving import make_workspace

from worldsize.serving.workspace import Workspace


@pytest.fixture
def management(tmp_path: Path) -> Management:
    return Management(tmp_path)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = make_workspace(tmp_path, port=1)
    yield workspace
    workspace.database.close()
