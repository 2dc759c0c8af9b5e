"""Models of the library ``transformers``, from a folder on disk: nothing is downloaded, no code in it is run.

The folder is what ``save_pretrained`` writes: ``config.json`` and weights as ``*.safetensors``. A language
model is loaded by ``AutoModelForCausalLM``, a classification of texts by
``AutoModelForSequenceClassification`` with as many outputs as the shards have classes.
"""

from __future__ import annotations

import importlib
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wsshards.errors import UserError, describe_error
from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL
from wstrain import user_code
from wstrain_torch.data import Task

CONFIG, WEIGHTS, TOKENIZER = "config.json", "*.safetensors", "tokenizer.json"
_CLASSES = {
    LANGUAGE_MODEL: "AutoModelForCausalLM",
    CLASSIFICATION: "AutoModelForSequenceClassification",
}
_SHOWN = 3  # names in a message
_DEPTH = 3  # levels of folders below `initial_model`: MLflow keeps a model in `model`
# What a checkpoint of a language model lacks of a classifier, beside its head.
_NEW_LAYERS = (".pooler.", "pooler.")


class HuggingFaceModel(nn.Module):
    """A model of ``transformers`` as the training calls one: token numbers in, scores out.

    Args:
        network: the model, perhaps with adapters.
        task: what it learns.
    """

    def __init__(self, network: nn.Module, task: Task) -> None:
        super().__init__()
        assert task.tokenizer is not None
        self.network: Any = network
        self.blocks = find_repeated_layers(network)
        self._outputs = task.outputs
        # A language model sees no token after the one it reads, so padding at the end changes nothing.
        self._padding = task.tokenizer.padding if task.name == CLASSIFICATION else None

    def forward(self, tokens: Tensor) -> Tensor:
        """``[n, t] -> [n, t, vocabulary]`` of a language model, ``[n, classes]`` of a classification."""
        options: dict[str, Any] = {"use_cache": False} if self._padding is None else {}
        if self._padding is not None:
            options["attention_mask"] = (tokens != self._padding).long()
        scores: Tensor = self.network(input_ids=tokens, **options).logits
        return scores[..., : self._outputs]  # a vocabulary may be padded to a round size


def build_model(folder: Path, task: Task, name: str, shards: Path | None = None) -> HuggingFaceModel:
    """Load the model of ``folder`` for ``task``.

    Args:
        folder: with ``config.json`` and ``*.safetensors``.
        task: the model's inputs and outputs.
        name: what the user calls the model, for messages.
        shards: the folder that has the tokenizer of the texts.

    Raises:
        UserError: ``transformers`` is not installed, the folder does not hold such a model, or it does not
            fit the shards.
    """
    if task.tokenizer is None or task.name not in _CLASSES:
        what = "numbers" if task.tokenizer is None else "text"
        raise UserError(
            f"model `{name}` reads text, for a language model or a classification; the shards are of {what},"
            f" for {task.name}",
            "use `cnn` or `mlp` for pictures and tables",
        )
    config = read_config(folder, name)
    _expect_weights(folder, name)
    _expect_fit(config, folder, task, name, shards)
    network = _load(folder, task, name)
    if task.name == CLASSIFICATION:
        network.config.pad_token_id = task.tokenizer.padding  # where a decoder looks for the last token
    model = HuggingFaceModel(network, task)
    with torch.no_grad():
        user_code.expect_outputs(lambda: model.eval()(task.example(2)), task, name)
        if task.name == LANGUAGE_MODEL:
            _expect_causal(model, task, name)
    return model.train()


def find_folder(folder: Path) -> Path:
    """Return the folder with a Hugging Face model in ``folder``, itself or one below, as MLflow keeps it.

    Raises:
        UserError: there is none, or several.
    """
    if (folder / CONFIG).is_file():
        return folder
    found = [
        path.parent
        for depth in range(1, _DEPTH + 1)
        for path in sorted(folder.glob("/".join(["*"] * depth + [CONFIG])))
        if any(path.parent.glob(WEIGHTS))
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"`{path.relative_to(folder)}`" for path in found[:_SHOWN])
    raise UserError(
        f"`initial_model` has {len(found)} Hugging Face models: {names}"
        if found
        else f"`initial_model` has no Hugging Face model: there is no `{CONFIG}` with `{WEIGHTS}` beside it",
        "bind the folder that `save_pretrained` wrote",
    )


def read_config(folder: Path, name: str) -> Mapping[str, Any]:
    """Read ``config.json``.

    Raises:
        UserError: there is none, or it is not what ``save_pretrained`` writes.
    """
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"`{name}`: cannot read `{CONFIG}`: {describe_error(error)}",
            "the folder must be what `save_pretrained` writes",
        ) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"`{name}`: `{CONFIG}` is not JSON: {describe_error(error)}") from None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise UserError(
            f"`{name}`: `{CONFIG}` names no `model_type`", "the folder must be what `save_pretrained` writes"
        )
    return config


def find_repeated_layers(network: nn.Module) -> list[nn.Module]:
    """Return the layers of the longest list of alike layers in ``network``: its transformer blocks."""
    lists = [module for module in network.modules() if isinstance(module, nn.ModuleList)]
    alike = [list(layers) for layers in lists if len({type(layer) for layer in layers}) == 1]
    return max(alike, key=len, default=[])


def _expect_weights(folder: Path, name: str) -> None:
    if any(folder.glob(WEIGHTS)):
        return
    pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern))
    has = f", only `{pickled[0]}`, whose format can run code" if pickled else ""
    raise UserError(
        f"`{name}` has no `{WEIGHTS}`{has}",
        "load it where you trust it, and write it with `save_pretrained(folder)`",
    )


def _expect_fit(config: Mapping[str, Any], folder: Path, task: Task, name: str, shards: Path | None) -> None:
    assert task.tokenizer is not None
    inner = config.get("text_config") if isinstance(config.get("text_config"), dict) else config
    assert isinstance(inner, Mapping)
    vocabulary, tokens = inner.get("vocab_size"), task.tokenizer.vocabulary
    if isinstance(vocabulary, int) and tokens > vocabulary:
        raise UserError(
            f"the tokenizer of the shards has {tokens:,} tokens, but `{name}` has a vocabulary of"
            f" {vocabulary:,}",
            f"shard the text with the model's own tokenizer, `tokenizer: path/{TOKENIZER}`",
        )
    positions = inner.get("max_position_embeddings", inner.get("n_positions"))
    length = task.input_shape[0]
    if isinstance(positions, int) and 0 < positions < length:
        raise UserError(
            f"the shards have rows of {length:,} tokens, but `{name}` has {positions:,} positions",
            f"shard with `sequence_length: {positions}` or less",
        )
    if shards is not None and (folder / TOKENIZER).is_file():
        _expect_tokenizer(folder, task, name, shards)


def _expect_tokenizer(folder: Path, task: Task, name: str, shards: Path) -> None:
    """Check that the same text has the same numbers in the shards and in the model."""
    assert task.tokenizer is not None
    own = _read_vocabulary(folder / TOKENIZER)
    used = _read_vocabulary(shards / task.tokenizer.path) if task.tokenizer.path else None
    if not own:
        return
    if used is None:
        raise UserError(
            f"the shards hold bytes, but `{name}` has a tokenizer of its own",
            f"shard the text with it: `tokenizer: path/{TOKENIZER}` inside `data`",
        )
    other = next((token for token, number in used.items() if own.get(token, number) != number), None)
    if other is not None:
        raise UserError(
            f"the shards were made with another tokenizer than that of `{name}`: the token"
            f" `{other[:40]}` is number {used[other]} there and {own[other]} in the model",
            f"shard the text with the model's own tokenizer, `tokenizer: path/{TOKENIZER}`",
        )


def _read_vocabulary(path: Path) -> dict[str, int]:
    """Return the token numbers of a ``tokenizer.json``; empty where it has another form."""
    try:
        vocabulary = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    if isinstance(vocabulary, list):  # Unigram: pairs of token and score
        return {pair[0]: number for number, pair in enumerate(vocabulary) if isinstance(pair, list) and pair}
    return dict(vocabulary) if isinstance(vocabulary, dict) else {}


def _load(folder: Path, task: Task, name: str) -> Any:
    library = load_library("transformers")
    library.utils.logging.set_verbosity_error()  # what is new is checked below, and said in our words
    library.utils.logging.disable_progress_bar()
    more = {"num_labels": task.outputs} if task.name == CLASSIFICATION else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            network, loaded = getattr(library, _CLASSES[task.name]).from_pretrained(
                str(folder),
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=torch.float32,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                **more,
            )
    except Exception as error:  # the library raises whatever its parts do
        raise UserError(
            f"`{name}` cannot be loaded for {task.name}: {describe_error(error, 160)}",
            "the folder must be what `save_pretrained` writes, of an architecture that `transformers` knows",
        ) from error
    _expect_loaded(network, loaded, task, name)
    return network


def _expect_loaded(network: Any, loaded: Mapping[str, Any], task: Task, name: str) -> None:
    """Check that all of the body was in the files; the head of a classification may be new."""
    different = {key[0]: (list(key[1]), list(key[2])) for key in loaded.get("mismatched_keys", ())}
    new = set(loaded.get("missing_keys", ())) | set(different)
    body = f"{network.base_model_prefix}."
    head = {
        key
        for key in new
        if task.name == CLASSIFICATION and (not key.startswith(body) or any(p in key for p in _NEW_LAYERS))
    }
    wrong = sorted(new - head)
    if wrong:
        described = [
            f"`{key}` has shape {different[key][0]} in the file and {different[key][1]} by `{CONFIG}`"
            if key in different
            else f"`{key}` is missing"
            for key in wrong[:_SHOWN]
        ]
        raise UserError(
            f"the weights of `{name}` do not fit its `{CONFIG}`: {', '.join(described)}"
            + (f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""),
            "write both together with `save_pretrained`",
        )
    if head:
        print(f"{name}: new and not pretrained: {_list_names(head)}", flush=True)


def _list_names(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:_SHOWN]) + (f" and {len(ordered) - _SHOWN} more" if ordered[_SHOWN:] else "")


def _expect_causal(model: HuggingFaceModel, task: Task, name: str) -> None:
    """Check that no token sees the ones after it, which it learns to predict."""
    one = task.example(1)
    other = one.clone()
    other[:, -1] = 1
    if task.input_shape[0] > 1 and not torch.equal(model(one)[:, :-1], model(other)[:, :-1]):
        raise UserError(
            f"`{name}` is not a decoder: each token sees the ones after it, which it would have to predict",
            "use it for text classification, or set `is_decoder: true` in its `config.json`",
        )


def load_library(name: str) -> Any:
    """Import ``transformers`` or ``peft``, which are told not to download anything.

    Raises:
        UserError: it is not installed.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when the library is imported
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(
            f"a Hugging Face model needs `{name}`: {describe_error(error)}",
            f"add `{name}` to the environment; on this machine `pip install 'worldsize[transformers]'`",
        ) from error
