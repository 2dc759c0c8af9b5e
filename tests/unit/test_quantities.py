"""The table of a plan's quantities: each field of a topology and of a training is a row of its type."""

from __future__ import annotations

import typing

import pytest

from worldsize.planning.model import Topology, Training
from worldsize.planning.quantities import DEGREES, QUANTITIES, find_unit, input_type, label_quantity

TYPES = {int: "integer", float: "number", str: "string"}
ROWS = {row.name: row for row in QUANTITIES}


def list_fields() -> list[tuple[str, str]]:
    fields = {**typing.get_type_hints(Topology), **typing.get_type_hints(Training)}
    return [(name, TYPES[find_type(hint)]) for name, hint in fields.items()]


def find_type(hint: object) -> type:
    """The type of a field without its None; a word of a closed list is text."""
    options = [hint, *typing.get_args(hint)]
    return next((each for each in options if isinstance(each, type) and each in TYPES), str)


@pytest.mark.parametrize(("name", "type_"), list_fields())
def test_each_field_is_a_row_of_its_type(name: str, type_: str) -> None:
    assert ROWS[name].type == type_
    assert input_type(name) == type_


def test_names_are_given_once() -> None:
    assert len(ROWS) == len(QUANTITIES)


def test_degrees_are_topology_s() -> None:
    assert set(DEGREES) - {"data_parallel_size"} < set(typing.get_type_hints(Topology))


def test_labels_and_units_are_those_that_tables_show() -> None:
    assert label_quantity("kappa") == "κ"
    assert label_quantity("global_batch_size") == "global batch size"
    assert label_quantity("shm_size") == "shared memory"
    assert find_unit("mean_time_between_preemptions") == "s"
    assert find_unit("learning_rate") == ""
