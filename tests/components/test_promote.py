"""The champion in MLflow's own registry, and the component that promotes to it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worldsize.running.record.models import HomeRegistry
from wschampion.champion import CHAMPION, EVIDENCE, JOB, ROLLED_BACK, claim, find_champion, roll_back
from wsshards.errors import UserError

pytestmark = [
    pytest.mark.run,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore"),
]

smoke = pytest.mark.smoke
LONG = pytest.mark.timeout(1200)  # on a machine with more to do than it has cores
Run = Callable[..., Any]
NAME = "m's x"


@pytest.fixture
def registry(tmp_path: Path, new_database: Callable[[Path], None]) -> Any:
    """The registry of a new database with three versions of a model."""
    import mlflow

    from wsmlflow.registry import MlflowRegistry

    new_database(tmp_path / "mlflow.db")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    client.create_registered_model(NAME)
    tags = {"worldsize.model": "0a"}  # the digest of the model
    for number in range(1, 4):
        client.create_model_version(NAME, str(tmp_path / "model"), tags=tags | {"metric.rmse": f"{number}"})
    return MlflowRegistry(client)


@smoke
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


def describe(folder: Path, version: str | None, met: str | None, **more: Any) -> dict[str, Path]:
    """The outputs of `register` and `compare` for a version that is better than the champion."""
    folder.mkdir(exist_ok=True)
    registered: dict[str, Any] = {"registered": False, "name": NAME, "reason": "accuracy is 0.9"}
    if version is not None:
        registered = {
            "registered": True,
            "name": NAME,
            "version": version,
            "tags": {"worldsize.model": "cnn"},
        }
    compared = {
        "verdict": "promote",
        "reason": f"rmse is better in version {version}",
        "champion": met and {"name": NAME, "version": met},
        "challenger": {"model": "0a"},
    } | more
    (folder / "registration.json").write_text(json.dumps(registered))
    (folder / "comparison.json").write_text(json.dumps(compared))
    return {"registration": folder, "comparison": folder, "promotion": folder / "out"}


def outcome(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "out" / "promotion.json").read_text())
    return document


@smoke
def test_promotes_what_is_better_and_keeps_the_champion_otherwise(
    component: Run, registry: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "steps"

    def promote(version: str | None, champion: str | None, **more: Any) -> tuple[str, str, str, list[str]]:
        done = component(
            "promote", **describe(folder, version, champion, **more), env={"AZUREML_RUN_ID": "job"}
        )
        assert done.returncode == 0, done.stderr
        found = outcome(folder)
        return found["action"], found["champion"], found["reason"], done.stdout.splitlines()

    reason = "rmse is better in version 1"
    line = f"{NAME} version 1 is the champion: {reason}"
    assert promote("1", None) == ("promote", "1", reason, [line])
    assert promote("1", None)[:2] == ("promote", "1")  # the job was restarted
    tags = {version.version: version.tags for version in registry.versions(NAME)}["1"]
    assert (tags[EVIDENCE], tags[JOB]) == (reason, "job")
    late = "the champion is version 1, and the model was compared with none"
    assert promote("2", None)[:3] == ("keep", "1", late)
    tie = promote("2", "1", verdict="keep", reason="no difference")
    assert tie == ("keep", "1", "no difference", [f"{NAME} version 2 is not promoted: no difference"])
    assert promote(None, "1") == ("keep", "1", "accuracy is 0.9", ["no promotion: accuracy is 0.9"])
    assert promote("2", "1")[:2] == ("promote", "2")
    roll_back(registry, NAME)
    barred = "version 2 was rolled back from, and is not promoted again"
    assert promote("2", "1")[:3] == ("keep", "1", barred)
    assert {v.version for v in registry.versions(NAME) if v.tags.get(ROLLED_BACK)} == {"2"}


@smoke
@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"verdict": "maybe"}, "`comparison.json` has no verdict"),
        ({"challenger": {"model": "0b"}}, "the comparison is of another model than the registered one"),
        ({"champion": {"name": "n", "version": "1"}}, "the comparison is with the champion of `n`"),
        ({}, f"`{NAME}` has no version `9`"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    component: Run, registry: Any, tmp_path: Path, more: dict[str, Any], sentence: str
) -> None:
    version = "1" if "challenger" in more else "9"
    done = component("promote", **describe(tmp_path / "steps", version, None, **more))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {sentence}")
    assert "Traceback" not in done.stderr
    assert find_champion(registry.versions(NAME)) is None


@pytest.fixture
def start(
    snapshots: Callable[[str], Path], registry: Any, tmp_path: Path, warm: Callable[..., list[str]]
) -> Callable[..., subprocess.Popen[str]]:
    """Start `promote` of a version as a job."""

    def begin(version: str, champion: str | None, job: str, *, forked: bool = True) -> subprocess.Popen[str]:
        ports = describe(tmp_path / job, version, champion)
        words = [word for name, path in ports.items() for word in (f"--{name}", str(path))]
        tracking = f"sqlite:///{tmp_path / 'mlflow.db'}"
        return subprocess.Popen(
            [*(warm() if forked else ()), sys.executable, "promote.py", *words],
            cwd=snapshots("promote"),
            env=os.environ | {"MLFLOW_TRACKING_URI": tracking, "AZUREML_RUN_ID": job, "PYTHONPATH": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return begin


def champion_of(tmp_path: Path) -> tuple[str | None, list[str]]:
    """The champion, and the versions that are marked."""
    versions = HomeRegistry(tmp_path).versions(NAME)
    champion = find_champion(versions)
    return champion and champion.version, [v.version for v in versions if v.tags.get(CHAMPION) == "true"]


def has_begun(tmp_path: Path, job: str) -> bool:
    return any(v.tags.get(JOB) == job for v in HomeRegistry(tmp_path).versions(NAME))


@pytest.mark.parametrize("times", [pytest.param(5, marks=smoke), pytest.param(20, marks=LONG)])
def test_of_two_promotions_at_the_same_instant_one_wins(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, times: int
) -> None:
    for number in range(times):
        former, _ = champion_of(tmp_path)
        versions = [v for v in ("1", "2", "3") if v != former][:2]
        jobs = {f"job-{number}-{v}": v for v in versions}
        processes = [start(version, former, job) for job, version in jobs.items()]
        while any(process.poll() is None for process in processes):
            assert former is None or champion_of(tmp_path)[0] in {former, *versions}
            time.sleep(0.01)
        for process in processes:
            assert process.wait() == 0, process.communicate()[1]
            process.communicate()
        champion, marked = champion_of(tmp_path)
        assert marked == [champion]
        assert champion in versions
        said = {jobs[job]: outcome(tmp_path / job) for job in jobs}
        assert said[champion]["action"] == "promote"
        # The other one says so, unless it was the champion for a moment.
        other = next(v for v in versions if v != champion)
        assert (said[other]["action"], said[other]["champion"]) in {("keep", champion), ("promote", other)}


@pytest.mark.parametrize("times", [pytest.param(5, marks=smoke), pytest.param(30, marks=LONG)])
def test_a_promotion_killed_at_a_random_moment_is_completed_by_the_next(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, times: int
) -> None:
    draw = random.Random(times)
    for number in range(times):
        former, _ = champion_of(tmp_path)
        version = draw.choice([v for v in ("1", "2", "3") if v != former])
        job = f"killed-{number}"
        process = start(version, former, job, forked=False)
        while process.poll() is None and not has_begun(tmp_path, job):
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.2))
        process.kill()
        process.communicate()
        champion, marked = champion_of(tmp_path)
        assert champion in {former, version}
        assert former is None or champion is not None
        assert len(marked) <= 2
        again = start(version, former, job)  # as the platform restarts it
        assert again.communicate()[1] is not None
        assert again.returncode == 0
        assert champion_of(tmp_path) == (version, [version])
        assert outcome(tmp_path / job)["action"] == "promote"
