"""What the files say around a DeepSpeed configuration: processes, plan, and the program that reads it."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from worldsize.azureml.launch import Launch, find_inner_launchers, read_input
from worldsize.azureml.model import Job
from worldsize.rules.batch._replicas import count_replicas
from worldsize.rules.context import Context
from worldsize.scripts.module import Module
from worldsize.scripts.program import Program, find_programs
from wstrain_deepspeed.config import Known

_OURS = "train_deepspeed"
# Their integrations put a value for every "auto", or say themselves what they cannot fill in.
_FILLS = frozenset(
    {"transformers", "accelerate", "trl", "peft", "diffusers", "lightning", "pytorch_lightning", "axolotl"}
)
_PLAIN = re.compile(  # packages that hand no configuration to DeepSpeed
    "deepspeed|torch|torchvision|torchaudio|torchtext|tensorboard|numpy|pandas|scipy|sklearn|matplotlib|PIL|cv2"
    "|tqdm|yaml|mlflow|azureml|azure|pyarrow|requests|datasets|tokenizers|sentencepiece|psutil|einops|tiktoken"
)


def collect_known(context: Context, job: Job, launch: Launch) -> Known:
    """All that the rules of a configuration may use."""
    if _is_ours(context, launch):
        return Known(
            world=count_replicas(launch),
            micro_batch=_count(launch, "batch_size_per_device"),
            accumulation=_count(launch, "gradient_accumulation_steps"),
            precision=_text(launch, "precision"),
            max_gradient_norm=_real(launch, "max_gradient_norm") or None,
            maker=_text(launch, "optimizer") or "",
            schedules=True,
            refuses=True,
            pinned=True,
            fills_auto=False,
        )
    program = _find_only_program(context, job, launch)
    around = Known(
        world=count_replicas(launch),
        micro_batch=_count(launch, "batch_size_per_device"),
        accumulation=_count(launch, "gradient_accumulation_steps"),
        fills_auto=_fills_auto(launch, program),
    )
    return around if program is None else _add_program(around, program)


def _is_ours(context: Context, launch: Launch) -> bool:
    component = launch.step.component
    name = component.name.value if component is not None and component.name is not None else None
    return name == _OURS and context.is_built_in(component)


def _find_only_program(context: Context, job: Job, launch: Launch) -> Program | None:
    """The one script that the step starts, where it can be read."""
    component = launch.step.component
    mine = [each for each in find_programs(context, job) if each.launch.step.component is component]
    return mine[0] if len(mine) == 1 else None


def _fills_auto(launch: Launch, program: Program | None) -> bool | None:
    """True where a library with an integration is used, False where DeepSpeed is used as it is."""
    if any(each.name == "accelerate launch" for each in find_inner_launchers(launch)):
        return True
    if program is None:
        return None
    beside = {part for module in program.modules for part in Path(module.source.path).with_suffix("").parts}
    used = {
        name.partition(".")[0]
        for module in program.modules
        for name, level, _ in module.imports
        if level == 0
    }
    if used & _FILLS:
        return True
    other = {name for name in used - beside - sys.stdlib_module_names if not _PLAIN.fullmatch(name)}
    return False if "deepspeed" in used and not other else None


def _add_program(around: Known, program: Program) -> Known:
    """Add which of optimizer and schedule the script makes itself."""
    if program.imports("accelerate") and not program.says("Trainer", "DummyOptim"):
        builds_optimizer = any(
            name.startswith("torch.optim.") for module in program.modules for name, _ in module.calls
        )
        return around._replace(maker="", refuses=True) if builds_optimizer else around
    for module in program.modules:
        for call in module.called("initialize"):
            if module.name_of(call.func).partition(".")[0] != "deepspeed":
                continue
            arguments = {keyword.arg: keyword.value for keyword in call.keywords}
            return around._replace(
                maker=_maker(module, arguments.get("optimizer")),
                schedules=isinstance(arguments.get("lr_scheduler"), ast.Call),
            )
    return around


def _maker(module: Module, value: ast.expr | None) -> str | None:
    """The optimizer handed over: its name, "" where torch does not have it, None where there may be none."""
    if isinstance(value, ast.Name):
        assigned = [
            node.value
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == value.id for target in node.targets)
        ]
        value = assigned[0] if len(assigned) == 1 else None
    if not isinstance(value, ast.Call):
        return None
    name = module.name_of(value.func)
    return name.rpartition(".")[2] if name.startswith("torch.optim.") else ""


def _count(launch: Launch, name: str) -> int | None:
    value = read_input(launch, name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _real(launch: Launch, name: str) -> float | None:
    value = read_input(launch, name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(launch: Launch, name: str) -> str | None:
    value = read_input(launch, name)
    return value if isinstance(value, str) else None
