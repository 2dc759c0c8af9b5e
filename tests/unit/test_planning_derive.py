"""Batches, rates and lengths of whole specs, and every way in which pinned numbers can disagree."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.planning.derive import derive
from worldsize.planning.localise import localise
from worldsize.planning.model import Interface, StepPlan, Topology, Training
from worldsize.planning.quantities import DEGREES, QUANTITIES, find_unit, input_type, label_quantity

Planner = Any  # the fixture's class lives in conftest.py


def test_the_example_of_the_design(planner: Planner) -> None:
    plan, problems = planner.planned(
        planner.write(
            planner.scaled("optimizer: sgd", "epochs: 20", "rows: 1438", "warmup_epochs: 2"),
            more="instance_count: 2",
        )
    )
    assert problems == []
    step = plan.steps["train"]
    assert step.topology == Topology("pytorch", planner.gpu, 2, 4, 4, 8, local_world_size=4)
    found = planner.training(plan)
    assert (found.global_batch_size, found.kappa, found.learning_rate) == (256, 8, 0.4)
    assert (found.steps_per_epoch, found.total_steps, found.warmup_steps) == (5, 100, 10)
    assert (found.shard_count, found.shards_per_rank) == (8, 1)
    assert step.inputs["epochs"] == 20
    assert isinstance(step.inputs["epochs"], int)
    assert "worker_count" not in step.inputs


def test_a_script_may_keep_its_last_batch(planner: Planner, tmp_path: Path) -> None:
    scale = planner.scaled("optimizer: sgd", "epochs: 2", "rows: 1438", "drop_last: false")
    text = planner.write(scale, more="instance_count: 2")
    plan, problems = planner.planned(text)
    assert problems == []
    found = planner.training(plan)
    assert (found.steps_per_epoch, found.total_steps) == (6, 12)
    told = next(each for each in plan.steps["train"].derivations if each.quantity == "steps_per_epoch")
    assert (told.formula, told.source) == ("⌈1438 / 256⌉", "an incomplete last batch is a step too")

    command = "    command: python train.py\n    code: .\n    environment: azureml:env:1\n"
    text = planner.write(scale, distribution=None)
    assert command in text
    found = planner.check(tmp_path, text.replace(command, "    uses: train_ddp\n"))
    assert any("only a step with its own `command`" in each.message for each in found)


@pytest.mark.parametrize(
    ("pins", "expected"),
    [
        ((), (32, 1, 128)),
        (("batch_size_per_device: 8",), (8, 1, 32)),
        (("gradient_accumulation_steps: 4",), (32, 4, 512)),
        (("batch_size_per_device: 8", "gradient_accumulation_steps: 4"), (8, 4, 128)),
        (("global_batch_size: 64",), (16, 1, 64)),
        (("global_batch_size: 512",), (32, 4, 512)),
        (("global_batch_size: 192",), (24, 2, 192)),
        (("global_batch_size: 512", "batch_size_per_device: 64"), (64, 2, 512)),
        (("global_batch_size: 512", "gradient_accumulation_steps: 2"), (64, 2, 512)),
        (
            ("global_batch_size: 512", "gradient_accumulation_steps: 2", "batch_size_per_device: 64"),
            (64, 2, 512),
        ),
    ],
)
def test_any_of_the_batches_may_be_pinned(
    planner: Planner, pins: tuple[str, ...], expected: tuple[int, int, int]
) -> None:
    plan, problems = planner.planned(planner.write(planner.scaled("optimizer: sgd", *pins)))
    found = planner.training(plan)
    got = (found.batch_size_per_device, found.gradient_accumulation_steps, found.global_batch_size)
    assert got == expected
    assert {problem.slug for problem in problems} <= {"kappa-below-one"}


@pytest.mark.parametrize(
    ("pins", "slug", "mark", "says"),
    [
        (("global_batch_size: 250",), "global-batch-does-not-factor", "250", "248 or 252"),
        (("global_batch_size: 2",), "global-batch-does-not-factor", "2", "write 4, the smallest"),
        (
            ("global_batch_size: 200", "batch_size_per_device: 32"),
            "global-batch-does-not-factor",
            "200",
            "128 or 256",
        ),
        (
            ("global_batch_size: 100", "gradient_accumulation_steps: 8"),
            "global-batch-does-not-factor",
            "100",
            "96 or 128",
        ),
        (
            ("global_batch_size: 256", "batch_size_per_device: 32", "gradient_accumulation_steps: 4"),
            "batch-identity",
            "256",
            "512",
        ),
    ],
)
def test_batches_that_do_not_agree(
    planner: Planner, pins: tuple[str, ...], slug: str, mark: str, says: str
) -> None:
    text = planner.write(planner.scaled("optimizer: sgd", *pins))
    plan, problems = derive(planner.load(text))[:2]
    assert plan is None
    problem = planner.only(problems)
    assert (problem.slug, planner.marked(text, problem)) == (slug, mark)
    assert says in (problem.help or "")


def test_a_reference_batch_that_its_gpus_cannot_share(planner: Planner) -> None:
    text = planner.write("{reference: {batch_size: 100, gpus: 8, learning_rate: 0.1}, optimizer: sgd}")
    plan, problems = derive(planner.load(text))[:2]
    assert plan is None
    assert planner.only(problems).slug == "reference-batch-does-not-divide"
    assert "96 or 104" in (planner.only(problems).help or "")
    pinned = text.replace("optimizer: sgd", "optimizer: sgd, batch_size_per_device: 32")
    assert planner.training(planner.planned(pinned)[0]).global_batch_size == 128


def test_a_share_without_large_divisors_is_a_warning(planner: Planner) -> None:
    plan, problems = planner.planned(
        planner.write(planner.scaled("optimizer: sgd", "global_batch_size: 148"))
    )
    assert planner.training(plan).batch_size_per_device == 1
    assert planner.only(problems).slug == "micro-batch-small"
    assert "128 or 256" in (planner.only(problems).help or "")


@pytest.mark.parametrize(
    ("optimizer", "rule", "rate"),
    [("sgd", "linear", 0.2), ("Momentum", "linear", 0.2), ("AdamW", "sqrt", 0.1), ("rmsprop", "sqrt", 0.1)],
)
def test_auto_picks_the_rule_by_the_optimizer(
    planner: Planner, optimizer: str, rule: str, rate: float
) -> None:
    found = planner.training(planner.planned(planner.write(planner.scaled(f"optimizer: {optimizer}")))[0])
    assert (found.rule, found.learning_rate) == (rule, rate)
    assert found.optimizer == optimizer.lower()


@pytest.mark.parametrize(
    ("said", "mark", "says"),
    [
        ((), "scale", "optimizer:"),
        (("rule: auto",), "auto", "optimizer:"),
        (("optimizer: adamv",), "adamv", "did you mean `adam"),
        (("optimizer: shampoo",), "shampoo", "rule: linear"),
    ],
)
def test_auto_needs_an_optimizer_it_knows(
    planner: Planner, said: tuple[str, ...], mark: str, says: str
) -> None:
    text = planner.write(planner.scaled(*said))
    plan, problems = derive(planner.load(text))[:2]
    assert plan is None
    assert planner.only(problems).slug == "optimizer-unknown"
    assert planner.marked(text, planner.only(problems)) == mark
    assert says in (planner.only(problems).help or "")


def test_no_rule_is_needed_where_nothing_grows_or_one_is_given(planner: Planner) -> None:
    assert (
        planner.training(planner.planned(planner.write(planner.scaled("global_batch_size: 32")))[0]).rule
        == "none"
    )
    found = planner.training(
        planner.planned(planner.write(planner.scaled("optimizer: shampoo", "rule: linear")))[0]
    )
    assert (found.rule, found.optimizer) == ("linear", "shampoo")


def test_a_pinned_rate_is_kept_and_compared(planner: Planner) -> None:
    text = planner.write(planner.scaled("optimizer: sgd", "learning_rate: 0.5"))
    plan, problems = planner.planned(text)
    assert planner.training(plan).learning_rate == 0.5
    assert (planner.only(problems).slug, planner.marked(text, planner.only(problems))) == (
        "learning-rate-disagrees",
        "0.5",
    )
    assert "0.2" in planner.only(problems).message
    assert planner.planned(planner.write(planner.scaled("optimizer: sgd", "learning_rate: 0.2")))[1] == []
    assert planner.planned(planner.write(planner.scaled("optimizer: adam", "learning_rate: 0.0999")))[1] == []


def test_adam_beyond_the_range_of_its_rule(planner: Planner) -> None:
    text = planner.write(
        planner.scaled("optimizer: adamw", "beta1: 0.95", "beta2: 0.95"),
        size="Standard_ND96isr_H100_v5",
        more="instance_count: 4",
    )
    plan, problems = planner.planned(text)
    assert [(problem.slug, planner.marked(text, problem)) for problem in problems] == [
        ("sqrt-rule-out-of-range", "0.95"),
        ("sqrt-rule-out-of-range", "0.95"),
    ]
    advice = " ".join(plan.steps["train"].advice)
    assert "ε" in advice
    assert "β" not in advice


def test_betas_of_the_component_are_what_is_checked(planner: Planner) -> None:
    text = planner.write(
        planner.scaled("optimizer: adamw"), size="Standard_ND96isr_H100_v5", more="instance_count: 4"
    )
    spec = planner.load(text)
    kept = {"train": Interface({"beta1": 0.99, "beta2": 0.9999}, "pytorch")}
    assert derive(spec, kept)[1] == []
    assert [problem.slug for problem in derive(spec)[1]] == ["sqrt-rule-out-of-range"]


def test_advice_on_weight_decay_rule_and_size(planner: Planner) -> None:
    adamw = planner.planned(
        planner.write(planner.scaled("optimizer: adamw"), more="with: {weight_decay: 0.1}")
    )[0]
    assert any("weight decay 0.2" in line for line in adamw.steps["train"].advice)
    odd = planner.planned(planner.write(planner.scaled("optimizer: adamw", "rule: linear")))[0]
    assert any("the sqrt rule is the one derived for it" in line for line in odd.steps["train"].advice)
    large = planner.planned(planner.write(planner.scaled("optimizer: sgd", "global_batch_size: 16384")))[0]
    assert any("beyond 8192" in line for line in large.steps["train"].advice)


def test_kappa_below_one_lowers_the_rate(planner: Planner) -> None:
    text = planner.write("{reference: {batch_size: 1024, gpus: 32, learning_rate: 0.4}, optimizer: sgd}")
    plan, problems = planner.planned(text)
    found = planner.training(plan)
    assert (found.kappa, found.learning_rate, found.warmup_epochs) == (0.125, 0.05, 0)
    assert planner.only(problems).slug == "kappa-below-one"


def test_warmup_longer_than_training(planner: Planner) -> None:
    text = planner.write(planner.scaled("optimizer: sgd", "epochs: 4", "warmup_epochs: 5"))
    problem = planner.only(planner.planned(text)[1])
    assert (problem.slug, planner.marked(text, problem)) == ("warmup-longer-than-training", "5")
    assert planner.planned(text.replace("epochs: 4", "epochs: 5"))[1] == []


def test_rows(planner: Planner) -> None:
    scale = planner.scaled("optimizer: sgd", "epochs: 4", "rows: 1000")
    assert planner.planned(planner.write(scale), rows={"train": 1000})[1] == []
    text = planner.write(scale)
    problem = planner.only(planner.planned(text, rows={"train": 999})[1])
    assert (problem.slug, planner.marked(text, problem)) == ("rows-disagree", "1000")
    counted = planner.planned(
        planner.write(planner.scaled("optimizer: sgd", "epochs: 4")), rows={"train": 999}
    )[0]
    assert planner.training(counted).steps_per_epoch == 7
    few = planner.write(planner.scaled("optimizer: sgd", "rows: 127"))
    assert planner.only(planner.planned(few)[1]).slug == "rows-fewer-than-global-batch"
    short = planner.write(planner.scaled("optimizer: sgd", "rows: 1280", "epochs: 0.01"))
    assert planner.only(planner.planned(short)[1]).slug == "training-shorter-than-one-step"


def test_rows_that_are_unknown_leave_steps_out(planner: Planner) -> None:
    plan, problems = planner.planned(planner.write(planner.scaled("optimizer: sgd", "epochs: 4")))
    assert problems == []
    assert planner.training(plan).total_steps is None
    assert "total_steps" not in plan.steps["train"].inputs
    assert any("give `rows:`" in line for line in plan.steps["train"].advice)


def test_what_is_said_twice_must_agree(planner: Planner) -> None:
    spec = planner.load(planner.write(planner.scaled("optimizer: adamw"), more="with: {optimizer: sgd}"))
    problem = planner.only(derive(spec)[1])
    assert problem.slug == "scale-disagrees-with-input"
    assert "`optimizer` is adamw" in problem.message
    spec = planner.load(planner.write(planner.scaled("optimizer: adamw")))
    assert planner.only(derive(spec, {"train": Interface({"optimizer": "sgd"}, "pytorch")})[1]).slug == (
        "scale-disagrees-with-input"
    )
    assert derive(spec, {"train": Interface({"optimizer": "AdamW"}, "pytorch")})[1] == []
    spec = planner.load(
        planner.write(planner.scaled("optimizer: sgd", "epochs: 4"), more="with: {epochs: 5}")
    )
    assert planner.only(derive(spec)[1]).slug == "scale-disagrees-with-input"
    spec = planner.load(planner.write(planner.scaled("optimizer: sgd", "epochs: 4")))
    assert derive(spec, {"train": Interface({"epochs": 12}, "pytorch")})[1] == []


batches = st.integers(1, 512)


@given(
    reference=batches,
    instances=st.integers(1, 8),
    processes=st.integers(1, 8),
    b=st.none() | batches,
    a=st.none() | st.integers(1, 8),
    whole=st.none() | st.integers(1, 4096),
    optimizer=st.sampled_from(["sgd", "adamw"]),
    rows=st.none() | st.integers(1, 100_000),
    slots=st.integers(1, 16),
)
def test_the_laws(
    planner: Planner,
    *,
    reference: int,
    instances: int,
    processes: int,
    b: int | None,
    a: int | None,
    whole: int | None,
    optimizer: str,
    rows: int | None,
    slots: int,
) -> None:
    pins = {
        "batch_size_per_device": b,
        "gradient_accumulation_steps": a,
        "global_batch_size": whole,
        "rows": rows,
    }
    given_ = [f"{name}: {value}" for name, value in pins.items() if value is not None]
    scale = ", ".join(
        [f"reference: {{batch_size: {reference}, learning_rate: 0.1}}", f"optimizer: {optimizer}", *given_]
    )
    more = f"instance_count: {instances}\n    process_count_per_instance: {processes}"
    plan, problems = derive(planner.load(planner.write(f"{{{scale}}}", size="Standard_D16s_v5", more=more)))[
        :2
    ]
    if plan is None:
        assert whole is not None
        assert {problem.slug for problem in problems} <= {"global-batch-does-not-factor", "batch-identity"}
        return
    found, topology = planner.training(plan), plan.steps["train"].topology
    product = found.batch_size_per_device * found.gradient_accumulation_steps * topology.world_size
    assert product == found.global_batch_size
    assert found.global_batch_size == (whole or found.global_batch_size)
    assert found.shard_count % topology.world_size == 0
    before = plan.steps["train"]
    local = localise(before, slots)
    same_mathematics(before, local, slots)
    again = localise(local, slots)
    assert (again.topology, again.training) == (local.topology, local.training)


def same_mathematics(before: StepPlan, after: StepPlan, slots: int) -> None:
    """Fewer processes change the world size and the accumulation, and nothing else that a step is told."""
    assert after.training is not None
    assert before.training is not None
    world = after.topology.world_size
    assert 1 <= world <= min(slots, before.topology.world_size)
    b = after.training.batch_size_per_device
    assert b * after.training.gradient_accumulation_steps * world == before.training.global_batch_size
    share = before.training.global_batch_size // b
    most = min(slots, before.topology.world_size)
    assert not any(share % more == 0 for more in range(world + 1, most + 1))
    changed = {name for name in before.inputs if before.inputs[name] != after.inputs[name]}
    placed = {"world_size", "data_parallel_size", "local_world_size"}
    placed |= {"gradient_accumulation_steps", "process_count_per_instance", "instance_count"}
    assert changed <= placed
    assert set(before.inputs) == set(after.inputs)


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
