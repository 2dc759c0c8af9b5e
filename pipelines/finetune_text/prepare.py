"""Writes short reviews, a tokenizer and a small BERT with random weights: what a fine-tuning starts from."""

import argparse
import csv
import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForMaskedLM

ROWS = 2000
THINGS = ("film", "book", "hotel", "meal", "phone", "game", "song", "train", "shop", "story")
GOOD = ("great", "lovely", "superb", "charming", "clever", "bright", "warm", "fresh", "quick", "honest")
BAD = ("dull", "awful", "weak", "boring", "clumsy", "dark", "cold", "stale", "slow", "broken")
PHRASES = (
    "the {thing} was {word}",
    "a {word} {thing}, if you ask me",
    "we found this {thing} rather {word}",
    "what a {word} {thing} it was",
    "my friend said the {thing} is {word}, and so do i",
)
UNKNOWN = "[UNK]"
SPECIAL = ["[PAD]", UNKNOWN, "[CLS]", "[SEP]"]


def write_reviews(path: Path) -> list[str]:
    """Write the reviews with their labels, and return the texts."""
    draw = random.Random(0)  # noqa: S311  not for secrets
    rows = []
    for _ in range(ROWS):
        label = draw.choice(("good", "bad"))
        word = draw.choice(GOOD if label == "good" else BAD)
        rows.append((draw.choice(PHRASES).format(thing=draw.choice(THINGS), word=word), label))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return [text for text, _ in rows]


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """Train a WordPiece tokenizer that puts [CLS] before a text and [SEP] after it."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=256, special_tokens=SPECIAL, show_progress=False)
    )
    around = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=around)
    return tokenizer


def main() -> None:
    """Write all of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--reviews", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True)
    args = parser.parse_args()
    for folder in (args.reviews, args.base):
        folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(write_reviews(args.reviews / "reviews.csv"))
    tokenizer.save(str(args.reviews / "tokenizer.json"))
    tokenizer.save(str(args.base / "tokenizer.json"))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        # Without dropout the loss is the same with any number of processes and any size of micro-batches.
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    BertForMaskedLM(config).save_pretrained(args.base)


if __name__ == "__main__":
    main()
