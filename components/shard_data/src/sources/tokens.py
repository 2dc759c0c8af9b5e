"""Documents as rows of tokens: packed for a language model, one row each for a classification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pyarrow as pa
from classes import ClassIndex
from division import Division
from spill import Rows, Spill

from sources.common import BATCH_BYTES, Array, Batch, Source
from sources.tokenizing import Encoder, make_encoder, sample_texts
from wsshards.errors import UserError
from wsshards.manifest import Features
from wsshards.terms import CLASSIFICATION, SPLITS
from wsshards.token_rows import mark_rows
from wssources.documents import (
    Document,
    check_text_folders,
    check_text_labels,
    divide,
    find_task,
    find_text_division,
    piece_size,
    read_corpus,
)
from wssources.media_options import BPE, BYTES_TOKENIZER
from wssources.request import Request, check_row
from wssources.split import U64, hash_rows, shuffle_keys
from wssources.split_settings import (
    TEST,
    TRAIN,
    UNDECIDED,
    VALIDATION,
    SplitSettings,
    TimeBounds,
    find_parts,
    fixed_parts,
)
from wssources.tasks import LabelValues
from wssources.tokenizer_files import find_tokenizer_file

_FEW = 10  # documents that are divided, as too few of them would be held out whole
_GROUP = 256  # documents, and
_GROUP_CHARACTERS = 1 << 20  # characters that become tokens at a time


@dataclass(frozen=True)
class _Corpus:
    """A corpus that was read once: its documents, and which of them train, validate and test."""

    documents: Callable[[], Iterator[Document]]
    classes: ClassIndex
    division: Division
    seed: int
    counts: Sequence[int]  # documents of each part
    size: int  # characters of the training documents
    fixed: frozenset[int]  # parts that files, columns or dates fill
    bounds: TimeBounds | None
    grouped: bool

    @property
    def count(self) -> int:
        """Documents of all parts."""
        return sum(self.counts)

    def label_values(self, name: str) -> LabelValues:
        """Return what the label column holds."""
        values = LabelValues(name)
        for label, code in self.classes.codes.items():
            values.add(label, self.classes.rows[code])
        return values

    def part(self, document: Document, identity: int) -> int:
        """Return the place in `SPLITS` of a document."""
        if document.part != UNDECIDED:
            return document.part
        code = self.classes.codes[document.label] if document.label else 0
        hashes = _hash_documents([document], [identity], self.seed)
        return int(self.division.parts_of_hashes(hashes, np.array([code], np.int32))[0])


def read_documents(request: Request, kind: str) -> Source:
    """Read a corpus: text files, or a column of text in tables.

    A language model's rows are windows of `sequence_length + 1` tokens over the documents of one part, one
    after the other with the end of text between them; the rest of each part is dropped. A classification has
    a row of `sequence_length` tokens for each document, padded or cut. Which part a document is
    in depends on the hash of its text.

    Raises:
        UserError: the text, the label or the tokenizer cannot be used.
    """
    request = _prepare(request)
    task = find_task(request, kind)
    labelled = task == CLASSIFICATION
    if labelled and kind == "text":
        check_text_folders(request)
    corpus = _survey(request, kind, labelled=labelled)
    encoder = make_encoder(
        request.media,
        request.memory,
        lambda limit: sample_texts(_training_texts(corpus), corpus.size, limit),
        corpus.size,
        pads=labelled,
    )
    width = request.sequence_length if labelled else request.sequence_length + 1
    features = Features("tokens", encoder.dtype, (width,), tokenizer=encoder.described)
    check_row(f"a row of {width:,} tokens", 8 * width, request.memory)
    label = ("label" if kind == "text" else request.label) if labelled else None
    rows = _classified(corpus, encoder, features) if labelled else _packed(corpus, encoder, features)
    return Source(
        task,
        features,
        label,
        rows,
        fixed=corpus.fixed if labelled else frozenset({VALIDATION, TEST}),
        bounds=corpus.bounds,
        grouped=labelled and corpus.grouped,
        test_from=lambda: corpus.division.test_from,
        write=encoder.write,
    )


def _prepare(request: Request) -> Request:
    """Leave the tokenizer's own file out of the corpus."""
    media = request.media
    if media.tokenizer in (BPE, BYTES_TOKENIZER):
        return request
    own = find_tokenizer_file(media).resolve()
    return request._replace(files=[file for file in request.files if file.resolve() != own])


def _survey(request: Request, kind: str, *, labelled: bool) -> _Corpus:
    bounds = find_text_division(request, kind).bounds

    def documents() -> Iterator[Document]:
        return read_corpus(request, kind, labelled=labelled)

    corpus = _index(request, documents, bounds, labelled=labelled)
    if labelled and kind != "text":
        check_text_labels(request, corpus.label_values(request.label))
    if labelled or kind != "text" or corpus.fixed or corpus.count >= _FEW:
        return corpus
    size = piece_size(sum(len(block) for document in documents() for block in document.blocks()))
    return _index(request, lambda: divide(documents(), size), bounds, labelled=False)


def _index(
    request: Request,
    documents: Callable[[], Iterator[Document]],
    bounds: TimeBounds | None,
    *,
    labelled: bool,
) -> _Corpus:
    """Hash every document, and find the part of each."""
    classes, seed, size = ClassIndex(request.label), request.seed, 0
    split = request.split or SplitSettings()
    fixed, grouped = fixed_parts(bounds, find_parts(request).values()), bool(split.by)
    division = Division(split, request.memory, fixed, bounds=bounds, grouped=grouped)
    store = Spill(1, "uint8", request.memory // 16)
    try:
        for group in _groups(_not_empty(documents(), refuse=labelled)):
            identities = [document.hash(seed) for document in group]
            hashes = _hash_documents(group, identities, seed)
            labels = pa.array([document.label for document in group])
            codes = classes.encode(labels, store.rows) if labelled else np.zeros(len(group), np.int32)
            keys = shuffle_keys(store.rows, len(group), seed)
            parts = np.array([document.part for document in group], np.uint8)
            division.add(hashes, codes, parts)
            store.put(Rows(keys, hashes, codes, parts, np.empty((len(group), 0)), parts[:, None]))
            size += sum(len(block) for document in group for block in document.blocks())
        if store.rows == 0:
            raise UserError(f"`{request.root.name}` has no text", "give it at least one document")
        division.find_limits(store)
        counts = division.count(store)
    finally:
        store.close()
    size = size * counts[TRAIN] // sum(counts)
    return _Corpus(documents, classes, division, seed, counts, size, fixed, bounds, grouped)


def _hash_documents(documents: Sequence[Document], identities: Sequence[int], seed: int) -> U64:
    """Return what divides documents: the keys of their groups or times, or the hashes of their texts."""
    keys = [document.key for document in documents]
    if None not in keys:
        return np.array(keys, np.uint64)
    return hash_rows(np.array(identities, np.uint64).reshape(-1, 1), seed)


def _not_empty(documents: Iterator[Document], *, refuse: bool) -> Iterator[Document]:
    for document in documents:
        if next((block for block in document.blocks() if block.strip()), None) is not None:
            yield document
        elif refuse:
            raise UserError(f"`{document.name}` has no text", "remove it, or write its text into it")


def _groups(documents: Iterator[Document]) -> Iterator[list[Document]]:
    while group := list(islice(documents, _GROUP)):
        yield group


def _training_texts(corpus: _Corpus) -> Iterator[tuple[int, str]]:
    """Yield the blocks of the training documents, each with a hash."""
    for document in _not_empty(corpus.documents(), refuse=False):
        identity = document.hash(corpus.seed)
        if corpus.part(document, identity) == TRAIN:
            for number, block in enumerate(document.blocks()):
                yield identity + number, block


def _encoded(documents: Iterator[Document], encoder: Encoder) -> Iterator[tuple[Document, list[Array]]]:
    """Yield each document with its tokens in pieces, encoding many short ones at once."""
    waiting: list[Document] = []
    texts: list[str] = []
    size = 0
    for document in documents:
        blocks = document.blocks()
        first, second = next(blocks, ""), next(blocks, None)
        if second is not None:  # a long one: piece by piece
            yield from zip(waiting, ([tokens] for tokens in encoder.encode(texts)), strict=True)
            waiting, texts, size = [], [], 0
            yield document, [tokens for block in (first, second) for tokens in encoder.encode([block])]
            for block in blocks:
                yield replace(document, name=""), encoder.encode([block])
            continue
        waiting.append(document)
        texts.append(first)
        size += len(first)
        if len(texts) >= _GROUP or size >= _GROUP_CHARACTERS:
            yield from zip(waiting, ([tokens] for tokens in encoder.encode(texts)), strict=True)
            waiting, texts, size = [], [], 0
    yield from zip(waiting, ([tokens] for tokens in encoder.encode(texts)), strict=True)


def _packed(corpus: _Corpus, encoder: Encoder, features: Features) -> Callable[[], Iterator[Batch]]:
    """Rows of a language model: full windows over the documents of each part."""
    dtype, (width,) = np.dtype(features.dtype), features.shape
    end = np.array([encoder.described.end_of_text], dtype)

    def batches() -> Iterator[Batch]:
        pending: list[list[Array]] = [[] for _ in SPLITS]
        sizes = [0] * len(SPLITS)
        part, started = TRAIN, False
        for document, pieces in _encoded(_not_empty(corpus.documents(), refuse=False), encoder):
            if document.name:  # the rest of a long document has none
                if started:
                    pending[part].append(end)
                    sizes[part] += 1
                part, started = corpus.part(document, document.hash(corpus.seed)), True
            for tokens in pieces:
                pending[part].append(tokens.astype(dtype))
                sizes[part] += len(tokens)
            if sizes[part] * dtype.itemsize >= BATCH_BYTES:
                rows, rest = _windows(pending[part], width)
                pending[part][:], sizes[part] = [rest], len(rest)
                if len(rows):
                    yield Batch(rows, parts=np.full(len(rows), part, np.uint8))
        pending[part].append(end)
        for side, tokens in enumerate(pending):
            rows, _ = _windows(tokens, width)
            if len(rows):
                yield Batch(rows, parts=np.full(len(rows), side, np.uint8))
        counts = zip(corpus.counts, SPLITS, strict=True)
        print("documents:", ", ".join(f"{count:,} for {name}" for count, name in counts if count))

    return batches


def _windows(tokens: list[Array], width: int) -> tuple[Array, Array]:
    """Return whole windows `[n, width]` of a stream, and what is left of it."""
    stream = np.concatenate(tokens) if tokens else np.zeros(0, np.uint16)
    count = len(stream) // width
    return stream[: count * width].reshape(count, width), stream[count * width :].copy()


def _classified(corpus: _Corpus, encoder: Encoder, features: Features) -> Callable[[], Iterator[Batch]]:
    """Rows of a classification: the tokens of one document, padded or cut."""
    dtype, (width,) = np.dtype(features.dtype), features.shape
    room = width - len(encoder.before) - len(encoder.after)
    if room < 1:
        raise UserError(
            f"`sequence_length` is {width}, but the tokenizer puts {width - room} tokens around each text",
            f"write {width - room + 1} or more",
        )
    padding = encoder.described.padding
    assert padding is not None  # rows that are padded have a tokenizer with such a token
    most = max(1, min(4096, BATCH_BYTES // (width * dtype.itemsize)))

    def batches() -> Iterator[Batch]:
        encoded = _whole_documents(corpus, encoder)
        cut = total = 0
        while group := list(islice(encoded, most)):
            tokens = [each for _, each in group]
            rows = mark_rows(tokens, width, padding, (encoder.before, encoder.after), dtype)
            cut += sum(len(each) > room for each in tokens)
            total += len(group)
            documents = [document for document, _ in group]
            identities = [document.hash(corpus.seed) for document in documents]
            hashes = _hash_documents(documents, identities, corpus.seed)
            parts = np.array([document.part for document in documents], np.uint8)
            yield Batch(rows, pa.array([document.label for document in documents]), hashes, parts)
        if cut:
            print(f"{cut:,} of {total:,} texts have more than {room:,} tokens and are cut there")

    return batches


def _whole_documents(corpus: _Corpus, encoder: Encoder) -> Iterator[tuple[Document, Array]]:
    """Yield every document with its tokens, those of long ones put together again."""
    last: Document | None = None
    pieces: list[Array] = []
    for document, more in _encoded(corpus.documents(), encoder):
        if document.name and last is not None:
            yield last, np.concatenate(pieces)
        if document.name:
            last, pieces = document, []
        pieces += more
    if last is not None:
        yield last, np.concatenate(pieces)
