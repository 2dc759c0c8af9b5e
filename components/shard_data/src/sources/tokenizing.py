"""Makes the tokenizer of a corpus: bytes, a BPE trained on the training documents, or the user's own file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from shards import TOKENIZER_FILE

from sources.common import Array
from wsshards.errors import UserError, describe_error
from wsshards.manifest import Tokenizer
from wsshards.regular_files import read_regular
from wsshards.token_rows import encode_bytes, encode_texts, find_marks, prepare_tokenizer
from wssources.media_options import BPE, BYTES_TOKENIZER, DEFAULT_VOCABULARY, LEAST_VOCABULARY, MediaOptions
from wssources.request import first_line
from wssources.tokenizer_files import MAX_TOKENIZER_BYTES, NOT_ONE, find_tokenizer_file

END_OF_TEXT, PADDING = "<|endoftext|>", "<|padding|>"
_ENDS = (END_OF_TEXT, "<|end_of_text|>", "</s>", "<eos>", "[EOS]", "<|eos|>", "[SEP]")
_PADDINGS = (PADDING, "<pad>", "[PAD]", "<|pad|>", "<|finetune_right_pad_id|>")
_SAMPLE_BYTES, _SAMPLE_SHARE = 64 << 20, 32  # of training text that a BPE is trained on, and of the memory
_BYTES_PER_TOKEN = 64  # of training text: fewer leave most tokens of a vocabulary without examples


@dataclass(frozen=True)
class Encoder:
    """Turns texts into tokens.

    Attributes:
        described: the tokenizer as the manifest has it.
        encode: `texts -> one array of tokens for each`, without tokens between them.
        content: of `tokenizer.json`; empty for bytes.
        before: tokens that the tokenizer puts before a whole text, such as [CLS].
        after: tokens that it puts after a whole text, such as [SEP].
    """

    described: Tokenizer
    encode: Callable[[Sequence[str]], list[Array]]
    content: bytes = b""
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def dtype(self) -> str:
        """NumPy name of the smallest type that holds the vocabulary."""
        return "uint16" if self.described.vocabulary <= 1 << 16 else "uint32"

    def write(self, folder: Path) -> None:
        """Write `tokenizer.json` into the folder of shards, if there is one."""
        if self.content:
            (folder / TOKENIZER_FILE).write_bytes(self.content)


def make_encoder(
    media: MediaOptions, memory: int, training: Callable[[int], Iterable[str]], size: int, *, pads: bool
) -> Encoder:
    """Return the encoder that the inputs ask for.

    Args:
        media: the inputs.
        memory: memory limit in bytes.
        training: starts the texts of the training documents, of which at most so many bytes are needed.
        size: bytes of all training documents.
        pads: whether rows need a padding token; else documents need one between them.

    Raises:
        UserError: there is no such tokenizer, or its file is not one.
    """
    if media.tokenizer == BYTES_TOKENIZER:
        extra = {"padding": 256} if pads else {"end_of_text": 256}
        return Encoder(Tokenizer("bytes", 257, **extra), encode_bytes)
    if media.tokenizer != BPE:
        return _load(media, pads=pads)
    limit = min(_SAMPLE_BYTES, memory // _SAMPLE_SHARE)
    library = _library()
    wanted = media.vocabulary_size or _default_vocabulary(size)
    tokenizer = _train(library, wanted, training(limit))
    print(
        f"tokenizer: BPE of {tokenizer.get_vocab_size():,} tokens, learned from"
        f" {min(size, limit):,} of {size:,} bytes of training text"
    )
    return _describe(tokenizer, END_OF_TEXT, PADDING)


def _default_vocabulary(size: int) -> int:
    """Return 8,192, or the power of two with enough training text for each token."""
    few = max(LEAST_VOCABULARY, size // _BYTES_PER_TOKEN)
    return min(DEFAULT_VOCABULARY, max(512, 1 << (few.bit_length() - 1)))


def _train(library: Any, vocabulary: int, texts: Iterable[str]) -> Any:
    """Train a byte-level BPE (Radford et al. 2019, section 2.2)."""
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT, PADDING],
        initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _load(media: MediaOptions, *, pads: bool) -> Encoder:
    file = find_tokenizer_file(media)
    library = _library()
    try:
        content = read_regular(file, MAX_TOKENIZER_BYTES)
        tokenizer = library.Tokenizer.from_str(content.decode("utf-8"))
    except OSError as error:
        raise UserError(
            f"cannot read tokenizer `{media.tokenizer}`: {describe_error(error)}", NOT_ONE
        ) from None
    except Exception as error:  # the library raises a plain Exception
        raise UserError(
            f"`{media.tokenizer}` is not a tokenizer: {first_line(str(error))}", NOT_ONE
        ) from None
    known = tokenizer.get_vocab(with_added_tokens=True)
    if not known:
        raise UserError(f"`{media.tokenizer}` has no tokens", NOT_ONE)
    end = next((name for name in _ENDS if name in known), None)
    padding = next((name for name in _PADDINGS if name in known), None)
    missing = [PADDING] if pads and padding is None else [END_OF_TEXT] if not pads and end is None else []
    if missing:
        tokenizer.add_special_tokens(missing)
    return _describe(
        tokenizer, end or (END_OF_TEXT if not pads else ""), padding or (PADDING if pads else "")
    )


def _describe(tokenizer: Any, end: str, padding: str) -> Encoder:
    prepare_tokenizer(tokenizer)
    known = tokenizer.get_vocab(with_added_tokens=True)
    content = tokenizer.to_str().encode()
    described = Tokenizer(
        "bpe",
        max(known.values()) + 1,
        padding=known.get(padding),
        end_of_text=known.get(end),
        path=TOKENIZER_FILE,
        sha256=hashlib.sha256(content).hexdigest(),
    )

    before, after = find_marks(tokenizer)
    return Encoder(described, partial(encode_texts, tokenizer), content, before, after)


def _library() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise UserError(
            "the package `tokenizers` is not installed here", "install `worldsize[transformers]`"
        ) from None
    return tokenizers


def sample_texts(texts: Iterator[tuple[int, str]], size: int, limit: int) -> Iterator[str]:
    """Yield about `limit` bytes of texts, spread over all of them: each by a hash of its own.

    Args:
        texts: a 64-bit hash and the text.
        size: bytes of all texts.
        limit: bytes to take.
    """
    rate = min(1.0, limit / max(size, 1))
    left = limit
    for number, text in texts:
        if rate < 1 and ((number * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF) >= rate * 2.0**64:
            continue
        left -= len(text)
        if left < 0:
            return
        yield text
