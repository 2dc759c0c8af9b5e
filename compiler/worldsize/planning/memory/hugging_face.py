"""Hugging Face models as memory sees them, from ``config.json``: Llama, Mistral, Qwen2, GPT-2 and BERT.

Names and shapes are those of ``transformers``; what a layer keeps was counted there with
``torch.autograd.graph.saved_tensors_hooks``, in fp32 and under autocast, and a test counts it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize.planning.memory.network import Kept, Network, Part, Weight

PREFIX = "hf:"
FAMILIES = ("llama", "mistral", "qwen2", "gpt2", "bert")
MAX_LAYERS = 10_000
_LABELS = 2  # outputs of a classification, whose head hardly counts


class Adapting(Struct, frozen=True):
    """What is trained: adapters of rank ``rank`` beside the layers ``targets``, or all that is not frozen."""

    rank: int = 0
    targets: tuple[str, ...] = ()  # empty for every linear layer
    frozen: tuple[str, ...] = ()  # patterns of names


class _Sizes(Struct, frozen=True):
    width: int
    inner: int
    layers: int
    heads: int
    vocabulary: int
    keys: int  # numbers of a token's keys, which several heads may share
    queries: int
    tied: bool


def describe_model(
    name: str, config: Mapping[str, Any], task: str | None, tokens: int, adapting: Adapting
) -> Network | None:
    """The network of a ``config.json``; None for other architectures, and where sizes are missing.

    A task that is not known is the one that the architecture was made for.
    """
    family, sizes = config.get("model_type"), _read_sizes(config)
    classifies = task == "classification" or (task is None and family == "bert")
    if family not in FAMILIES or sizes is None or (family == "bert" and not classifies):
        return None
    if family == "gpt2":
        parts = _gpt2(sizes, config, tokens, lora=adapting.rank > 0)
    elif family == "bert":
        parts = _bert(sizes, config, tokens, lora=adapting.rank > 0)
    else:
        parts = _llama(sizes, config, tokens, lora=adapting.rank > 0)
    if family != "bert":
        parts.append(_head(sizes, tokens, classifies=classifies))
    rows, outputs = (1, _LABELS) if classifies else (tokens, sizes.vocabulary)
    parts = [_adapt(part, tokens, adapting) for part in parts]
    parts.append(Part("loss", (), Kept(wide=rows * (outputs + 2)), 2 * rows * outputs))
    return Network(name, tuple(parts), 8 * tokens, heads=sizes.heads)


def list_layers(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The layers with a matrix of weights, by their full names; none for other architectures."""
    network = describe_model("", config, None, 1, Adapting())
    weights = [weight for part in network.parts for weight in part.weights] if network is not None else []
    return tuple(weight.name.removesuffix(".weight") for weight in weights if len(weight.shape) == 2)


def is_target(layers: Sequence[str], target: str) -> bool:
    """Whether a name of ``lora_targets`` is the end of a layer's."""
    return any(layer == target or layer.endswith(f".{target}") for layer in layers)


def _read_sizes(config: Mapping[str, Any]) -> _Sizes | None:
    def read(*names: str, default: int | None = None) -> int:
        value = next((config[name] for name in names if config.get(name) is not None), default)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

    width, heads = read("hidden_size", "n_embd"), read("num_attention_heads", "n_head")
    layers, vocabulary = read("num_hidden_layers", "n_layer"), read("vocab_size")
    if not width or not heads or not vocabulary or not 0 < layers <= MAX_LAYERS:
        return None
    gpt2 = config.get("model_type") == "gpt2"
    inner = read("intermediate_size", "n_inner", default=4 * width if gpt2 else None)
    head, shared = read("head_dim", default=width // heads), read("num_key_value_heads", default=heads)
    tied = config.get("tie_word_embeddings", gpt2)
    if not inner or not head or not shared:
        return None
    return _Sizes(width, inner, layers, heads, vocabulary, shared * head, heads * head, tied is True)


def _matrix(name: str, outputs: int, inputs: int, *, bias: bool = False) -> tuple[Weight, ...]:
    weight = Weight(f"{name}.weight", (outputs, inputs))
    return (weight, Weight(f"{name}.bias", (outputs,))) if bias else (weight,)


def _norm(name: str, width: int) -> tuple[Weight, ...]:
    return Weight(f"{name}.weight", (width,)), Weight(f"{name}.bias", (width,))


def _head(sizes: _Sizes, tokens: int, *, classifies: bool) -> Part:
    """The last layer; one that shares the embedding has no weights."""
    if classifies:
        return Part("head", _matrix("score", _LABELS, sizes.width), Kept(narrow=tokens * sizes.width))
    own = () if sizes.tied else _matrix("lm_head", sizes.vocabulary, sizes.width)
    return Part("head", own, Kept(narrow=tokens * sizes.width), tokens * sizes.width)


def _kept(tokens: int, wide: int, narrow: int, copies: int) -> Kept:
    """What a block keeps; ``copies`` are numbers a token that only half precision has twice.

    Each layer casts its inputs for itself there, while they are one tensor in fp32: two numbers of 2 bytes
    and one less of 4.
    """
    return Kept(wide=tokens * (wide + copies), narrow=tokens * (narrow - 2 * copies))


def _llama(sizes: _Sizes, config: Mapping[str, Any], tokens: int, *, lora: bool) -> list[Part]:
    """RMS normalisations, keys that heads share, and a gated perceptron (Touvron et al. 2023, Llama 2)."""
    width, inner, keys, queries = sizes.width, sizes.inner, sizes.keys, sizes.queries
    qwen = config["model_type"] == "qwen2"
    attention, perceptron = bool(config.get("attention_bias")), bool(config.get("mlp_bias"))
    embedding = Weight("model.embed_tokens.weight", (sizes.vocabulary, width), looked_up=not sizes.tied)
    parts = [Part("tokens", (embedding,), Kept(wide=2 * tokens))]
    normed, copied = (1, queries) if lora else (2, 0)  # what a trained weight of a normalisation multiplies
    kept = _kept(
        tokens,
        2 * normed * width + 2 + sizes.heads,
        5 * width + 2 * queries + 2 * keys + 4 * inner + copied,
        3 * width + copied,
    )
    for number in range(sizes.layers):
        name = f"model.layers.{number}"
        weights = (
            Weight(f"{name}.input_layernorm.weight", (width,)),
            *_matrix(f"{name}.self_attn.q_proj", queries, width, bias=attention or qwen),
            *_matrix(f"{name}.self_attn.k_proj", keys, width, bias=attention or qwen),
            *_matrix(f"{name}.self_attn.v_proj", keys, width, bias=attention or qwen),
            *_matrix(f"{name}.self_attn.o_proj", width, queries, bias=attention),
            Weight(f"{name}.post_attention_layernorm.weight", (width,)),
            *_matrix(f"{name}.mlp.gate_proj", inner, width, bias=perceptron),
            *_matrix(f"{name}.mlp.up_proj", inner, width, bias=perceptron),
            *_matrix(f"{name}.mlp.down_proj", width, inner, bias=perceptron),
        )
        parts.append(Part(name, weights, kept, tokens * 3 * inner, tokens * width, block=True))
    norm = (Weight("model.norm.weight", (width,)),)
    parts.append(Part("norm", norm, Kept(wide=tokens * (normed * width + 1)), tokens * width))
    return parts


def _gpt2(sizes: _Sizes, config: Mapping[str, Any], tokens: int, *, lora: bool) -> list[Part]:
    """Radford et al. 2019; its GELU is written out in five operations. Dropout keeps its masks."""
    width, inner = sizes.width, sizes.inner
    positions = config.get("n_positions", config.get("max_position_embeddings", 1024))
    around = (
        Weight("transformer.wte.weight", (sizes.vocabulary, width), looked_up=not sizes.tied),
        Weight("transformer.wpe.weight", (positions, width), looked_up=True),
    )
    masks = 2 * width if config.get("resid_pdrop", 0.1) else 0
    first = width if config.get("embd_pdrop", 0.1) else 0
    parts = [Part("tokens", around, Kept(wide=tokens * (2 + first)))]
    copied = width if lora else 0
    kept = _kept(tokens, 2 * width + 4 + sizes.heads, 6 * width + 5 * inner + masks + copied, copied)
    for number in range(sizes.layers):
        name = f"transformer.h.{number}"
        weights = (
            *_norm(f"{name}.ln_1", width),
            Weight(f"{name}.attn.c_attn.weight", (width, 3 * width)),
            Weight(f"{name}.attn.c_attn.bias", (3 * width,)),
            *_matrix(f"{name}.attn.c_proj", width, width, bias=True),
            *_norm(f"{name}.ln_2", width),
            Weight(f"{name}.mlp.c_fc.weight", (width, inner)),
            Weight(f"{name}.mlp.c_fc.bias", (inner,)),
            Weight(f"{name}.mlp.c_proj.weight", (inner, width)),
            Weight(f"{name}.mlp.c_proj.bias", (width,)),
        )
        parts.append(Part(name, weights, kept, tokens * 2 * inner, tokens * width, block=True))
    kept = Kept(wide=tokens * (width + 2))
    parts.append(Part("norm", _norm("transformer.ln_f", width), kept, tokens * width))
    return parts


def _bert(sizes: _Sizes, config: Mapping[str, Any], tokens: int, *, lora: bool) -> list[Part]:
    """Devlin et al. 2019, with a pooler and a classifier."""
    width, inner = sizes.width, sizes.inner
    rows = {
        "word_embeddings": sizes.vocabulary,
        "position_embeddings": config.get("max_position_embeddings", 512),
        "token_type_embeddings": config.get("type_vocab_size", 2),
    }
    around = tuple(
        Weight(f"bert.embeddings.{name}.weight", (count, width), looked_up=True)
        for name, count in rows.items()
    )
    around += _norm("bert.embeddings.LayerNorm", width)
    parts = [Part("tokens", around, Kept(wide=tokens * (2 * width + 5)))]
    masks = 2 * width if config.get("hidden_dropout_prob", 0.1) else 0
    kept = _kept(
        tokens, 2 * width + 4 + sizes.heads, 9 * width + 2 * inner + masks, (3 if lora else 2) * width
    )
    for number in range(sizes.layers):
        name = f"bert.encoder.layer.{number}"
        weights = (
            *(
                weight
                for part in ("query", "key", "value")
                for weight in _matrix(f"{name}.attention.self.{part}", width, width, bias=True)
            ),
            *_matrix(f"{name}.attention.output.dense", width, width, bias=True),
            *_norm(f"{name}.attention.output.LayerNorm", width),
            *_matrix(f"{name}.intermediate.dense", inner, width, bias=True),
            *_matrix(f"{name}.output.dense", width, inner, bias=True),
            *_norm(f"{name}.output.LayerNorm", width),
        )
        parts.append(Part(name, weights, kept, tokens * 2 * inner, tokens * width, block=True))
    head = (
        *_matrix("bert.pooler.dense", width, width, bias=True),
        *_matrix("classifier", _LABELS, width, bias=True),
    )
    return [*parts, Part("head", head, Kept(wide=3 * width))]


def _adapt(part: Part, tokens: int, adapting: Adapting) -> Part:
    """The part with its adapters, and with what is frozen marked (Hu et al. 2022, LoRA).

    An adapter keeps its own copy of its inputs, as a frozen layer keeps none, and its narrow result.
    """
    if not adapting.rank:
        weights = tuple(replace(w, trained=not _is_frozen(w.name, adapting.frozen)) for w in part.weights)
        return replace(part, weights=weights)
    added: list[Weight] = []
    for weight in part.weights:
        layer = weight.name.removesuffix(".weight")
        linear = part.block or ".pooler." in layer
        if (
            linear
            and len(weight.shape) == 2
            and (not adapting.targets or any(is_target([layer], target) for target in adapting.targets))
        ):
            added += [
                Weight(f"{layer}.lora_A.default.weight", (adapting.rank, _inputs(weight))),
                Weight(f"{layer}.lora_B.default.weight", (weight.count // _inputs(weight), adapting.rank)),
            ]
    head = part.name == "head" and part.weights and part.weights[-1].name.startswith(("score", "classifier"))
    weights = tuple(
        replace(w, trained=bool(head) and w.name.startswith(("score", "classifier"))) for w in part.weights
    )
    kept = replace(part.kept, narrow=part.kept.narrow + tokens * adapting.rank * (len(added) // 2))
    kept = Kept() if part.name == "head" and not head else kept
    adapters = tuple(replace(w, trained=not _is_frozen(w.name, adapting.frozen)) for w in added)
    return replace(part, weights=(*weights, *adapters), kept=kept)


def _inputs(weight: Weight) -> int:
    """The inputs of a matrix; GPT-2's ``Conv1D`` has them first."""
    return weight.shape[0] if ".c_attn." in weight.name or ".mlp.c_" in weight.name else weight.shape[1]


def _is_frozen(name: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches a parameter or a module around it, as the trainers have it."""
    names = (name, f"network.{name}", f"base_model.model.{name}", f"network.base_model.model.{name}")
    return any(
        fnmatchcase(one, text) for pattern in patterns for text in (pattern, f"{pattern}.*") for one in names
    )
