"""What `check` says of the inputs of fine-tuning, and what the trainers say before a framework is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from worldsize import check
from wsshards.errors import UserError
from wstrain import fine_tuning, user_code
from wstrain.settings import Settings, parse_settings

SPEC = """
name: tuning
compute: {{cpu: {{target: azureml:cpu, instance_type: {size}}}}}
steps:
  shard: {{uses: shard_data, compute: cpu, with: {{{texts}}}}}
  train: {{uses: {uses}, compute: cpu, with: {{{inputs}}}}}
"""
DIVIDED = 'model: "hf:base", strategy: tensor_parallel}, instance_count: 2, parallelism: {tensor: 2'
CONFIG = {"model_type": "llama", "vocab_size": 300}


def write_model(
    folder: Path, config: str | None = json.dumps(CONFIG), weights: str | None = "model.safetensors"
) -> None:
    folder.mkdir(parents=True)
    if config is not None:
        (folder / "config.json").write_text(config)
    if weights is not None:
        (folder / weights).write_bytes(b"\0" * 16)


def findings(
    folder: Path,
    inputs: str,
    uses: str = "train_ddp",
    texts: str = 'source: "builtin:python-source"',
    size: str = "Standard_D16s_v5",
) -> list[str]:
    spec = folder / "spec.yml"
    spec.write_text(SPEC.format(inputs=inputs, uses=uses, texts=texts, size=size))
    return [
        f"{found.code} {found.message}" for found in check([spec]).diagnostics if found.severity == "error"
    ]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ('model: "hf:"', "WS239 `model` is `hf:`, the Hugging Face model of `initial_model`"),
        (DIVIDED, "cannot divide the Hugging Face model `hf:base`"),
        ("model: gpt, lora_rank: 8", "WS239 `lora_rank` is 8, but LoRA adapts a Hugging Face model"),
        ("model: gpt, lora_rank: -1", "WS614 `lora_rank` is -1"),
        ("model: gpt, layer_learning_rate_decay: 1.5", "WS614 `layer_learning_rate_decay` is 1.5"),
        ("model: gpt, lora_dropout: 2", "WS614 `lora_dropout` is 2"),
        ('model: gpt, freeze: "tokens,,head"', "WS239 `freeze` is `tokens,,head`, with nothing between"),
        ('model: gpt, freeze: "tokens head"', "WS239 `tokens head` in `freeze` has a blank in it"),
        ('model: "hf:base", lora_rank: 4, lora_targets: "q_proj,"', "with nothing between"),
        ('model: "hf:missing"', "WS505 the input names `missing`, which does not exist"),
        ('model: "hf:../base"', "WS505 `../base` is outside the spec's folder"),
        ('model: "hf:/base"', "WS505 `/base` is outside the spec's folder"),
        ('model: "hf:empty"', "WS505 `empty` has no `config.json`, so it is not a Hugging Face model"),
        ('model: "hf:pickled"', "WS505 `pickled` has no weights as `*.safetensors`, only"),
        ('model: "hf:broken"', "WS505 `broken/config.json` is not JSON: line 1, column 2"),
        ('model: "hf:list"', "WS505 `list/config.json` names no `model_type`"),
        ('model: "hg:base"', "WS615 `hg:base` is neither a built-in `model` nor a function of a file"),
        ("model: gpt, initial_weights: x", "WS612 `train_ddp` has no input `initial_weights`"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_found_by_check(tmp_path: Path, inputs: str, message: str) -> None:
    write_model(tmp_path / "base")
    write_model(tmp_path / "empty", config=None)
    write_model(tmp_path / "pickled", weights="pytorch_model.bin")
    write_model(tmp_path / "broken", config="{,}")
    write_model(tmp_path / "list", config="[]")
    found = findings(tmp_path, inputs)
    assert any(message in text for text in found), found


def test_a_list_of_names_is_written_as_a_text(tmp_path: Path) -> None:
    write_model(tmp_path / "base")
    findings(tmp_path, 'model: "hf:base", lora_rank: 4, lora_targets: [q_proj, v_proj]')
    (found,) = check([tmp_path / "spec.yml"]).errors
    assert found.help == 'write one value, such as a text with commas: `lora_targets: "q_proj,v_proj"`'


LLAMA = {
    **CONFIG, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2,
    "max_position_embeddings": 128,
}  # fmt: skip
TEXTS = "data: ./texts, tokenizer: tokenizer.json, sequence_length: {length}"


@pytest.mark.parametrize(
    ("length", "tokens", "targets", "message"),
    [
        (128, 300, "q_proj, mlp.up_proj, model.layers.0.self_attn.k_proj, lm_head", None),
        (129, 300, "q_proj", "WS239 rows have 129 tokens, but `hf:base` has 128 positions"),
        (128, 301, "q_proj", "WS239 `tokenizer.json` has 301 tokens, but `hf:base` has a vocabulary of 300"),
        (128, 300, "v_proj,q_projj", "WS239 `q_projj` in `lora_targets` is not a layer of `hf:base`"),
        (128, 300, "mlp", "WS239 `mlp` in `lora_targets` is not a layer of `hf:base`"),
    ],
)
def test_rows_tokens_and_layers_are_those_of_the_model(
    tmp_path: Path, length: int, tokens: int, targets: str, message: str | None
) -> None:
    write_model(tmp_path / "base", json.dumps(LLAMA))
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("some text " * 100)
    vocabulary = {"model": {"vocab": {f"t{number}": number for number in range(tokens - 1)}}}
    added = {"added_tokens": [{"content": "t1", "id": 1}, {"content": "</s>", "id": tokens - 1}]}
    (texts / "tokenizer.json").write_text(json.dumps(vocabulary | added))
    inputs = f'model: "hf:base", lora_rank: 4, lora_targets: "{targets}"'
    found = findings(tmp_path, inputs, texts=TEXTS.format(length=length))
    assert [text for text in found if message is None or message not in text] == []
    assert len(found) == (message is not None)


@pytest.mark.parametrize(
    ("size", "precision", "uses", "refused"),
    [
        ("Standard_ND40rs_v2", "bf16", "train_ddp", True),
        ("Standard_ND40rs_v2", "auto", "train_ddp", False),
        ("Standard_ND40rs_v2", "fp16", "train_ddp", False),
        ("Standard_NC24ads_A100_v4", "bf16", "train_ddp", False),
        ("Standard_ND40rs_v2", "bf16", "train_tensorflow", False),
    ],
)
def test_bfloat16_needs_a_gpu_that_has_it(
    tmp_path: Path, size: str, precision: str, uses: str, refused: bool
) -> None:
    found = findings(tmp_path, f"model: gpt, precision: {precision}", uses=uses, size=size)
    assert [text[:5] for text in found if "`precision`" in text] == ["WS239"] * refused


@pytest.mark.parametrize(
    "inputs",
    [
        'model: "hf:base", lora_rank: 4, lora_targets: "q_proj, v_proj"',
        'model: gpt, freeze: "tokens.*"',
        "model: gpt",
    ],
)
def test_what_can_be_trained_is_not_reported(tmp_path: Path, inputs: str) -> None:
    write_model(tmp_path / "base")
    assert findings(tmp_path, inputs) == []


def test_only_pytorch_trains_hugging_face_models(tmp_path: Path) -> None:
    write_model(tmp_path / "base")
    found = findings(tmp_path, 'model: "hf:base"', uses="train_tensorflow")
    assert any("only the PyTorch components train" in text for text in found), found


def test_the_folder_of_the_model_joins_the_code_of_its_step(tmp_path: Path) -> None:
    import worldsize

    write_model(tmp_path / "models" / "base")
    assert findings(tmp_path, 'model: "hf:models/base"') == []
    worldsize.compile(tmp_path / "spec.yml", tmp_path / "out")
    merged = sorted(path.name for path in (tmp_path / "out").rglob("models/base/*"))
    assert merged == ["config.json", "model.safetensors"]


def settings(tmp_path: Path, **values: Any) -> Settings:
    arguments = ["--shards", str(tmp_path), "--checkpoints", str(tmp_path), "--trained_model", str(tmp_path)]
    arguments += [part for name, value in values.items() for part in (f"--{name}", str(value))]
    return parse_settings(
        arguments, started=1, strategies=["ddp", "pipeline_parallel"], options=[fine_tuning.add_fine_tuning]
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "hf:"}, "`initial_model`, which is not given"),
        ({"model": "hf:nowhere"}, "model folder `nowhere` does not exist in the code folder"),
        ({"model": "hf:../base"}, "is outside the code folder"),
        (
            {"model": "hf:", "strategy": "pipeline_parallel", "world_size": 2},
            "cannot divide the Hugging Face model",
        ),
        ({"lora_rank": 4}, "LoRA adapts a Hugging Face model"),
        ({"lora_targets": "q_proj"}, "`lora_rank` is 0, which turns LoRA off"),
        ({"freeze": "a,"}, "nothing between two commas"),
        ({"initial_model": "no/such"}, "`initial_model` is `such`, which does not exist"),
    ],
)
def test_the_trainer_refuses_before_it_loads_torch(
    tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        fine_tuning.expect_fine_tuning(settings(tmp_path, **values))


def test_a_rate_that_grows_towards_the_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"1.5 is above 1"):
        settings(tmp_path, layer_learning_rate_decay=1.5)


def test_a_folder_is_not_taken_for_a_function() -> None:
    assert not user_code.is_reference("hf:models/base")
    assert user_code.is_reference("models/net.py:build")
