"""Makes data of any size for the benchmarks: text, JSON Lines with a tokenizer, and pictures."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np

_PIECE = 64 << 20  # bytes of one file of text
_PIECES = 4  # that are made of words
_DISTINCT = 2_000  # pictures that are compressed; the others repeat them with another comment
_CLASSES = 10


def write_text(folder: Path, size: int) -> Path:
    """Write `size` bytes of words as files of 64 MiB, which are turns of the first four."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces: list[bytes] = []
    for number in range(-(-size // _PIECE)):
        if number < _PIECES:
            text = " ".join(_words(number, _PIECE // 5))
            pieces.append(text.encode()[:_PIECE])
        piece, turn = pieces[number % len(pieces)], number * 7919 % _PIECE
        left = min(_PIECE, size - number * _PIECE)
        (folder / f"{number:05d}.txt").write_bytes((piece[turn:] + piece[:turn])[:left])
    return folder


def write_documents(folder: Path, size: int) -> Path:
    """Write about `size` bytes of JSON Lines, a document of some 2,000 bytes a line, and `tokenizer.json`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder.mkdir(parents=True, exist_ok=True)
    for number in range(-(-size // _PIECE)):
        words, at = _words(number, _PIECE // 6), 0
        lengths = np.random.default_rng(number).integers(50, 600, 400_000)
        left = min(_PIECE, size - number * _PIECE)
        with (folder / f"{number:05d}.jsonl").open("w") as file:
            for length in lengths.tolist():
                left -= file.write(json.dumps({"text": " ".join(words[at : at + length])}) + "\n")
                at += length
                if left <= 0 or at >= len(words):
                    break
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=8192,
        special_tokens=["<|endoftext|>", "<|padding|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(_words(0, 300_000))], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def write_pictures(folder: Path, count: int, side: int = 256) -> Path:
    """Write JPEG pictures of `side` pixels, all different, in folders of 10 classes."""
    from PIL import Image

    rng = np.random.default_rng(0)
    files = []
    for _ in range(min(count, _DISTINCT)):
        coarse = rng.integers(0, 256, (side // 8, side // 8, 3), np.uint8)
        picture = Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)
        target = io.BytesIO()
        picture.save(target, "JPEG", quality=85)
        files.append(target.getvalue())
    for number in range(_CLASSES):
        (folder / f"class-{number}").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        data, comment = files[number % len(files)], f"{number:08d}".encode()
        marked = data[:2] + b"\xff\xfe\x00\x0a" + comment + data[2:]
        (folder / f"class-{number % _CLASSES}" / f"{number:08d}.jpg").write_bytes(marked)
    return folder


def _words(seed: int, count: int) -> list[str]:
    """Return words of a made-up language, frequent ones first as in any (Zipf's law)."""
    letters = np.random.default_rng(7).integers(97, 123, (20_000, 12)).astype(np.uint8)
    sizes = np.random.default_rng(8).integers(2, 10, 20_000).tolist()
    known = [bytes(word[:size]).decode() for word, size in zip(letters, sizes, strict=True)]
    chosen = np.random.default_rng(seed).zipf(1.3, count) % len(known)
    return [known[place] for place in chosen.tolist()]
