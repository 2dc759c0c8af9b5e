from __future__ import annotations

import importlib.util
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from wsshards.errors import UserError
from wstrain.fine_tuning import DEFAULTS
from wstrain.settings import Settings, parse_settings

COMPONENTS = Path(__file__).parents[2] / "components"
# Whatever trains through wstrain declares what it adds to the common inputs in its train.py.
TRAINERS = sorted(path.parents[1].name for path in COMPONENTS.glob("train_*/src/train.py"))
PLAN = {"world_size": 2, "batch_size_per_device": 32, "global_batch_size": 64, "learning_rate": 0.1}
PATHS = {"shards": "s", "checkpoints": "c", "trained_model": "m"}


def described(name: str) -> dict[str, Any]:
    text = (COMPONENTS / name / "component.yml").read_text(encoding="utf-8")
    component: dict[str, Any] = yaml.safe_load(text)
    return component


def entry(name: str) -> ModuleType:
    place = importlib.util.spec_from_file_location(f"{name}_train", COMPONENTS / name / "src" / "train.py")
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def arguments(**values: object) -> list[str]:
    return [part for name, value in (PATHS | PLAN | values).items() for part in (f"--{name}", str(value))]


def read(component: str = "train_ddp", **values: object) -> Settings:
    module = entry(component)
    return parse_settings(
        arguments(**values), started=2, strategies=module.STRATEGIES, options=module.OPTIONS
    )


@pytest.mark.parametrize("name", TRAINERS)
def test_every_input_is_a_flag_and_every_flag_an_input(name: str) -> None:
    component, settings = described(name), read(name)
    ports = set(component["inputs"]) | {"checkpoints", "trained_model"}
    # Not every component divides a model, computes its blocks again, or has all of fine-tuning.
    known = {field.name for field in fields(Settings)} - {"options"} | set(settings.options)
    some = {"tensor_parallel_size", "pipeline_parallel_size", "activation_checkpointing"}
    some |= {"predicted_memory_bytes", "ema_decay", "compile"}
    some |= {*(DEFAULTS.keys() - {"initial_model", "freeze"} if name == "train_tensorflow" else ())}
    assert known - some <= ports <= known
    flags = re.findall(r"--(\w+) '?\$\{\{(?:inputs|outputs)\.(\w+)\}\}", component["command"])
    assert {flag for flag, _ in flags} == ports
    assert all(flag == port for flag, port in flags if flag != "trained_model")


@pytest.mark.parametrize("name", TRAINERS)
def test_the_component_and_the_command_line_have_the_same_defaults(name: str) -> None:
    inputs = described(name)["inputs"]
    given = read(name, **{key: port["default"] for key, port in inputs.items() if "default" in port})
    assert given == read(name)


@pytest.mark.parametrize("name", TRAINERS)
def test_a_component_offers_the_strategies_of_its_entry(name: str) -> None:
    assert tuple(described(name)["inputs"]["strategy"]["enum"]) == tuple(entry(name).STRATEGIES)


@pytest.mark.parametrize("name", TRAINERS)
def test_optional_inputs_stand_in_optional_sections(name: str) -> None:
    component = described(name)
    optional = {key for key, port in component["inputs"].items() if port.get("optional")}
    sections = re.findall(r"\$\[\[.*?inputs\.(\w+).*?\]\]", component["command"])
    assert set(sections) == optional


def test_literals_are_read_as_azure_ml_renders_them() -> None:
    settings = read(sync_batch_norm=True, learning_rate=1e-05, epochs=12.0, lr_decay_epochs="1,2.5")
    assert settings.sync_batch_norm is True
    assert settings.learning_rate == 1e-05
    assert settings.lr_decay_epochs == (1.0, 2.5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": "many"}, "input epochs: `many` is not a number"),
        ({"epochs": 0}, "input epochs: `0` must be above 0"),
        ({"epochs": "nan"}, "input epochs: `nan` must be above 0"),
        ({"learning_rate": "inf"}, "input learning_rate: `inf` must be at least 0"),
        ({"momentum": 1}, "input momentum: `1` must be at least 0 and below 1"),
        ({"world_size": 1.5}, "input world_size: `1.5` is not a whole number"),
        ({"loader_workers": 17}, "input loader_workers: `17` must be at least 0 and at most 16"),
        ({"sync_batch_norm": "yes"}, "input sync_batch_norm: `yes` is neither true nor false"),
        ({"lr_decay_epochs": "30,20"}, "input lr_decay_epochs: `30,20` must rise from above 0"),
        ({"optimizer": "sdg"}, "input optimizer: invalid choice: 'sdg'"),
        ({"gpt_hats": 4}, "unrecognized arguments: --gpt_hats 4"),
    ],
)
def test_a_wrong_value_is_one_sentence(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        read(**values)


def test_a_missing_value_is_named() -> None:
    with pytest.raises(UserError, match=r"are required: --checkpoints, --trained_model"):
        parse_settings(["--shards", "s"], started=1, strategies=("ddp",))


def alone(started: int, **values: object) -> Settings:
    """What a component in the designer reads: nothing but paths and what was typed."""
    given = [part for name, value in (PATHS | values).items() for part in (f"--{name}", str(value))]
    return parse_settings(given, started=started, strategies=("ddp",))


@pytest.mark.parametrize(
    ("started", "values", "batches", "rates", "warmup"),
    [
        (1, {}, (32, 1, 32), (0.05, 0.05), 0.0),
        (8, {"epochs": 20}, (32, 1, 256), (0.4, 0.05), 2.0),
        (8, {"epochs": 90}, (32, 1, 256), (0.4, 0.05), 5.0),
        (8, {"optimizer": "adamw"}, (32, 1, 256), (0.001 * 8**0.5, 0.001), 0.0),
        (2, {"global_batch_size": 256}, (32, 4, 256), (0.4, 0.05), 1.2),
        (2, {"learning_rate": 0.3}, (32, 1, 64), (0.3, None), 0.0),
        (2, {"learning_rate": 0.3, "reference_learning_rate": 0.1}, (32, 1, 64), (0.3, 0.1), 0.0),
        (4, {"batch_size_per_device": 8, "learning_rate_rule": "none"}, (8, 1, 32), (0.05, 0.05), 0.0),
        (2, {"warmup_epochs": 0}, (32, 1, 64), (0.1, 0.05), 0.0),
    ],
)
def test_without_a_plan_the_launch_and_the_defaults_give_its_numbers(
    started: int,
    values: dict[str, object],
    batches: tuple[int, int, int],
    rates: tuple[float, float | None],
    warmup: float,
) -> None:
    settings = alone(started, **values)
    assert settings.world_size == started
    given = settings.batch_size_per_device, settings.gradient_accumulation_steps, settings.global_batch_size
    assert given == batches
    assert settings.learning_rate == pytest.approx(rates[0], rel=1e-9)
    assert settings.reference_learning_rate == rates[1]
    assert settings.warmup_epochs == pytest.approx(warmup)


def test_a_batch_that_the_processes_cannot_share_is_refused() -> None:
    with pytest.raises(UserError, match=r"`global_batch_size` is 100, which 3 replicas cannot share equally"):
        alone(3, global_batch_size=100)
