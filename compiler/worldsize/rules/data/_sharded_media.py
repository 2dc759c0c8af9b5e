"""Reads a bounded part of local pictures and texts as `shard_data` reads all of it, up to the first fault."""

from __future__ import annotations

from pathlib import Path

from worldsize.base import limits
from worldsize.rules.data import _pictures
from worldsize.rules.data._sample import MAX_BYTES, MAX_PICTURES, Sample, find_given_parts
from wsshards.errors import UserError
from wsshards.regular_files import check_regular
from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL
from wssources import documents, picture_folders, picture_labels, row_faults
from wssources.input_error import InputError, blame_input
from wssources.media_options import BPE, BYTES_TOKENIZER
from wssources.part_counts import PartCounts, count_windows
from wssources.request import Request, unreadable
from wssources.split_settings import UNDECIDED, SplitSettings, check_without_columns, fixed_parts
from wssources.tasks import LabelValues, check_possible
from wssources.tokenizer_files import check_tokenizer_file

_BLOCK = 1 << 19  # characters of a document that its first block has at least


def read_pictures(request: Request, sample: Sample) -> None:
    """Read the labels of pictures, and the sizes of some; raises UserError for the first fault."""
    sample.slug, sample.blamed = "data-column-missing", "labels"
    file = picture_labels.find_label_file(request)
    if file is not None:
        _read_picture_labels(request, sample, file)
    else:
        check_without_columns(request.split, request.name, "images")
        parts = find_given_parts(request)
        sample.slug, sample.blamed = "picture-invalid", ""
        check_possible(request.task, CLASSIFICATION, request.name)
        picture_folders.check_folders(request)
        sample.parts = PartCounts(request.split or SplitSettings(), fixed_parts(None, parts.values()))
        for each in request.files:
            name = picture_folders.find_class(request, each)
            sample.labels[name] += 1
            sample.parts.add(name, parts.get(each, UNDECIDED))
    sample.slug, sample.blamed = "picture-invalid", ""
    if request.media.broken_images == "skip":
        sample.complete = False
        return
    for file in request.files[:: -(-len(request.files) // MAX_PICTURES)]:
        limits.check_time()
        try:
            _pictures.read_shape(file)
        except ValueError as error:
            fault = unreadable(request.show(file), error)
            raise UserError(fault.message, f"{fault.help}, or say `broken_images: skip`") from None


def _read_picture_labels(request: Request, sample: Sample, file: Path) -> None:
    """Count the labels of pictures in a CSV, if it is small."""
    if check_regular(file) > MAX_BYTES:
        sample.complete = False
        return
    columns = row_faults.csv_header(request, file)
    picture_labels.choose_label_columns(request, file, columns)
    sample.slug, sample.blamed = "data-row-invalid", "labels"
    labels = picture_labels.read_picture_labels(request, file)
    with blame_input("label-not-a-class", "label"):
        decision = labels.decide(request.task, request.show(file))
    sample.task = decision.task
    sample.parts = labels.count(decision, request.split or SplitSettings())
    if sample.task == CLASSIFICATION:
        sample.labels.update(values[0] for values in labels.values.values())
    else:
        sample.rows = len(labels.values)


def read_texts(request: Request, kind: str) -> Sample:
    """Read documents of text up to the first fault, or the bounds of this module."""
    sample = Sample(slug="data-column-missing")
    try:
        _read_texts(request, kind, sample)
    except InputError as error:
        sample.fault, sample.slug, sample.blamed = error, error.slug, error.blamed
    except UserError as error:
        sample.fault = error
    except ImportError:
        sample.complete = False  # Parquet, without pyarrow
    except OSError:
        sample.complete = False  # no permission, here
    return sample


def _read_texts(request: Request, kind: str, sample: Sample) -> None:
    if kind == "text":
        check_without_columns(request.split, request.name, "text")
    parts = find_given_parts(request)
    sample.blamed = "tokenizer"
    if request.media.tokenizer not in (BYTES_TOKENIZER, BPE):
        check_tokenizer_file(request.media)
    sample.blamed = "text"
    sample.task = documents.find_task(request, kind)
    labelled, found = sample.task == CLASSIFICATION, LabelValues(request.label)
    sample.slug, sample.blamed = "data-row-invalid", ""
    if labelled and kind == "text":
        documents.check_text_folders(request)
    bounds = documents.find_text_division(request, kind).bounds
    sample.parts = PartCounts(request.split or SplitSettings(), fixed_parts(bounds, parts.values()))
    size = 0
    for document in documents.read_corpus(request, kind, labelled=labelled):
        limits.check_time()
        block = next(document.blocks(), "")
        if labelled and not block.strip():
            raise UserError(f"`{document.name}` has no text", "remove it, or write its text into it")
        size += len(block.strip())
        if labelled:
            sample.labels[document.label] += 1
            sample.parts.add(document.label, document.part, document.group)
            found.add(document.label)
        sample.rows += 1
        if sample.full or size > MAX_BYTES:
            sample.complete = False
            return
    _check_size(request, sample, size, labelled=labelled)
    if labelled and kind != "text":
        documents.check_text_labels(request, found)
    sample.complete = labelled  # how many rows of tokens a corpus has is not known before it is read


def _check_size(request: Request, sample: Sample, size: int, *, labelled: bool) -> None:
    """Refuse documents that make no row; ``size`` are their characters."""
    if size == 0:
        raise UserError(f"`{request.called}` has no text", "give it at least one document")
    if not labelled and sample.rows == 1 and size <= min(request.sequence_length, _BLOCK):
        sample.slug = "data-too-few-rows"
        raise UserError(
            f"`{request.called}` has {size:,} characters of text, and a row has"
            f" {request.sequence_length + 1:,} tokens",
            "give more text, or a smaller `sequence_length`",
        )


def read_text_bytes(request: Request, sample: Sample) -> None:
    """Count the rows of files of text that are read as bytes; raises UserError."""
    check_without_columns(request.split, request.name, "text")
    check_possible(request.task, LANGUAGE_MODEL, request.name)
    sample.task = LANGUAGE_MODEL
    sample.parts = count_windows(request, find_given_parts(request))
    sample.rows = sum([*sample.parts.rows, *sample.parts.classes.values()])
