"""The parts of fine-tuning, in one process: weights, frozen parameters, Hugging Face folders, adapters."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wsshards import manifest as m
from wsshards.errors import UserError

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.run, pytest.mark.smoke]

from wstrain.checkpoint import checkpoint_folder  # noqa: E402
from wstrain.settings import OptimizerOptions  # noqa: E402
from wstrain_torch import export, models, optimizers  # noqa: E402
from wstrain_torch.data import Task, make_task  # noqa: E402
from wstrain_torch.freezing import freeze_parameters  # noqa: E402
from wstrain_torch.initial_weights import load_initial_weights  # noqa: E402
from wstrain_torch.layer_rates import layer_rates  # noqa: E402
from wstrain_torch.models import hugging_face, lora  # noqa: E402
from wstrain_torch.models.layers import ModelOptions  # noqa: E402

LANGUAGE = make_task(
    "language_model", (17,), "uint16", 0, tokenizer=m.Tokenizer("bytes", 257, end_of_text=256)
)
LABELS = make_task("classification", (16,), "uint16", 3, tokenizer=m.Tokenizer("bytes", 257, padding=256))
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"vocab_size": 260, "max_position_embeddings": 32}


def gpt(task: Task = LANGUAGE, layers: int = 2, width: int = 16) -> Any:
    torch.manual_seed(layers)
    return models.build_model("gpt", task, ModelOptions(layers, 2, width), sample=None)


def saved(model: Any, path: Path) -> Path:
    torch.save(model.state_dict(), path)
    return path


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("base") / "llama"
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("base") / "bert"
    transformers.BertForMaskedLM(transformers.BertConfig(**SIZES)).save_pretrained(folder)
    return folder


def test_weights_are_found_in_whatever_holds_them(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    first, wanted = gpt(), gpt().state_dict()
    torch.export.save(export.export_program(first, LANGUAGE), tmp_path / "program.pt2")
    wrapped = {f"module.{name}": tensor for name, tensor in wanted.items()}
    torch.save({"epoch": 3, "state_dict": wrapped}, tmp_path / "last.pt")
    save_file(wanted, tmp_path / "model.safetensors")
    for step, state in ((2, wanted), (4, gpt(layers=2, width=16).state_dict())):
        about = {"validation": {"best_step": 2}}
        whole = {"step": step, "model": state if step == 2 else {n: t + 1 for n, t in state.items()}}
        keep = checkpoint_folder.Retention(2)
        checkpoint_folder.save_checkpoint(tmp_path / "checkpoints", step, whole, {}, keep=keep, about=about)
    for name in ("program.pt2", "last.pt", "model.safetensors", "checkpoints", "checkpoints/step-00000002"):
        torch.manual_seed(9)
        other = models.build_model("gpt", LANGUAGE, ModelOptions(2, 2, 16), sample=None)
        load_initial_weights(other, tmp_path / name)
        assert all(torch.equal(tensor, wanted[key]) for key, tensor in other.state_dict().items()), name


def test_only_the_last_layer_may_differ(tmp_path: Path) -> None:
    five = make_task("classification", (16,), "uint16", 5, tokenizer=LABELS.tokenizer)
    path = saved(gpt(LABELS), tmp_path / "weights.pt")
    model = gpt(five)
    head = model.head.weight.clone()
    said = load_initial_weights(model, path)
    assert said == (
        "initial weights: weights.pt, but the last layer is new:"
        " head.bias [5] ([3] there), head.weight [5, 16] ([3, 16] there)"
    )
    assert torch.equal(model.head.weight, head)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: gpt(width=32),
            r"`tokens.weight` has shape \[257, 32\] there and \[257, 16\] here; .*, and \d+ more",
        ),
        (lambda: gpt(layers=1), r"`blocks.1.norm_1.weight` \[16\] is missing there; .*, and 9 more"),
        (
            lambda: torch.nn.Linear(2, 2),
            "no parameter of the model has a name of `initial_model`: `weight`, `bias`",
        ),
    ],
)
def test_weights_of_another_model_are_refused(tmp_path: Path, make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_initial_weights(gpt(), saved(make(), tmp_path / "weights.pt"))


def test_nothing_that_could_run_code_is_read(tmp_path: Path) -> None:
    for name, content, message in (
        ("a", None, "`a`, which has no weights of PyTorch in it"),
        ("b", {"b.pt": Path}, "holds more than tensors, which loading would execute"),
        ("c", {"c.pt": [1]}, "holds a list, not a state_dict"),
        ("d", {"d.pt": {}}, "holds no tensors"),
        (
            "e",
            {"e.pt": {"w": torch.ones(1)}, "f.pt": {"w": torch.ones(1)}},
            "2 files of weights: `e.pt`, `f.pt`",
        ),
    ):
        folder = tmp_path / name
        folder.mkdir()
        for file, value in (content or {}).items():
            torch.save(value, folder / file)
        with pytest.raises(UserError, match=message):
            load_initial_weights(gpt(), folder)
    for file in ("a.pt2", "a.safetensors", "a.pt"):
        (tmp_path / file).write_bytes(b"PK not a file of weights")
        with pytest.raises(UserError, match=f"`{file}` of `initial_model`"):
            load_initial_weights(gpt(), tmp_path / file)


def test_frozen_parameters_are_not_trained_and_keep_their_statistics() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    assert freeze_parameters(model, ["0", "1.*"]) == 3 * 4 + 4 + 4 + 4
    before = model[1].running_mean.clone()
    model.train()(torch.randn(8, 3) + 5)
    assert torch.equal(model[1].running_mean, before)
    optimizer = optimizers.build_optimizer(model, OptimizerOptions("adam"), 0.1)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 2
    with pytest.raises(UserError, match=r"`0.weigth` in `freeze` matches no parameter") as raised:
        freeze_parameters(model, ["0.weigth"])
    assert "`0.weight`" in (raised.value.help or "")
    with pytest.raises(UserError, match="`freeze` leaves nothing to train"):
        freeze_parameters(model, ["*"])


def test_rates_fall_from_block_to_block_towards_the_input() -> None:
    model = gpt()
    rates = layer_rates(model, 0.5)
    assert rates["head.weight"] == rates["norm.weight"] == 1
    assert rates["blocks.1.grow.weight"] == 0.5
    assert rates["blocks.0.norm_1.bias"] == 0.25
    assert rates["tokens.weight"] == 0.125
    optimizer = optimizers.build_optimizer(model, OptimizerOptions("adamw", rates=rates), 0.1)
    optimizers.set_learning_rate(optimizer, 0.8)
    assert sorted({group["lr"] for group in optimizer.param_groups}) == pytest.approx([0.1, 0.2, 0.4, 0.8])
    numbered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    named = dict(model.named_parameters())
    assert [id(named[name]) for name in optimizers.parameter_order(model, rates)] == [id(p) for p in numbered]
    with pytest.raises(UserError, match=r"`layer_learning_rate_decay: 0.5` works block by block"):
        layer_rates(torch.nn.Linear(2, 2), 0.5)


def test_an_encoder_classifies_and_its_padding_is_not_read(
    bert: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = hugging_face.build_model(bert, LABELS, "hf:bert").eval()
    assert "new and not pretrained: bert.pooler.dense.bias" in capsys.readouterr().out
    short, padded = torch.tensor([[5, 6]]), torch.tensor([[5, 6, 256, 256]])
    assert torch.allclose(model(short), model(padded), atol=1e-6)
    lora.add_adapters(model, LABELS, lora.LoraOptions(2, 4.0, 0.0, ["query", "value"]))
    trained = {name.split(".")[-2] for name, p in model.named_parameters() if p.requires_grad}
    assert trained == {"default"}  # adapters and the copy of the head
    program = export.export_program(lora.merge_adapters(model), LABELS).module()
    assert program(torch.from_numpy(np.array([[5, 6, *[256] * 14]] * 3, np.uint16))).shape == (3, 3)


def test_an_unknown_target_is_named_with_what_there_is(llama: Path) -> None:
    model = hugging_face.build_model(llama, LANGUAGE, "hf:llama")
    with pytest.raises(UserError, match="`q_projection` in `lora_targets` is not a layer") as raised:
        lora.add_adapters(model, LANGUAGE, lora.LoraOptions(2, 4.0, 0.0, ["q_projection"]))
    assert "did you mean `q_proj`?" in (raised.value.help or "")


def edited(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def vocabulary(path: Path, *tokens: str) -> None:
    path.write_text(json.dumps({"model": {"vocab": {token: number for number, token in enumerate(tokens)}}}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda at: edited(at, vocab_size=100), "257 tokens, but `hf:x` has a vocabulary of 100"),
        (lambda at: edited(at, max_position_embeddings=8), "rows of 16 tokens, but `hf:x` has 8 positions"),
        (lambda at: edited(at, hidden_size=32), r"its `config.json`: `.*` has shape \[.*\] in the file"),
        (lambda at: edited(at, num_hidden_layers=3), "its `config.json`: `model.layers.2.* is missing"),
        (lambda at: edited(at, model_type="no-such"), "`hf:x` cannot be loaded for language_model"),
        (lambda at: edited(at, model_type=3), "names no `model_type`"),
        (lambda at: (at / "config.json").write_text("{"), "`config.json` is not JSON"),
        (lambda at: (at / "config.json").unlink(), "cannot read `config.json`"),
        (lambda at: (at / "model.safetensors").rename(at / "model.bin"), "only `model.bin`, whose format"),
        (lambda at: (at / "model.safetensors").write_bytes(b"x"), "cannot be loaded for language_model"),
        (lambda at: vocabulary(at / "tokenizer.json", "a", "b"), "the shards hold bytes, but `hf:x`"),
    ],
)  # fmt: skip
def test_a_folder_that_does_not_fit_is_refused(
    tmp_path: Path, llama: Path, change: Callable[[Path], Any], message: str
) -> None:
    folder = tmp_path / "x"
    shutil.copytree(llama, folder)
    change(folder)
    with pytest.raises(UserError, match=message):
        hugging_face.build_model(folder, LANGUAGE, "hf:x", tmp_path)


def test_another_tokenizer_than_the_models_is_refused(tmp_path: Path, llama: Path) -> None:
    shutil.copytree(llama, tmp_path / "x")
    vocabulary(tmp_path / "x" / "tokenizer.json", "a", "b")
    vocabulary(tmp_path / "tokenizer.json", "b", "a")
    tokens = m.Tokenizer("bpe", 2, end_of_text=1, path="tokenizer.json")
    task = make_task("language_model", (17,), "uint16", 0, tokenizer=tokens)
    with pytest.raises(UserError, match="the token `b` is number 0 there and 1 in the model"):
        hugging_face.build_model(tmp_path / "x", task, "hf:x", tmp_path)


def test_what_reads_no_text_or_sees_the_next_token_is_refused(bert: Path, llama: Path) -> None:
    with pytest.raises(UserError, match="`hf:bert` is not a decoder: each token sees the ones after it"):
        hugging_face.build_model(bert, LANGUAGE, "hf:bert")
    with pytest.raises(UserError, match="the shards are of numbers, for classification"):
        hugging_face.build_model(llama, make_task("classification", (4,), "float32", 2), "hf:llama")


def test_a_model_is_found_where_mlflow_keeps_it(tmp_path: Path, llama: Path) -> None:
    with pytest.raises(UserError, match="`initial_model` has no Hugging Face model"):
        hugging_face.find_folder(tmp_path)
    shutil.copytree(llama, tmp_path / "model")
    assert hugging_face.find_folder(tmp_path) == tmp_path / "model"
    shutil.copytree(llama, tmp_path / "other")
    with pytest.raises(UserError, match="`initial_model` has 2 Hugging Face models: `model`, `other`"):
        hugging_face.find_folder(tmp_path)
