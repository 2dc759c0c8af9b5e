"""The wheel alone is the product: what it holds, and the tests of what needs its data run against it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.run, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
RULES = Path("worldsize/rules")
LONGEST_OF_SAME = 100  # bytes; an `__init__.py` with one line may be like another


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as it is built."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)],
        check=True,
        timeout=300,
    )
    (wheel,) = folder.glob("worldsize-*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """A folder into which the wheel was unpacked, as an installer would."""
    site = wheel.with_name("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


@pytest.fixture(scope="module")
def contents(wheel: Path) -> dict[str, bytes]:
    """What the wheel holds, by path."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.smoke
def test_it_carries_components_schemas_pages_and_no_tests(contents: dict[str, bytes]) -> None:
    assert "worldsize/_data/schemas/spec.schema.json" in contents
    assert "worldsize/_data/components/train_ddp/component.yml" in contents
    assert "worldsize/_data/components/_shared/wstrain/data/step_counts.py" in contents
    assert not [name for name in contents if Path(name).match("test_*.py") or name.endswith(".pyc")]


@pytest.mark.smoke
def test_it_holds_nothing_twice_and_nothing_outside_of_its_package(contents: dict[str, bytes]) -> None:
    by_content: dict[bytes, list[str]] = {}
    for name, content in contents.items():
        if len(content) > LONGEST_OF_SAME:
            by_content.setdefault(content, []).append(name)
    assert [names for names in by_content.values() if len(names) > 1] == []
    assert {name.partition("/")[0].partition("-")[0] for name in contents} == {"worldsize"}


@pytest.mark.smoke
def test_it_runs_where_nothing_else_of_the_clone_is(installed: Path, tmp_path: Path) -> None:
    """`-S` leaves out the .pth files, so the clone's own packages; the libraries are named by hand."""
    libraries = sysconfig.get_path("purelib")
    path = f"import sys; sys.path += [{str(installed)!r}, {libraries!r}]"
    code = f"{path}; from worldsize.__main__ import main; main()"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code, "plan", str(ROOT / "pipelines/diabetes_ddp.yml")],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "steps per epoch" in ran.stdout


def test_it_compiles_checks_and_explains(installed: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    where = subprocess.run(
        [sys.executable, "-c", "import worldsize; print(worldsize.__file__)"],
        env=environment, cwd=installed, capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    assert str(installed) in where
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not run and not bench", "-p", "no:cacheprovider",
         "tests/golden", "tests/rules/test_catalogue.py", "tests/unit/test_facts.py"],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-3000:]
