"""How a step computes has one source: `plan`, `estimate`, `advise` and the rules agree on every number."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from worldsize import api
from worldsize.checking import check, check_spec
from worldsize.documents.errors import SpecError
from worldsize.facts.prices import PriceList, read_price_list
from worldsize.planning.advising.model import Choice, Question
from worldsize.planning.advising.options import make_option
from worldsize.resolving.advice import read_steps

SIZES = {"Standard_NC96ads_A100_v4": 4, "Standard_ND96isr_H100_v5": 8, "Standard_NC64as_T4_v3": 4}
TRAINERS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "train_ddp": {
        "strategy": ("ddp", "fsdp"),
        "precision": ("fp32", "fp16", "bf16"),
        "activation_checkpointing": ("none", "blocks"),
    },
    "train_deepspeed": {
        "zero_stage": (0, 1, 2, 3),
        "precision": ("fp32", "fp16", "bf16"),
        "activation_checkpointing": ("none", "blocks"),
    },
    "train_horovod": {"precision": ("fp32", "bf16")},
    "train_tensorflow": {"precision": ("fp32", "bf16")},
}
STRATEGIES = {"train_deepspeed": "deepspeed", "train_horovod": "horovod"}
SCRIPT = """
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--batch-size", type=int)
parser.parse_args()
torch.distributed.init_process_group("nccl")
"""
ARITHMETIC: Mapping[str, tuple[Any, ...]] = {
    "precision": ("fp32", "tf32", "fp16", "bf16"),
    "strategy": ("ddp", "fsdp", "deepspeed", "horovod"),
    "activation_checkpointing": (True, False, "selective"),
}


def draw_workload(draw: random.Random) -> dict[str, Any]:
    if draw.random() < 0.3:
        parameters, flops = draw.choice([(25.6e6, 8.2e9), (60.2e6, 23.1e9)])
        return {"kind": "convolutional", "parameters": parameters, "forward_flops": flops}
    layers, width = draw.choice([(12, 768), (24, 1024), (32, 4096)])
    return {
        "kind": "transformer", "parameters": 12 * layers * width**2 + 50_000 * width, "layers": layers,
        "width": width, "heads": width // 64, "vocabulary": 50_000,
        "sequence_length": draw.choice([512, 1024, 2048]),
    }  # fmt: skip


def draw_case(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A spec, and the estimate file that asks the same."""
    draw = random.Random(seed)
    size, count, batch = draw.choice([*SIZES]), draw.choice([1, 2, 4]), draw.choice([1, 4, 16])
    workload, uses = draw_workload(draw), draw.choice([*TRAINERS, ""])
    values = {name: draw.choice(choices) for name, choices in (TRAINERS.get(uses) or ARITHMETIC).items()}
    scale = {
        "reference": {"batch_size": batch, "learning_rate": 0.001},
        "workload": workload,
    }
    step: dict[str, Any] = {"compute": "gpu", "instance_count": count, "timeout": 3600, "scale": scale}
    if uses:
        optimizer = draw.choice(["sgd", "adamw"])
        step |= {"uses": uses, "with": {"model": "gpt", "optimizer": optimizer, "epochs": 1, **values}}
        training = {"strategy": STRATEGIES.get(uses, "ddp"), "optimizer": optimizer, **values}
        recomputes = training.pop("activation_checkpointing", "none") == "blocks"
        training["activation_checkpointing"] = recomputes
    else:
        scale |= {"rows": 100_000, "optimizer": "adamw", "epochs": 1, "arithmetic": values}
        command = "python train.py --lr ${{plan.learning_rate}} --batch-size ${{plan.batch_size_per_device}}"
        step |= {"command": command, "code": "./src", "environment": "azureml:training:4"}
        step["distribution"] = {"type": "pytorch"}
        training = {"optimizer": "adamw", **values}
    spec = {
        "name": "drawn",
        "compute": {
            "gpu": {"target": "azureml:gpu-cluster", "instance_type": size},
            "cpu": {"target": "azureml:cpu-cluster", "instance_type": "Standard_D16s_v5"},
        },
        "steps": {
            "shard": {"uses": "shard_data", "compute": "cpu", "with": {"source": "builtin:python-source"}},
            "train": step,
        },
    }
    cluster = {"instance_type": size, "instance_count": count}
    return spec, {"workload": workload, "training": {"micro_batch": batch, **training}, "cluster": cluster}


def write(path: Path, document: Mapping[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


@pytest.mark.parametrize("count", [25, pytest.param(500, marks=pytest.mark.run)])
def test_every_command_computes_a_step_alike(count: int, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text(SCRIPT, encoding="utf-8")
    prices = read_price_list(None, tmp_path / "none")
    told = {"priced": 0, "refused": 0}
    for seed in range(count):
        told[compare(*draw_case(seed), tmp_path, prices)] += 1
    assert min(told.values()) > count // 20  # both kinds were drawn


def compare(spec: Mapping[str, Any], asked: Mapping[str, Any], folder: Path, prices: PriceList) -> str:
    """Ask every command; whether it was priced or refused."""
    path, file = write(folder / "spec.yml", spec), write(folder / "estimate.yml", asked)
    errors = {finding.slug for finding in check([path]).errors}
    try:
        estimated = api.estimate(file)
    except SpecError as error:
        refused = {finding.slug for finding in error.diagnostics}
        if refused == {"memory-exceeded"}:
            assert errors == refused, spec
        else:  # the GPU does not compute in the precision, which a plan says instead of a time
            assert refused == {"spec-value-not-allowed"}, asked
            assert errors <= {"strategy-option-refused"}, spec  # a trainer of ours refuses it as well
            if not errors:
                assert api.forecast_steps(check_spec(path))["train"].time.estimate is None
        return "refused"
    assert errors == set(), spec
    checked = check_spec(path)
    forecast = api.forecast_steps(checked)["train"]
    assert forecast.time.case == estimated.case, spec
    assert forecast.time.estimate == estimated.estimate
    assert forecast.cost is not None
    assert forecast.cost.dedicated_price == estimated.cost.dedicated_price
    (subject,), _ = read_steps(checked.planned)
    assert subject.case == estimated.case
    assert subject.samples is not None
    question = Question(
        subject.case.workload, subject.case.training, subject.case.global_batch, subject.samples,
        Choice((), 1, ("dedicated",)), prices.find, None,
    )  # fmt: skip
    present = make_option(question, subject.case.cluster, subject.case.training, subject.tier)
    assert (present is None) == (forecast.time.total_seconds is None)
    if present is not None and forecast.time.total_seconds is not None:
        assert present.seconds.expected == pytest.approx(forecast.time.total_seconds.expected, rel=1e-9)
    if present is not None and present.amount is not None:
        assert forecast.cost.dedicated is not None
        assert present.amount.expected == pytest.approx(forecast.cost.dedicated.amount, rel=1e-9)
    return "priced"
