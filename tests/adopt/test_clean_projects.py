"""What `adopt` writes has no finding, whatever the script, the size and the count."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from worldsize import checking
from worldsize.cli.main import main

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
SIZES = ("Standard_D16s_v5", "Standard_NC40ads_H100_v5", "Standard_NC64as_T4_v3", "Standard_ND96isr_H100_v5")
COUNTS = (1, 2, 3)


def _adopt(folder: Path, script: Path, size: str, count: int) -> list[str]:
    """Write the project of a script into a folder; returns the codes of its findings."""
    shutil.copy(script, folder / "train.py")
    options = ["--no-run", "-o", str(folder / "job"), "--instance-type", size, "--instance-count", str(count)]
    done = CliRunner().invoke(main, ["adopt", str(folder / "train.py"), *options])
    assert done.exit_code == 0, done.output
    return [found.code for found in checking.check([folder / "job"]).diagnostics if found.severity != "info"]


def test_the_batch_stays_where_the_rule_of_the_rate_holds(tmp_path: Path) -> None:
    """Adam on 16 GPUs: a batch 16 times as large would be beyond the square-root rule."""
    assert _adopt(tmp_path, SCRIPTS[3].with_name("gradient_accumulation.py"), SIZES[3], 2) == []

    scale = yaml.safe_load((tmp_path / "job" / "train.yml").read_text())["steps"]["train"]["scale"]
    assert scale["global_batch_size"] == 8 * scale["reference"]["batch_size"]
    assert "gradient_accumulation_steps" not in scale


@pytest.mark.run
@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", COUNTS)
def test_projects_of_all_scripts_are_clean(tmp_path: Path, size: str, count: int) -> None:
    slow = ["WS224"] if size == "Standard_NC64as_T4_v3" and count > 1 else []  # several without InfiniBand
    for script in SCRIPTS:
        folder = tmp_path / script.stem
        folder.mkdir()
        assert _adopt(folder, script, size, count) in ([], slow), script.name
