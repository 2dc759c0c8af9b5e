"""What a table of the user's is: its columns, which of them is the label, and how it is to be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from worldsize.adopting.starting.features import Feature, is_empty, is_missing, judge_column
from worldsize.azureml.model import Field
from worldsize.base.wording import quoted_list
from worldsize.data.tables import Table
from wsshards.errors import UserError
from wsshards.terms import DATE, NUMBER
from wssources.column_kinds import find_kind
from wssources.name_lists import join_names
from wssources.tasks import FEW_VALUES, LabelValues

LABELS = ("label", "labels", "target", "targets", "y", "class", "classes", "outcome", "response")


class Settings(Struct, frozen=True):
    """Inputs of ``shard_data``, with comments that say why, and sentences about the columns."""

    inputs: dict[str, Field[str]]
    said: tuple[str, ...] = ()


class Label(Struct, frozen=True):
    """A column that is to be predicted, and why that one."""

    name: str
    reason: str


def find_labels(table: Table) -> list[Label]:
    """The columns that may be the label: those with the name of one, else the last that may be predicted."""
    named = [each for each in table.columns if each.strip().lower() in LABELS]
    if named:
        return [Label(each, "by its name") for each in named]
    if not table.columns:
        return []
    last = table.columns[-1]
    found = next((each for each in reversed(table.columns) if _may_be_label(table, each)), last)
    return [Label(found, "the last column" if found == last else "the last column of classes or numbers")]


def _may_be_label(table: Table, name: str) -> bool:
    """Whether a column is neither a text, a date nor the name of a row, and its values differ."""
    values = table.head.values(name)
    judged = judge_column(table.head, name, table.path.name)
    plain = judged.kept and not judged.fault and not judged.is_text
    kind = find_kind(values, cells=table.head.cells)
    return plain and kind != DATE and len({str(each) for each in values if not is_empty(each)}) > 1


def find_settings(table: Table, label: str) -> Settings:
    """The inputs of ``shard_data`` that the values of the table ask for.

    Raises:
        UserError: Nothing is left to learn from.
    """
    judged = [judge_column(table.head, each, table.path.name) for each in table.columns if each != label]
    chosen, text = _choose(judged)
    if not chosen:
        names = quoted_list([each.name or "(no name)" for each in judged])
        found = f"`{table.path.name}` has no column to learn `{label}` from"
        raise UserError(
            f"{found}: the rest, {names}, names the row or cannot be read", "give it columns of values"
        )
    inputs = _find_task(table, label)
    if not text and len(chosen) < len(judged):
        inputs["features"] = Field(join_names([each.name for each in chosen]), comment=_why_not(judged))
    missing = _find_missing(table, label, chosen)
    if missing:
        inputs["missing"] = Field("drop" if text else "fill", comment=missing)
    categories = [f"{each.name}=category" for each in chosen if each.fault]
    if categories:
        inputs["column_types"] = Field(join_names(categories), comment="not read as dates or numbers")
    if text:
        inputs["text"] = Field(text)
    return Settings(inputs, tuple(_say_choices(judged, chosen)))


def _choose(judged: Sequence[Feature]) -> tuple[list[Feature], str]:
    """The columns that are learned from, and the column of text if that is the one."""
    columns = [each for each in judged if each.kept and not each.is_text]
    texts = [each for each in judged if each.is_text][:1]
    return (columns, "") if columns or not texts else (texts, texts[0].name)


def _find_task(table: Table, label: str) -> dict[str, Field[str]]:
    """The task, where the labels leave it open that they are numbers to predict."""
    cells, given = table.head.cells, table.head.values(label)
    kind = find_kind(given, cells=cells)
    values, marks = LabelValues(label), False
    for value in given:
        if is_missing(value, kind, cells=cells):
            marks = marks or not is_empty(value)
        else:
            values.add(value)
    few = len(values.distinct) <= FEW_VALUES
    if kind != NUMBER or few or values.numbers < values.rows or (values.fractions and not marks):
        return {}
    which = "whole numbers" if not values.fractions else "numbers"
    return {"task": Field("regression", comment=f"more than {FEW_VALUES} {which}")}


def _find_missing(table: Table, label: str, chosen: Sequence[Feature]) -> str:
    """What is missing, with the number of rows that are left out; nothing if all is there."""
    head, values = table.head, table.head.values(label)
    kind = find_kind(values, cells=head.cells)
    count = sum(is_missing(each, kind, cells=head.cells) for each in values)
    cells = any(each.incomplete for each in chosen)
    if not count:
        return "cells are empty" if cells else ""
    total = f"{len(values):,}" if head.complete else f"the first {len(values):,}"
    filled = "; other empty cells are filled" if cells else ""
    return f"{count:,} of {total} rows have no label, and are left out{filled}"


def _why_not(judged: Sequence[Feature]) -> str:
    names = any(not each.kept and not each.fault for each in judged)
    others = any((not each.kept and each.fault) or each.is_text for each in judged)
    reasons = ["only name the row"] * names + ["are not read"] * others
    return f"without columns that {' or '.join(reasons)}"


def _say_choices(judged: Sequence[Feature], chosen: Sequence[Feature]) -> Iterator[str]:
    """What a reader of the spec may want to correct, as sentences."""
    names = [each.name for each in judged if each.name and not each.kept and not each.fault]
    if names:
        what = "it only names" if len(names) == 1 else "they only name"
        yield f"left out, because {what} the row: {quoted_list(names)}"
    for each in judged:
        if each.is_text and each not in chosen:
            yield f"left out, because a long text is read alone, not beside columns: `{each.name}`"
        elif each.fault:
            yield f"{each.fault}: it is {'read as a category' if each.kept else 'left out'}"
