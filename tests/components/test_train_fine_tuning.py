"""Fine-tuning in process groups: Hugging Face models, LoRA, initial weights, frozen layers, rates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
pytestmark = [
    pytest.mark.run,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:The given buffer is not writable"),  # torch 2.10, of what it loads
]

Training = Callable[..., Any]
GROUP = 16  # samples of one step
LAW = {
    "epochs": 0.01,
    "stop_after_steps": 4,
    "optimizer": "adamw",
    "weight_decay": 0.1,
    "learning_rate": 0.01,
}
LAW |= {"batch_size_per_device": 4, "global_batch_size": GROUP, "max_gradient_norm": 1.0}
LORA = {"model": "hf:", "lora_rank": 4, "checkpoint_every_steps": 2}
GPT = {"model": "gpt", "gpt_layers": 2, "gpt_width": 32}


@pytest.fixture(scope="module")
def text(built_in_shards: Callable[[str], Path]) -> Path:
    return built_in_shards("python-source")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny causal language model, as `save_pretrained` writes it."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(
        vocab_size=272, num_key_value_heads=2, max_position_embeddings=256, **sizes
    )
    folder: Path = tmp_path_factory.mktemp("llama")
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def train(training: Training, text: Path) -> Callable[..., Any]:
    """Train at a number of processes on the same global batches; must go well."""

    def run(processes: int, **values: Any) -> Any:
        plan = LAW | {"shards": text, "gradient_accumulation_steps": GROUP // 4 // processes} | values
        done = training(processes, **plan)
        assert done.ok, done.errors
        return done

    return run


@pytest.fixture(scope="module")
def adapted(train: Callable[..., Any], llama: Path) -> Any:
    """One process with adapters: the reference."""
    return train(1, initial_model=llama, **LORA)


def assert_on_curve(run: Any, reference: Any, steps: list[int]) -> None:
    assert sorted(run.losses) == steps
    for step in steps:
        assert run.losses[step] == pytest.approx(reference.losses[step], rel=1e-4), f"step {step}"


def exported(run: Any) -> dict[str, Any]:
    """Weights of the MLflow model, which must be whole and ordinary tensors."""
    (program,) = (run.folder / "model").rglob("program.pt2")
    return dict(torch.export.load(program).state_dict)


# The other strategies of the same loop are in the test of the strategy's own file.
@pytest.mark.parametrize(
    ("component", "choices"),
    [
        ("train_ddp", {"strategy": "fsdp", "activation_checkpointing": "blocks"}),
        ("train_deepspeed", {"strategy": "deepspeed", "zero_stage": 3}),
    ],
)
def test_adapters_train_on_the_curve_of_one_process(
    train: Callable[..., Any], adapted: Any, llama: Path, component: str, choices: dict[str, Any]
) -> None:
    run = train(2, component=component, initial_model=llama, **LORA | choices)
    assert_on_curve(run, adapted, [1, 2, 3, 4])
    whole, own = exported(adapted), exported(run)
    assert own.keys() == whole.keys()
    assert not [name for name in whole if "lora" in name]  # merged
    for name, tensor in whole.items():
        assert torch.allclose(own[name], tensor, atol=2e-5), name


def test_adapters_resume_with_another_strategy(train: Callable[..., Any], adapted: Any, llama: Path) -> None:
    checkpoints = adapted.folder / "checkpoints"
    for path in checkpoints.glob("step-00000004"):
        path.rename(adapted.folder / path.name)
    run = train(2, initial_model=llama, strategy="fsdp", resume_from=checkpoints, **LORA)
    assert "resuming from checkpoint step-00000002: 2 steps done" in run.ranks[0].stdout
    assert_on_curve(run, adapted, [3, 4])


def test_the_exported_model_is_served_without_transformers(
    adapted: Any, text: Path, serve: Callable[..., dict[str, Any]]
) -> None:
    served = serve(adapted.folder / "model", text)
    assert served["bits"] < 8.2
    assert served["metadata"]["model"] == "hf:"


@pytest.mark.smoke
def test_frozen_parameters_and_rates_by_layer_are_the_same_on_any_strategy(train: Callable[..., Any]) -> None:
    tuning = {
        "freeze": "tokens,blocks.0.attention.*",
        "layer_learning_rate_decay": 0.5,
        "lr_schedule": "constant",
    }
    start = train(1, stop_after_steps=2, **GPT)
    first = exported(start)
    base = {"initial_model": start.folder / "model", **GPT, **tuning}
    alone = train(1, **base)
    assert "initial weights: all of program.pt2" in alone.ranks[0].stdout
    spread = train(2, strategy="fsdp", **base)
    assert_on_curve(spread, alone, [1, 2, 3, 4])
    for run in (alone, spread):
        own = exported(run)
        kept = {name for name, tensor in own.items() if torch.equal(tensor, first[name])}
        assert kept == {name for name in own if ".tokens." in name or ".blocks.0.attention." in name}
