"""The table of DeepSpeed's keys, made again from the DeepSpeed that is installed."""

from __future__ import annotations

import enum
import inspect
import json
import re
import types
import typing
from pathlib import Path
from typing import Any

import pytest

from wstrain_deepspeed.config import schema

pytestmark = [pytest.mark.run, pytest.mark.smoke]
READ = "2026-11-21"  # the day it was last made
TABLE = Path(schema.__file__).with_name("keys.json")

SWITCH, WHOLE, NUMBER, TEXT, BLOCK, LIST = "boolean", "integer", "number", "text", "block", "list"
# DeepSpeed checks no type outside its pydantic models. These are what its code does with the values.
TOP: dict[str, dict[str, Any]] = {
    "train_batch_size": {"type": [WHOLE], "min": 1},
    "train_micro_batch_size_per_gpu": {"type": [WHOLE], "min": 1},
    "gradient_accumulation_steps": {"type": [WHOLE], "min": 1},
    "gradient_clipping": {"type": [NUMBER], "min": 0},
    "gradient_predivide_factor": {"type": [NUMBER], "above": 0},
    "gradient_allreduce_op": {"type": [TEXT], "of": ["mean", "sum"]},
    "communication_data_type": {"type": [TEXT], "of": ["fp16", "bf16", "fp32"]},
    "seq_parallel_communication_data_type": {"type": [TEXT], "of": ["fp16", "bf16", "fp32"]},
    "steps_per_print": {"type": [NUMBER]},  # Hugging Face writes infinity
    "vocabulary_size": {"type": [WHOLE]},
    "sequence_parallel_size": {"type": [WHOLE], "min": 1},
    "log_level": {"type": [TEXT]},
    "zero_optimization": {"type": [BLOCK, SWITCH]},
    "optimizer": {"type": [BLOCK]},
    "scheduler": {"type": [BLOCK]},
}
FLAGS = (
    "managed_gradient_accumulation", "dump_state", "disable_python_gc", "disable_allgather",
    "prescale_gradients", "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer",
    "wall_clock_breakdown", "memory_breakdown", "dataloader_drop_last", "use_data_before_expert_parallelism",
)  # fmt: skip
DTYPE = {"type": [TEXT], "of": ["fp16", "float16", "half", "bf16", "bfloat16", "fp32", "float32", "float"]}
OPEN: dict[str, dict[str, dict[str, Any]]] = {  # blocks of which DeepSpeed ignores unknown keys
    "activation_checkpointing": {"number_checkpoints": {"type": [WHOLE, "null"]}},
    "torch_autocast": {"dtype": {"type": [TEXT]}, "lower_precision_safe_modules": {"type": [LIST]}},
    "flops_profiler": {},
    "autotuning": {},
    "checkpoint": {"tag_validation": {"type": [TEXT]}},
    "data_types": {"grad_accum_dtype": DTYPE, "param_dtype": DTYPE, "buffer_dtype": DTYPE},
    "aio": {},
    "optimizer": {"type": {"type": [TEXT]}, "params": {"type": [BLOCK]}, "legacy_fusion": {"type": [SWITCH]}},
    "scheduler": {"type": {"type": [TEXT]}, "params": {"type": [BLOCK]}},
}
SWITCHES = {"enabled", "partition_activations", "contiguous_memory_optimization", "cpu_checkpointing",
            "profile", "synchronize_checkpoint_boundary"}  # fmt: skip
FREE = (
    "data_efficiency",
    "pipeline",
    "weight_quantization",
    "expert_parallel",
    "datastates_ckpt",
    "bfloat16",
)


class Recorder(dict[str, Any]):
    """A block of a configuration that notes every key DeepSpeed asks it for."""

    def __init__(self, name: str, asked: dict[str, set[str]], **entries: Any) -> None:
        super().__init__(entries)
        self.asked = asked.setdefault(name, set())

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def keys(self) -> Any:
        outer = self

        class Keys:
            def __contains__(self, key: object) -> bool:
                return key in outer

            def __iter__(self) -> typing.Iterator[str]:
                return dict.__iter__(outer)

        return Keys()

    def __copy__(self) -> Recorder:
        return self


def asked_for() -> dict[str, set[str]]:
    """The keys that DeepSpeed reads, by block."""
    from deepspeed.runtime import config

    asked: dict[str, set[str]] = {}
    blocks = {name: Recorder(name, asked) for name in OPEN}
    top = Recorder("", asked, train_batch_size=1, sequence_parallel_size=1, **blocks)
    config.DeepSpeedConfig(top)
    asked["optimizer"] |= {"params"}  # read only where there is a type
    asked["scheduler"] |= {"params"}
    return asked


def of_model(model: Any, name: str, blocks: dict[str, Any]) -> None:
    """The fields of a pydantic model, which refuses any other, and those of the models inside it."""
    keys: dict[str, Any] = {}
    blocks[name] = {"closed": True, "keys": keys}
    for field_name, field in model.model_fields.items():
        entry = of_type(field.annotation)
        for bound in field.metadata:
            for attribute, word in (("ge", "min"), ("gt", "above"), ("le", "max")):
                if getattr(bound, attribute, None) is not None:
                    entry[word] = getattr(bound, attribute)
        extra = field.json_schema_extra or {}
        if extra.get("deprecated"):
            new = extra["new_param"]
            entry["instead"] = next((f.alias for n, f in model.model_fields.items() if n == new), None) or new
            entry["moved"] = extra.get("set_new_param", True)
        for spelling in filter(None, (field.alias, field_name)):
            keys[spelling] = dict(entry) | (
                {"alias": field.alias} if field.alias not in (None, spelling) else {}
            )
        inner = model_in(field.annotation)
        if inner is not None:
            of_model(inner, f"{name}.{field.alias or field_name}", blocks)


def parts(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return list(typing.get_args(annotation))
    return [annotation]


def model_in(annotation: Any) -> Any:
    from pydantic import BaseModel

    found = [part for part in parts(annotation) if inspect.isclass(part) and issubclass(part, BaseModel)]
    return found[0] if found else None


def of_type(annotation: Any) -> dict[str, Any]:
    plain = {
        bool: SWITCH,
        int: WHOLE,
        float: NUMBER,
        str: TEXT,
        Path: TEXT,
        type(None): "null",
        dict: BLOCK,
        list: LIST,
    }
    if model_in(annotation) is not None:
        plain[model_in(annotation)] = BLOCK
    found: dict[str, Any] = {"type": []}
    for part in parts(annotation):
        if inspect.isclass(part) and issubclass(part, enum.Enum):
            values = sorted({member.value for member in part})
            found["type"].append(WHOLE if isinstance(values[0], int) else TEXT)
            found["of"] = values
        elif typing.get_origin(part) is typing.Literal:
            found["type"].append(TEXT)
            found["of"] = list(typing.get_args(part))
        else:
            base = typing.get_origin(part) or part
            found["type"].append(plain.get(base, "any"))
    return found


def table() -> dict[str, Any]:
    """What ``keys.json`` is to hold."""
    import deepspeed
    import torch
    from deepspeed.comm.config import CommsLoggerConfig
    from deepspeed.compile.config import CompileConfig
    from deepspeed.monitor.config import CometConfig, CSVConfig, TensorBoardConfig, WandbConfig
    from deepspeed.runtime import config, lr_schedules, precision_config
    from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    from deepspeed.utils.config import DeepSpeedThroughputTimerConfig

    asked, blocks = asked_for(), dict[str, Any]()
    closed = {
        "zero_optimization": DeepSpeedZeroConfig,
        "fp16": precision_config.DeepSpeedFP16Config,
        "bf16": precision_config.DeepSpeedBF16Config,
        "comms_logger": CommsLoggerConfig,
        "tensorboard": TensorBoardConfig,
        "wandb": WandbConfig,
        "csv_monitor": CSVConfig,
        "comet": CometConfig,
        "compile": CompileConfig,
        "hybrid_engine": config.HybridEngineConfig,
        "tensor_parallel": TPTrainingConfig,
        "timers.throughput": DeepSpeedThroughputTimerConfig,
    }
    for name, model in closed.items():
        of_model(model, name, blocks)
    for name, typed in OPEN.items():
        keys = {
            key: {"type": [SWITCH] if key in SWITCHES else ["any"]} for key in sorted(asked[name])
        } | typed
        blocks[name] = {"closed": False, "keys": keys}
    blocks["timers"] = {"closed": False, "keys": {"throughput": {"type": [BLOCK]}}}
    removed = set(config._REMOVED_TOP_LEVEL_CONFIG_KEYS)
    top = {key: {"type": ["any"]} for key in sorted((asked[""] | set(FREE)) - removed)}
    top |= {name: {"type": [BLOCK]} for name in (*OPEN, *closed) if "." not in name}
    top |= {name: {"type": [SWITCH]} for name in FLAGS} | TOP
    blocks[""] = {"closed": False, "keys": top}
    return {
        "deepspeed": deepspeed.__version__,
        "torch": torch.__version__.partition("+")[0],
        "read": READ,
        "source": "the pydantic models of deepspeed, and the keys that its code asks a configuration for",
        "blocks": {name: blocks[name] for name in sorted(blocks)},
        "removed": sorted(removed),
        "removed_zero": sorted(config._REMOVED_ZERO_CONFIG_KEYS),
        "optimizers": sorted(config.DEEPSPEED_OPTIMIZERS),
        "torch_optimizers": subclasses(torch.optim, torch.optim.Optimizer),
        "schedulers": {
            name: parameters(getattr(lr_schedules, name)) for name in lr_schedules.VALID_LR_SCHEDULES
        },
        "torch_schedulers": subclasses(torch.optim.lr_scheduler, torch.optim.lr_scheduler.LRScheduler),
    }


def to_text(table: dict[str, Any]) -> str:
    """JSON with one line for each key of a block."""
    text = json.dumps(table, indent=1)
    for innermost in (r"\[[^\[\]{}]*\]", r"\{[^{}]*\}"):
        text = re.sub(innermost, lambda found: re.sub(r"\s*\n\s*", " ", found[0]), text)
    return text + "\n"


def subclasses(module: Any, base: type) -> list[str]:
    return sorted(
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, base) and value is not base and name[0].isupper()
    )


def parameters(schedule: Any) -> dict[str, bool]:
    """The arguments of a schedule, and whether each must be given."""
    found = list(inspect.signature(schedule.__init__).parameters.values())[2:]  # not self, not the optimizer
    return {each.name: each.default is each.empty for each in found}


def test_the_table_is_that_of_the_installed_deepspeed(
    update_golden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    deepspeed = pytest.importorskip("deepspeed")
    made = to_text(table())
    if update_golden:
        TABLE.write_text(made, encoding="utf-8")
    committed = json.loads(TABLE.read_text(encoding="utf-8"))
    if committed["deepspeed"] != deepspeed.__version__:
        pytest.skip(
            f"the table is of DeepSpeed {committed['deepspeed']}, installed is {deepspeed.__version__}"
        )
    assert json.loads(made)["blocks"] == committed["blocks"]
    assert {**json.loads(made), "torch": ""} == {**committed, "torch": ""}
