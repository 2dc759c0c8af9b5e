"""What is to be decided: the command line, the rows and the rule, read before anything heavy is imported."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from new_rows import read_data

from wsmodels.held_out import choose_split
from wsmodels.mlmodel import read_mlmodel
from wsmodels.model_name import choose_model_name
from wsmodels.scores import safe_name
from wspaired.rules import Guard, Rule, parse_guards, parse_rule
from wspaired.statistics import RankStatistic, Statistic, Subject, find_statistic, shown_metrics
from wsshards.errors import UserError
from wsshards.manifest import Manifest, read_manifest
from wsshards.provenance import describe_data
from wsshards.terms import SPLITS

AUTO = "auto"
SIZE = "size"  # of a model's files in bytes: a metric of guards alone


@dataclass(frozen=True)
class Question:
    """What is to be decided.

    Attributes:
        model: folder of the challenger.
        shards: folder of the rows.
        name: of the model in the registry.
        manifest: of the shards.
        split: the part with the rows.
        subject: what is predicted.
        metric: the one that decides; `auto` if what evaluate shows first does.
        rule: by which it decides.
        guards: what has to hold as well.
        statistics: of all metrics that may be needed.
        data: what the challenger was trained on.
        minimum_rows: fewer decide nothing.
        batch_size: rows at a time.
    """

    model: str
    shards: str
    name: str
    manifest: Manifest
    split: str
    subject: Subject
    metric: str
    rule: Rule
    guards: tuple[Guard, ...]
    statistics: tuple[Statistic | RankStatistic, ...]
    data: Mapping[str, Any]
    minimum_rows: int
    batch_size: int


def read_question(options: argparse.Namespace) -> Question:
    """Read what the command line names.

    Raises:
        UserError: an input is wrong.
    """
    for name, least in (("batch_size", 1), ("minimum_rows", 2)):
        value = getattr(options, name)
        if value < least:
            raise UserError(f"`{name}` is {value}", f"give a whole number of at least {least}")
    rule, guards = parse_rule(options.rule), parse_guards(options.guards)
    manifest = read_manifest(options.shards)
    subject = describe_subject(manifest)
    metrics = shown_metrics(subject) if options.metric == AUTO else [options.metric]
    names = dict.fromkeys([*metrics, *(guard.metric for guard in guards if guard.metric != SIZE)])
    card = read_mlmodel(options.model)
    return Question(
        model=options.model,
        shards=options.shards,
        name=choose_model_name(options.model_name, card),
        manifest=manifest,
        split=choose_split(manifest, options.split),
        subject=subject,
        metric=options.metric,
        rule=rule,
        guards=guards,
        statistics=tuple(find_statistic(name, subject) for name in names),
        data=read_data(card) or describe_data(manifest),  # else the shards that this step is given
        minimum_rows=options.minimum_rows,
        batch_size=options.batch_size,
    )


def parse() -> argparse.Namespace:
    """Parse the command line in `component.yml`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--shards", required=True)
    parser.add_argument("--model_name", default="")
    parser.add_argument("--split", choices=(AUTO, *SPLITS), default=AUTO)
    parser.add_argument("--metric", default=AUTO)
    parser.add_argument("--rule", default="better")
    parser.add_argument("--guards", default="")
    parser.add_argument("--minimum_rows", type=int, default=100)
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--comparison", required=True)
    return parser.parse_args()


def describe_subject(manifest: Manifest) -> Subject:
    """Return what the rows of a manifest predict."""
    label, tokenizer = manifest.label, manifest.features.tokenizer
    if label is None:
        is_bytes = tokenizer is None or tokenizer.kind == "bytes"
        return Subject(manifest.task, padding=tokenizer.padding if tokenizer else None, byte_tokens=is_bytes)
    names = tuple(safe_name(name) for name in label.classes or label.names)
    return Subject(manifest.task, names, label.mean, label.deviation)
