"""Planning whole specs: what is derived, and every way in which pinned numbers can disagree."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldsize import spec as spec_layer
from worldsize import yaml
from worldsize.diagnostics.problem import Problem
from worldsize.planning import Interface, Plan, Topology, Training, derive, localise
from worldsize.spec.model import Spec

GPU = "Standard_NC96ads_A100_v4"
REFERENCE = "reference: {batch_size: 32, learning_rate: 0.05}"


def load(text: str) -> Spec:
    document = yaml.load(Path("spec.yml"), text)
    found, problems = spec_layer.from_document(document, Path("spec.yml"))
    assert found is not None, problems
    return found


def write(
    scale: str | None = f"{{{REFERENCE}, optimizer: sgd}}",
    *,
    size: str | None = GPU,
    distribution: str | None = "{type: pytorch}",
    more: str = "",
    profile: str = "",
) -> str:
    """A spec of one training step with its own command."""
    parts = [
        "name: test",
        f"compute: {{gpu: {{target: azureml:gpu{f', instance_type: {size}' if size else ''}{profile}}}}}",
        "steps:",
        "  train:",
        "    command: python train.py",
        "    code: .",
        "    environment: azureml:env:1",
        *([f"    distribution: {distribution}"] if distribution else []),
        *([f"    {more}"] if more else []),
        *([f"    scale: {scale}"] if scale else []),
    ]
    return "\n".join(parts) + "\n"


def planned(text: str, **options: object) -> tuple[Plan, list[Problem]]:
    plan, problems = derive(load(text), **options)  # type: ignore[arg-type]
    assert plan is not None, problems
    return plan, problems


def training(plan: Plan) -> Training:
    found = plan.steps["train"].training
    assert found is not None
    return found


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, problems
    return problems[0]


def marked(text: str, problem: Problem) -> str:
    """The text under a problem's caret."""
    line = text.splitlines()[problem.span.line - 1]
    return line[problem.span.column - 1 : problem.span.end_column - 1]


def scaled(*parts: str) -> str:
    return "{" + ", ".join((REFERENCE, *parts)) + "}"


def test_the_example_of_the_design() -> None:
    plan, problems = planned(
        write(
            scaled("optimizer: sgd", "epochs: 20", "rows: 1438", "warmup_epochs: 2"), more="instance_count: 2"
        )
    )
    assert problems == []
    step = plan.steps["train"]
    assert step.topology == Topology("pytorch", GPU, 2, 4, 4, 8)
    found = training(plan)
    assert (found.global_batch_size, found.kappa, found.learning_rate) == (256, 8, 0.4)
    assert (found.steps_per_epoch, found.total_steps, found.warmup_steps) == (5, 100, 10)
    assert (found.shard_count, found.shards_per_rank) == (8, 1)
    assert step.inputs["epochs"] == 20
    assert isinstance(step.inputs["epochs"], int)
    assert "worker_count" not in step.inputs


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
def test_any_of_the_batches_may_be_pinned(pins: tuple[str, ...], expected: tuple[int, int, int]) -> None:
    plan, problems = planned(write(scaled("optimizer: sgd", *pins)))
    found = training(plan)
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
def test_batches_that_do_not_agree(pins: tuple[str, ...], slug: str, mark: str, says: str) -> None:
    text = write(scaled("optimizer: sgd", *pins))
    plan, problems = derive(load(text))
    assert plan is None
    problem = only(problems)
    assert (problem.slug, marked(text, problem)) == (slug, mark)
    assert says in (problem.help or "")


def test_a_reference_batch_that_its_gpus_cannot_share() -> None:
    text = write("{reference: {batch_size: 100, gpus: 8, learning_rate: 0.1}, optimizer: sgd}")
    plan, problems = derive(load(text))
    assert plan is None
    assert only(problems).slug == "reference-batch-does-not-divide"
    assert "96 or 104" in (only(problems).help or "")
    pinned = text.replace("optimizer: sgd", "optimizer: sgd, batch_size_per_device: 32")
    assert training(planned(pinned)[0]).global_batch_size == 128


def test_a_share_without_large_divisors_is_a_warning() -> None:
    plan, problems = planned(write(scaled("optimizer: sgd", "global_batch_size: 148")))
    assert training(plan).batch_size_per_device == 1
    assert only(problems).slug == "micro-batch-small"
    assert "128 or 256" in (only(problems).help or "")


@pytest.mark.parametrize(
    ("optimizer", "rule", "rate"),
    [("sgd", "linear", 0.2), ("Momentum", "linear", 0.2), ("AdamW", "sqrt", 0.1), ("rmsprop", "sqrt", 0.1)],
)
def test_auto_picks_the_rule_by_the_optimizer(optimizer: str, rule: str, rate: float) -> None:
    found = training(planned(write(scaled(f"optimizer: {optimizer}")))[0])
    assert (found.rule, found.learning_rate) == (rule, rate)
    assert found.optimizer == optimizer.lower()


@pytest.mark.parametrize(
    ("scale", "mark", "says"),
    [
        (scaled(), "scale", "optimizer:"),
        (scaled("rule: auto"), "auto", "optimizer:"),
        (scaled("optimizer: adamv"), "adamv", "did you mean `adam"),
        (scaled("optimizer: shampoo"), "shampoo", "rule: linear"),
    ],
)
def test_auto_needs_an_optimizer_it_knows(scale: str, mark: str, says: str) -> None:
    text = write(scale)
    plan, problems = derive(load(text))
    assert plan is None
    assert only(problems).slug == "optimizer-unknown"
    assert marked(text, only(problems)) == mark
    assert says in (only(problems).help or "")


def test_no_rule_is_needed_where_nothing_grows_or_one_is_given() -> None:
    assert training(planned(write(scaled("global_batch_size: 32")))[0]).rule == "none"
    found = training(planned(write(scaled("optimizer: shampoo", "rule: linear")))[0])
    assert (found.rule, found.optimizer) == ("linear", "shampoo")


def test_a_pinned_rate_is_kept_and_compared() -> None:
    text = write(scaled("optimizer: sgd", "learning_rate: 0.5"))
    plan, problems = planned(text)
    assert training(plan).learning_rate == 0.5
    assert (only(problems).slug, marked(text, only(problems))) == ("learning-rate-disagrees", "0.5")
    assert "0.2" in only(problems).message
    assert planned(write(scaled("optimizer: sgd", "learning_rate: 0.2")))[1] == []
    assert planned(write(scaled("optimizer: adam", "learning_rate: 0.0999")))[1] == []


def test_adam_beyond_the_range_of_its_rule() -> None:
    text = write(
        scaled("optimizer: adamw", "beta1: 0.95", "beta2: 0.95"),
        size="Standard_ND96isr_H100_v5",
        more="instance_count: 4",
    )
    plan, problems = planned(text)
    assert [(problem.slug, marked(text, problem)) for problem in problems] == [
        ("sqrt-rule-out-of-range", "0.95"),
        ("sqrt-rule-out-of-range", "0.95"),
    ]
    advice = " ".join(plan.steps["train"].advice)
    assert "ε" in advice
    assert "β" not in advice


def test_betas_of_the_component_are_what_is_checked() -> None:
    text = write(scaled("optimizer: adamw"), size="Standard_ND96isr_H100_v5", more="instance_count: 4")
    spec = load(text)
    kept = {"train": Interface({"beta1": 0.99, "beta2": 0.9999}, "pytorch")}
    assert derive(spec, kept)[1] == []
    assert [problem.slug for problem in derive(spec)[1]] == ["sqrt-rule-out-of-range"]


def test_advice_on_weight_decay_rule_and_size() -> None:
    adamw = planned(write(scaled("optimizer: adamw"), more="with: {weight_decay: 0.1}"))[0]
    assert any("weight decay 0.2" in line for line in adamw.steps["train"].advice)
    odd = planned(write(scaled("optimizer: adamw", "rule: linear")))[0]
    assert any("the sqrt rule is the one derived for it" in line for line in odd.steps["train"].advice)
    large = planned(write(scaled("optimizer: sgd", "global_batch_size: 16384")))[0]
    assert any("beyond 8192" in line for line in large.steps["train"].advice)


def test_kappa_below_one_lowers_the_rate() -> None:
    text = write("{reference: {batch_size: 1024, gpus: 32, learning_rate: 0.4}, optimizer: sgd}")
    plan, problems = planned(text)
    found = training(plan)
    assert (found.kappa, found.learning_rate, found.warmup_epochs) == (0.125, 0.05, 0)
    assert only(problems).slug == "kappa-below-one"


def test_warmup_longer_than_training() -> None:
    text = write(scaled("optimizer: sgd", "epochs: 4", "warmup_epochs: 5"))
    problem = only(planned(text)[1])
    assert (problem.slug, marked(text, problem)) == ("warmup-longer-than-training", "5")
    assert planned(text.replace("epochs: 4", "epochs: 5"))[1] == []


def test_rows() -> None:
    scale = scaled("optimizer: sgd", "epochs: 4", "rows: 1000")
    assert planned(write(scale), rows={"train": 1000})[1] == []
    text = write(scale)
    problem = only(planned(text, rows={"train": 999})[1])
    assert (problem.slug, marked(text, problem)) == ("rows-disagree", "1000")
    counted = planned(write(scaled("optimizer: sgd", "epochs: 4")), rows={"train": 999})[0]
    assert training(counted).steps_per_epoch == 7
    few = write(scaled("optimizer: sgd", "rows: 127"))
    assert only(planned(few)[1]).slug == "rows-fewer-than-global-batch"
    short = write(scaled("optimizer: sgd", "rows: 1280", "epochs: 0.01"))
    assert only(planned(short)[1]).slug == "training-shorter-than-one-step"


def test_rows_that_are_unknown_leave_steps_out() -> None:
    plan, problems = planned(write(scaled("optimizer: sgd", "epochs: 4")))
    assert problems == []
    assert training(plan).total_steps is None
    assert "total_steps" not in plan.steps["train"].inputs
    assert any("give `rows:`" in line for line in plan.steps["train"].advice)


@pytest.mark.parametrize(
    ("more", "slug", "mark"),
    [
        ("process_count_per_instance: 16", "processes-exceed-gpus", "16"),
        ("process_count_per_instance: 1", "processes-below-gpus", "1"),
        ("instance_count: 5", "instance-count-exceeds-max", "5"),
    ],
)
def test_pinned_counts_are_verified(more: str, slug: str, mark: str) -> None:
    text = write(more=more, profile=", max_instances: 4")
    problem = only(planned(text)[1])
    assert (problem.slug, marked(text, problem)) == (slug, mark)
    numbers = {"processes-exceed-gpus": ("16", "4"), "processes-below-gpus": ("1", "4")}
    assert all(number in problem.message for number in numbers.get(slug, ("5", "4")))
    assert planned(write(more="process_count_per_instance: 4", profile=", max_instances: 4"))[1] == []


def test_a_fraction_of_a_card_takes_one_process() -> None:
    plan, problems = planned(write(size="Standard_NV6ads_A10_v5"))
    assert problems == []
    assert plan.steps["train"].topology.process_count_per_instance == 1
    assert plan.steps["train"].topology.gpus_per_instance == pytest.approx(1 / 6, abs=1e-3)


def test_a_cpu_size_takes_what_is_pinned() -> None:
    plan, problems = planned(write(size="Standard_D16s_v5", more="process_count_per_instance: 8"))
    assert problems == []
    assert plan.steps["train"].topology.world_size == 8
    assert planned(write(size="Standard_D16s_v5"))[0].steps["train"].topology.world_size == 1


@pytest.mark.parametrize(
    ("size", "slug", "says"),
    [
        ("Standard_NC24s_v3", "vm-size-retired", "2025-09-30"),
        ("Standard_NC128ds_xl_RTXPRO6000BSE_v6", "vm-size-retired", "no longer deploys"),
        ("Standard_HB120rs_v2", "vm-size-retiring", "2027-05-31"),
    ],
)
def test_sizes_that_go_or_are_gone(size: str, slug: str, says: str) -> None:
    problem = only(
        planned(write(size=size, more=f"process_count_per_instance: {4 if '24' in size else 1}"))[1]
    )
    assert problem.slug == slug
    assert says in problem.message


def test_the_day_may_be_chosen() -> None:
    text = write(size="Standard_HB120rs_v2")
    assert only(planned(text, today=date(2027, 6, 1))[1]).slug == "vm-size-retired"


def test_an_unknown_size_matters_only_where_gpus_are_counted() -> None:
    typo = "Standard_NC96ads_A100v4"
    plan, problems = derive(load(write(size=typo)))
    assert plan is None
    assert only(problems).slug == "process-count-unknown"
    assert f"`{GPU}`" in (only(problems).help or "")
    warned = only(planned(write(size=typo, more="process_count_per_instance: 4"))[1])
    assert (warned.slug, warned.help) == ("vm-size-unknown", f"did you mean `{GPU}`?")
    assert only(planned(write(None, size=typo, distribution=None))[1]).slug == "vm-size-unknown"
    assert only(derive(load(write(size=None)))[1]).slug == "process-count-unknown"
    assert planned(write(size=None, more="process_count_per_instance: 4"))[1] == []


def test_a_size_of_two_steps_is_reported_once() -> None:
    text = write(size="Standard_HB120rs_v2")
    again = text.split("steps:\n")[1].replace("train:", "again:", 1)
    assert len(planned(text + again)[1]) == 1


def test_tensorflow_drives_all_gpus_with_one_process() -> None:
    plan, problems = planned(write(distribution="{type: tensorflow}", more="instance_count: 2"))
    assert problems == []
    found = plan.steps["train"].topology
    assert (found.process_count_per_instance, found.worker_count, found.world_size) == (1, 2, 8)
    assert training(plan).global_batch_size == 256


def test_tensorflow_counts_are_verified() -> None:
    text = write(distribution="{type: tensorflow, worker_count: 4}", more="instance_count: 2")
    problem = only(planned(text)[1])
    assert (problem.slug, marked(text, problem)) == ("worker-count-disagrees", "4")
    text = write(distribution="{type: tensorflow}", more="process_count_per_instance: 4")
    assert only(planned(text)[1]).slug == "tensorflow-one-process"
    unknown = derive(load(write(distribution="{type: tensorflow}", size="Standard_Foo")))
    assert unknown[0] is None
    assert "TensorFlow drives all GPUs" in (only(unknown[1]).help or "")


def test_processes_need_a_distribution() -> None:
    text = write(None, distribution=None, more="process_count_per_instance: 4")
    assert only(planned(text)[1]).slug == "processes-without-distribution"


def test_what_is_said_twice_must_agree() -> None:
    spec = load(write(scaled("optimizer: adamw"), more="with: {optimizer: sgd}"))
    problem = only(derive(spec)[1])
    assert problem.slug == "scale-disagrees-with-input"
    assert "`optimizer` is adamw" in problem.message
    spec = load(write(scaled("optimizer: adamw")))
    assert only(derive(spec, {"train": Interface({"optimizer": "sgd"}, "pytorch")})[1]).slug == (
        "scale-disagrees-with-input"
    )
    assert derive(spec, {"train": Interface({"optimizer": "AdamW"}, "pytorch")})[1] == []
    spec = load(write(scaled("optimizer: sgd", "epochs: 4"), more="with: {epochs: 5}"))
    assert only(derive(spec)[1]).slug == "scale-disagrees-with-input"
    spec = load(write(scaled("optimizer: sgd", "epochs: 4")))
    assert derive(spec, {"train": Interface({"epochs": 12}, "pytorch")})[1] == []


COMPONENT = """\
name: test
compute: {gpu: {target: azureml:gpu, instance_type: Standard_NC96ads_A100_v4}}
steps:
  train: {uses: "%s", scale: {reference: {batch_size: 32, learning_rate: 0.05}}, with: {optimizer: sgd}%s}
"""


def test_the_component_says_how_it_is_started() -> None:
    spec = load(COMPONENT % ("train_ddp", ""))
    interface = Interface({"epochs": 12, "loader_workers": 4}, "pytorch", instance_count=3)
    plan, problems = derive(spec, {"train": interface}, {"train": 10_000})
    assert problems == []
    assert plan is not None
    assert plan.steps["train"].topology.world_size == 12
    assert training(plan).total_steps == 12 * (10_000 // 384)
    assert (training(plan).shard_count, training(plan).shards_per_rank) == (48, 4)


@pytest.mark.parametrize(("more", "launcher"), [("", "pytorch"), (", worker_count: 1", "tensorflow")])
def test_a_component_that_cannot_be_seen_is_known_by_its_counts(more: str, launcher: str) -> None:
    plan, problems = derive(load(COMPONENT % ("azureml:mine:1", more)))
    assert problems == []
    assert plan is not None
    assert plan.steps["train"].topology.launcher == launcher


batches = st.integers(1, 512)


@settings(max_examples=60, deadline=None)
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
    plan, problems = derive(load(write(f"{{{scale}}}", size="Standard_D16s_v5", more=more)))
    if plan is None:
        assert whole is not None
        assert {problem.slug for problem in problems} <= {"global-batch-does-not-factor", "batch-identity"}
        return
    found, topology = training(plan), plan.steps["train"].topology
    product = found.batch_size_per_device * found.gradient_accumulation_steps * topology.world_size
    assert product == found.global_batch_size
    assert found.global_batch_size == (whole or found.global_batch_size)
    assert found.shard_count % topology.world_size == 0
    local = localise(plan, slots)
    same_mathematics(plan, local, slots)
    again = localise(local, slots).steps["train"]
    assert (again.topology, again.training) == (local.steps["train"].topology, local.steps["train"].training)


def same_mathematics(plan: Plan, local: Plan, slots: int) -> None:
    """Fewer processes change the world size and the accumulation, and nothing else that a step is told."""
    before, after = plan.steps["train"], local.steps["train"]
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
    placed = {"world_size", "gradient_accumulation_steps", "process_count_per_instance", "instance_count"}
    assert changed <= placed
    assert set(before.inputs) == set(after.inputs)
