"""What a PyTorch model reads and learns of each task, in one process."""

from __future__ import annotations

import math

import numpy as np
import pytest

from wsshards import manifest as m
from wsshards import terms
from wsshards.errors import UserError
from wstrain.data.table_encoding import make_table_encoding

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.smoke]

from wstrain.table_rows import RowCoder  # noqa: E402
from wstrain_torch import export, models  # noqa: E402
from wstrain_torch.data import make_task  # noqa: E402
from wstrain_torch.models.layers import ModelOptions  # noqa: E402

COLUMNS = (
    m.Column("size", mean=(2.0,), optional=True),
    m.Column("town", terms.CATEGORY, ("a", "b"), optional=True),
    m.Column("day", terms.DATE, mean=(365.2425, 0.0)),
    m.Column("new", terms.BOOLEAN),
)
SMALL = ModelOptions(gpt_layers=1, gpt_heads=2, gpt_width=8)


def test_a_table_is_encoded_column_by_column() -> None:
    task = make_task("regression", (5,), "float32", 1, columns=COLUMNS)
    assert task.input_shape == (2 + 3 + 7 + 1,)
    assert task.row_shape == (5,)
    rows = np.array([[1.5, 1, 4, 21_600, 1], [np.nan, np.nan, 0, 0, 0], [0, -1, 0, 0, 0]], np.float32)
    first, missing, unseen = task.inputs(rows).tolist()
    turn = 2 * math.pi * 4 / 365.2425
    years = (4 - 365.2425) / 365.2425
    # The fifth day of 1970 was a Monday, six hours a quarter of a day.
    date = [years, math.sin(turn), math.cos(turn), 0.0, 1.0, 1.0, 0.0]
    assert first == pytest.approx([1.5, 0, 0, 1, 0, *date, 1], abs=1e-5)
    assert missing[:5] == [2.0, 1, 0, 0, 1]
    assert unseen[2:5] == [0, 0, 0]
    encoding = make_table_encoding(COLUMNS)
    assert encoding is not None
    assert [number for number, scaled in enumerate(encoding.scaled) if scaled] == [0, 5]


def test_plain_numbers_are_read_as_they_are_stored() -> None:
    assert make_table_encoding((m.Column("a"), m.Column("b", terms.BOOLEAN))) is None


def test_a_regression_is_learned_in_deviations_and_answered_in_its_unit() -> None:
    more = {"target_mean": (100.0, 0.0), "target_deviation": (10.0, 2.0)}
    task = make_task("regression", (3,), "float32", 2, **more)
    _, targets = task.prepare(np.zeros((1, 3), np.float32), np.array([[110.0, -4.0]]))
    assert targets.tolist() == [[1.0, -2.0]]
    assert task.predictions(targets).tolist() == [[110.0, -4.0]]
    assert float(task.loss(torch.zeros(1, 2), targets)) == pytest.approx((1 + 4) / 2)


def test_several_labels_are_learned_each_by_itself() -> None:
    task = make_task("multi_label", (3,), "float32", 2)
    _, targets = task.prepare(np.zeros((1, 3), np.float32), np.array([[1, 0]], np.uint8))
    assert float(task.loss(torch.zeros(1, 2), targets)) == pytest.approx(math.log(2))
    assert task.predictions(torch.zeros(1, 2)).tolist() == [[0.5, 0.5]]


def test_padding_is_not_learned_and_not_read() -> None:
    tokens = m.Tokenizer("bpe", 9, padding=0)
    task = make_task("language_model", (4,), "uint16", 0, tokenizer=tokens)
    inputs, targets = task.prepare(np.array([[5, 6, 0, 0]], np.uint16), None)
    assert (inputs.tolist(), targets.tolist()) == ([[5, 6, 0]], [[6, 0, 0]])
    assert float(task.loss(torch.zeros(1, 3, 9), targets)) == pytest.approx(math.log(9) / 3)
    labelled = make_task("classification", (4,), "uint16", 3, tokenizer=tokens)
    model = models.build_model("gpt", labelled, SMALL, sample=None).eval()
    short, padded = torch.tensor([[5, 6]]), torch.tensor([[5, 6, 0, 0]])
    assert torch.allclose(model(short), model(padded), atol=1e-6)
    program = export.export_program(model, labelled).module()
    assert program(torch.from_numpy(np.array([[5, 6, 0, 0]] * 3, np.uint16))).shape == (3, 3)


def test_tokens_are_refused_by_a_model_of_numbers() -> None:
    task = make_task("classification", (4,), "uint16", 3, tokenizer=m.Tokenizer("bpe", 9))
    with pytest.raises(UserError, match="`mlp` takes numbers, and the shards hold tokens"):
        models.build_model("mlp", task, SMALL, sample=None)


def test_columns_are_named_when_rows_cannot_be_coded() -> None:
    pd = pytest.importorskip("pandas")
    code = RowCoder(
        [
            {"name": "a", "kind": "number", "categories": [], "optional": False, "form": ""},
            {"name": "b", "kind": "category", "categories": ["x"], "optional": True, "form": ""},
        ]
    )
    assert code(pd.DataFrame({"b": ["x", "?"], "a": [1, 2]})).tolist() == [[1, 0], [2, -1]]
    assert np.isnan(code(pd.DataFrame({"a": [1.0]}))[0, 1])
    for frame, message in (
        (pd.DataFrame({"b": ["x"]}), "column `a` is missing"),
        (pd.DataFrame({"a": [1.0, None]}), "column `a` has no value in row 1"),
        (pd.DataFrame({"a": ["much"]}), "column `a` does not hold values of kind number"),
    ):
        with pytest.raises(ValueError, match=message):
            code(frame)


def test_a_date_is_read_in_the_form_of_the_training_rows() -> None:
    pd = pytest.importorskip("pandas")
    code = RowCoder([{"name": "day", "kind": "date", "categories": [], "optional": True, "form": "%d/%m/%Y"}])
    assert code(pd.DataFrame({"day": ["01/02/1970", "13/01/1970"]})).tolist() == [[31, 0], [12, 0]]
    assert code(pd.DataFrame({"day": pd.to_datetime(["1970-02-01", None])}))[0].tolist() == [31, 0]
    with pytest.raises(ValueError, match="column `day` does not hold values of kind date"):
        code(pd.DataFrame({"day": ["1970-02-01"]}))
