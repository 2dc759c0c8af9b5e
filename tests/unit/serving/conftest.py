"""What the tests of the local workspace share."""

from __future__ import annotations

from pathlib import Path

import pytest
from management import Management


@pytest.fixture
def management(tmp_path: Path) -> Management:
    return Management(tmp_path)
