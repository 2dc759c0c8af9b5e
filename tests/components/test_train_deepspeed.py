"""train_deepspeed in real process groups: every ZeRO stage walks the loss curve of one process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.timeout(400)]

Training = Callable[..., Any]
# Steps of 16 texts in micro-batches of 4: two processes take two micro-batches each.
GPT = {"model": "gpt", "gpt_layers": 2, "gpt_heads": 2, "gpt_width": 32, "optimizer": "adamw"}
GPT |= {"weight_decay": 0.1, "batch_size_per_device": 4, "global_batch_size": 16}
GPT |= {"learning_rate": 0.003, "epochs": 1, "stop_after_steps": 8, "checkpoint_every_epochs": 0}


@pytest.fixture(scope="session")
def python_source(built_in_shards: Callable[[str], Path]) -> Path:
    return built_in_shards("python-source")


@pytest.fixture(scope="session")
def alone(training: Training, python_source: Path) -> Any:
    run = training(1, shards=python_source, gradient_accumulation_steps=4, **GPT)
    assert run.ok, run.errors
    return run


@pytest.fixture(scope="session")
def zero(training: Training, python_source: Path) -> Callable[..., Any]:
    done: dict[Any, Any] = {}

    def run(stage: int, processes: int = 2, **values: Any) -> Any:
        key = (stage, processes, json.dumps(values, default=str))
        if key not in done:
            common = {**GPT, "shards": python_source, "gradient_accumulation_steps": 4 // processes}
            common |= {"component": "train_deepspeed", "strategy": "deepspeed", "zero_stage": stage}
            done[key] = training(processes, **{**common, **values})
        return done[key]

    return run


def assert_on_curve(run: Any, reference: Any, steps: range) -> None:
    assert run.ok, run.errors
    assert sorted(run.losses) == list(steps)
    for step in steps:
        assert run.losses[step] == pytest.approx(reference.losses[step], rel=1e-3), f"step {step}"


@pytest.mark.parametrize(
    "stage", [pytest.param(0, marks=pytest.mark.smoke), 1, 2, pytest.param(3, marks=pytest.mark.smoke)]
)
def test_the_loss_of_every_step_is_that_of_one_process(
    alone: Any, zero: Callable[..., Any], stage: int
) -> None:
    assert_on_curve(zero(stage), alone, range(1, 9))


def test_gradients_have_their_own_length_and_are_cut_to_the_planned_one(
    zero: Callable[..., Any], training: Training, python_source: Path, tmp_path: Path
) -> None:
    # Adam hides a wrong factor in the gradients; SGD does not.
    sgd = {"optimizer": "sgd", "learning_rate": 0.1, "max_gradient_norm": 0.7, "stop_after_steps": 5}
    reference = training(1, shards=python_source, gradient_accumulation_steps=4, **{**GPT, **sgd})
    run = zero(2, env={"TORCH_EXTENSIONS_DIR": str(tmp_path)}, **sgd)
    assert_on_curve(run, reference, range(1, 6))
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]  # an extension takes a minute to build


def test_a_checkpoint_fits_any_stage_any_ranks_and_no_deepspeed_at_all(
    alone: Any, zero: Callable[..., Any], training: Training, python_source: Path
) -> None:
    stopped = zero(3, stop_after_steps=4)
    assert stopped.ok, stopped.errors
    checkpoints = stopped.folder / "checkpoints"
    assert_on_curve(zero(1, resume_from=checkpoints), alone, range(5, 9))
    assert_on_curve(zero(3, 1, resume_from=checkpoints), alone, range(5, 9))
    plain = training(1, shards=python_source, gradient_accumulation_steps=4, resume_from=checkpoints, **GPT)
    assert_on_curve(plain, alone, range(5, 9))


def test_a_checkpoint_of_ddp_goes_on_under_zero(
    alone: Any, zero: Callable[..., Any], training: Training, python_source: Path
) -> None:
    stopped = training(
        1, shards=python_source, gradient_accumulation_steps=4, **{**GPT, "stop_after_steps": 4}
    )
    assert_on_curve(zero(3, resume_from=stopped.folder / "checkpoints"), alone, range(5, 9))


def test_a_sharded_checkpoint_goes_on_under_zero(
    alone: Any, zero: Callable[..., Any], training: Training, python_source: Path
) -> None:
    """Every rank reads all of it, also those whose own state was gathered by rank 0."""
    half = {"strategy": "fsdp", "gradient_accumulation_steps": 2, "stop_after_steps": 4}
    stopped = training(2, shards=python_source, **{**GPT, **half})
    assert stopped.ok, stopped.errors
    assert_on_curve(zero(2, resume_from=stopped.folder / "checkpoints"), alone, range(5, 9))


def test_half_as_wide_weights_and_a_configuration_of_one_s_own(
    alone: Any, zero: Callable[..., Any], tmp_path: Path
) -> None:
    own = tmp_path / "ds.json"
    own.write_text('{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}, "gradient_clipping": 1.0}')
    run = zero(3, ds_config=own, precision="bf16", stop_after_steps=4)
    assert run.ok, run.errors
    assert [run.losses[step] for step in range(1, 5)] == pytest.approx(
        [alone.losses[step] for step in range(1, 5)], rel=0.02
    )


def test_without_zero_sixteen_bits_are_autocast_s(alone: Any, zero: Callable[..., Any]) -> None:
    run = zero(0, 1, precision="bf16", stop_after_steps=3)
    assert run.ok, run.errors
    assert run.losses[3] == pytest.approx(alone.losses[3], rel=0.02)


@pytest.mark.smoke
def test_a_configuration_against_the_plan_stops_before_training(
    zero: Callable[..., Any], tmp_path: Path
) -> None:
    own = tmp_path / "ds.json"
    own.write_text('{"train_batch_size": 64, "zero_optimization": {"stage": 2}}')
    run = zero(2, ds_config=own)
    assert {rank.status for rank in run.ranks} == {2}
    for rank in run.ranks:
        lines = [line for line in rank.stderr.splitlines() if line.startswith(("error", "Traceback"))]
        assert len(lines) == 1, rank.stderr
        assert "`train_batch_size` is 64" in lines[0]
        assert "16" in lines[0]
