"""The pictures of `estimate`, `plan` and `advise`: what they show, and that they are the same each time."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from worldsize.cli.main import main
from worldsize.planning.resilience import Saving, find_saving_share

pytest.importorskip("matplotlib")

ESTIMATE = """\
workload: {kind: transformer, parameters: 6.65e9, layers: 32, width: 4096, heads: 32, vocabulary: 50368,
           sequence_length: 2048}
training: {micro_batch: 1, accumulation: 8, precision: bf16, parallelism: {tensor: 2, pipeline: 4}}
cluster: {instance_type: Standard_ND96isr_H100_v5, instance_count: 2}
"""
SPEC = """\
name: language
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_ND96isr_H100_v5, tier: TIER}
steps:
  train:
    compute: gpu
    instance_count: 2
    command: python -m language.train --batch-size ${{plan.batch_size_per_device}}
    environment: azureml:language:1
    distribution: {type: pytorch}
    outputs: {checkpoints: {type: uri_folder}}
    timeout: 604800
    scale:
      rows: 5000000
      epochs: 2
      reference: {batch_size: 64, learning_rate: 0.0003}
      optimizer: adamw
      rule: none
      batch_size_per_device: 8
      workload: {kind: transformer, parameters: 1.3e9, layers: 24, width: 2048, heads: 16,
                 vocabulary: 50368, sequence_length: 2048}
      arithmetic: {precision: bf16, strategy: ddp}
"""


def write_spec(folder: Path, tier: str = "dedicated") -> Path:
    path = folder / "spec.yml"
    path.write_text(SPEC.replace("TIER", tier), encoding="utf-8")
    return path


def ask(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def draw(file: Path, *words: object) -> str:
    result = ask(*words, "--plot", file)
    assert result.exit_code == 0, result.output
    return file.read_text(encoding="utf-8")


def test_an_estimate_shows_every_part_of_a_step(tmp_path: Path) -> None:
    path = tmp_path / "estimate.yml"
    path.write_text(ESTIMATE, encoding="utf-8")
    picture = draw(tmp_path / "a.svg", "estimate", path)
    for part in ("compute", "memory", "exposed", "communication", "bubble", "samples per second"):
        assert f">{part}<" in picture
    assert ">checkpoint<" not in picture


def test_a_plan_shows_checkpoints_where_instances_may_be_evicted(tmp_path: Path) -> None:
    path = write_spec(tmp_path, "low_priority")
    assert ">checkpoint<" in draw(tmp_path / "a.svg", "plan", path)
    assert ">checkpoint<" not in draw(tmp_path / "b.svg", "plan", write_spec(tmp_path))


def test_a_plan_without_a_known_speed_has_no_picture(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.index("      workload")], encoding="utf-8")
    result = ask("plan", path, "--plot", tmp_path / "a.svg")
    assert result.exit_code == 1
    assert "there is nothing to draw: `train`: no speed of this model on this data is known" in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "a.svg").exists()


def test_advice_shows_the_front_with_its_names_and_the_limits(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    words = ("advise", path, "--deadline", "24h", "--budget", "3000")
    picture = draw(tmp_path / "a.svg", *words)
    assert picture == draw(tmp_path / "b.svg", *words)
    for text in ("train: time against cost", "deadline: 24 hours", "budget: 3,000", "present"):
        assert text in picture
    assert ">1:  16 × ND96isr_H100_v5<" in picture
    assert "<svg" in draw(tmp_path / "a.html", *words)


@pytest.mark.parametrize("command", ["advise", "plan"])
def test_a_picture_has_one_of_two_formats(tmp_path: Path, command: str) -> None:
    result = ask(command, write_spec(tmp_path), "--plot", tmp_path / "a.png")
    assert result.exit_code == 2
    assert "does not end with `.svg` or `.html`" in result.stderr


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    result = ask("advise", write_spec(tmp_path), "--plot", tmp_path / "none" / "a.svg")
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


def test_more_instances_save_more_often() -> None:
    saving = Saving(30, 36_000, 1)
    assert find_saving_share(saving, 1) == pytest.approx(0.02, rel=0.05)
    assert find_saving_share(saving, 4) == pytest.approx(2 * find_saving_share(saving, 1), rel=0.05)
