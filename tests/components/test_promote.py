"""The champion in MLflow's own registry, and the component that promotes to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wschampion.champion import CHAMPION, claim, find_champion, roll_back
from wsshards.errors import UserError

pytestmark = [
    pytest.mark.run,
    pytest.mark.smoke,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore"),
]

NAME = "m's x"


@pytest.fixture
def registry(tmp_path: Path, new_database: Callable[[Path], None]) -> Any:
    """The registry of a new database with three versions of a model."""
    import mlflow

    from wsmlflow.registry import MlflowRegistry

    new_database(tmp_path / "mlflow.db")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    client.create_registered_model(NAME)
    for number in range(1, 4):
        client.create_model_version(NAME, str(tmp_path / "model"), tags={"metric.rmse": f"{number}"})
    return MlflowRegistry(client)


def test_the_champion_of_mlflows_registry(registry: Any) -> None:
    assert registry.versions("no such") == []
    assert find_champion(registry.versions(NAME)) is None
    for number in ("1", "2"):
        former = find_champion(registry.versions(NAME))
        winner = claim(
            registry, NAME, number, evidence="better", job="j", predecessor=former and former.version
        )
        assert winner is not None
        assert winner.version == number
    assert roll_back(registry, NAME).version == "1"
    tags = {version.version: version.tags.get(CHAMPION) for version in registry.versions(NAME)}
    assert tags == {"1": "true", "2": "false", "3": None}
    with pytest.raises(UserError, match="has no version `9`"):
        roll_back(registry, NAME, "9")
