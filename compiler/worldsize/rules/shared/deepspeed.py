"""The DeepSpeed configurations that a job names, read with their places."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from worldsize.azureml import binding
from worldsize.azureml.graph import follow_binding
from worldsize.azureml.launch import Launch, find_inner_launchers, read_input, read_launches
from worldsize.azureml.model import Data, Job, Literal
from worldsize.azureml.references import local_path
from worldsize.azureml.tree import Tree
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.documents.yaml import json_text
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar
from worldsize.rules.shared.replicas import count_replicas
from worldsize.scripts.module import Module, keyword_argument
from worldsize.scripts.program import Program, find_programs, list_started
from worldsize.scripts.settings import read_value
from worldsize.scripts.values import open_variable
from wstrain_deepspeed.config import Known

FLAGS = ("deepspeed_config", "deepspeed", "ds_config", "deepspeed_config_file")
INPUT = "ds_config"
_OPTIONS = ("config", "config_params")
T = TypeVar("T")
_STARTS_PYTHON = re.compile(r"python|torchrun|deepspeed|accelerate")


class ConfigUse(NamedTuple):
    """One configuration as one step uses it. ``root`` is None where the text is not JSON."""

    launch: Launch
    source: Source
    root: Mapping | None
    faults: tuple[json_text.Fault, ...]
    known: Known


def find_config_uses(context: Tree, job: Job) -> list[ConfigUse]:
    """The configurations of all steps of a job."""
    return context.once(_uses, job)


def find_configs(context: Tree, launch: Launch) -> Iterator[Mapping]:
    """The configurations of one step, as nodes; not where our own component verifies them."""
    for use in find_config_uses(context, launch.job):
        if use.launch.step is launch.step and use.root is not None and not use.known.pinned:
            yield use.root


def read_number(node: Node | None) -> float | None:
    """A number of the configuration."""
    value = node.value if isinstance(node, Scalar) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def find_missing_configs(context: Tree, job: Job) -> Iterator[tuple[Launch, Span, str]]:
    """The names of configurations in commands that have no file in the code folder."""
    for launch in read_launches(context, job):
        for word in (flag.value for flag in launch.flags(*FLAGS) if flag.value is not None):
            span, path = launch.span(word), _beside(launch, word.bare)
            if span is not None and path is not None and not context.exists(path):
                yield launch, span, word.bare


def _uses(context: Tree, job: Job) -> list[ConfigUse]:
    uses = []
    for launch in read_launches(context, job):
        for path in dict.fromkeys((*_paths(launch), *_named_in_script(context, launch))):
            source = None if context.is_folder(path) else context.text(path)
            if source is None:
                continue
            known = collect_known(context, job, launch)
            if source.text.strip() or known.pinned:  # an empty one of the code folder is filled in later
                root, wrong = context.once(_read_config, source)
                mapping = root if isinstance(root, Mapping) else None
                uses.append(ConfigUse(launch, source, mapping, wrong, known))
    return uses


def _read_config(_context: Tree, source: Source) -> tuple[Node | None, tuple[json_text.Fault, ...]]:
    root, wrong = json_text.read_json(source)
    if root is not None and not isinstance(root, Mapping):
        message = "the configuration is not an object `{…}`"
        wrong = [json_text.Fault("syntax", root.start, root.end, message, 'write `{"key": …}`')]
    return root, tuple(wrong)


def _paths(launch: Launch) -> Iterator[Path]:
    """The paths of the files in a step's flags and in its input of this name."""
    for text in (flag.value.bare for flag in launch.flags(*FLAGS) if flag.value is not None):
        expression = binding.parse_expression(text)
        if expression is None:
            path = _beside(launch, text)
        else:
            path = find_input_file(launch, expression.port if expression.scope == "inputs" else None)
        if path is not None:
            yield path
    if (path := find_input_file(launch, INPUT)) is not None:
        yield path


def _named_in_script(context: Tree, launch: Launch) -> Iterator[Path]:
    """The files that a script names itself, as in ``deepspeed.initialize(config="ds_config.json")``."""
    if not any(_STARTS_PYTHON.search(command.words[0].text) for command in launch.commands if command.words):
        return
    for program in list_started(context, launch):
        if not program.says("deepspeed"):
            continue
        for module in program.modules:
            for option, call in [
                *((name, call) for call in module.called("deepspeed.initialize") for name in _OPTIONS),
                *(("deepspeed", call) for name, call in module.calls if name.endswith("TrainingArguments")),
                *(("hf_ds_config", call) for call in module.called("DeepSpeedPlugin")),
            ]:
                value = read_value(program, module, keyword_argument(call, option))
                path = _beside(launch, value) if isinstance(value, str) else None
                if path is not None:
                    yield path


def _beside(launch: Launch, name: str) -> Path | None:
    """A file of the code folder."""
    folder = launch.code_folder
    if folder is None or not name.endswith(".json") or "$" in name or name.startswith("/"):
        return None
    return folder / name


def find_input_file(launch: Launch, port: str | None) -> Path | None:
    """A local file that an input of the step is, directly or through an input of the pipeline."""
    field = follow_binding(launch.job, launch.step.inputs.get(port or ""))
    value = field.value if field is not None else None
    text = value.path.value if isinstance(value, Data) and value.path is not None else None
    if isinstance(value, Literal):
        text = value.value
    if field is None or field.span is None or not isinstance(text, str):
        return None
    if port != INPUT and not text.endswith(".json"):
        return None
    return local_path(text, Path(field.span.path).parent)


_OURS = "train_deepspeed"
# Their integrations put a value for every "auto", or say themselves what they cannot fill in.
_FILLS = frozenset(
    {"transformers", "accelerate", "trl", "peft", "diffusers", "lightning", "pytorch_lightning", "axolotl"}
)
_PLAIN = re.compile(  # packages that hand no configuration to DeepSpeed
    "deepspeed|torch|torchvision|torchaudio|torchtext|tensorboard|numpy|pandas|scipy|sklearn|matplotlib|PIL|cv2"
    "|tqdm|yaml|mlflow|azureml|azure|pyarrow|requests|datasets|tokenizers|sentencepiece|psutil|einops|tiktoken"
)


def collect_known(context: Tree, job: Job, launch: Launch) -> Known:
    """Everything that the rules of a configuration may use."""
    known = Known(
        world=count_replicas(launch),
        micro_batch=_read(launch, "batch_size_per_device", int),
        accumulation=_read(launch, "gradient_accumulation_steps", int),
    )
    if _is_ours(context, launch):
        norm = _read(launch, "max_gradient_norm", float) or _read(launch, "max_gradient_norm", int)
        return known._replace(
            precision=_read(launch, "precision", str),
            max_gradient_norm=float(norm) if norm else None,
            maker=_read(launch, "optimizer", str) or "",
            schedules=True,
            refuses=True,
            pinned=True,
            fills_auto=False,
        )
    program = _find_only_program(context, job, launch)
    known = known._replace(fills_auto=_fills_auto(launch, program))
    return known if program is None else _add_program(known, program)


def _is_ours(context: Tree, launch: Launch) -> bool:
    component = launch.step.component
    name = component.name if component is not None else None
    return name is not None and name.value == _OURS and context.is_built_in(component)


def _find_only_program(context: Tree, job: Job, launch: Launch) -> Program | None:
    """The only script that the step starts, if it can be read."""
    component = launch.step.component
    mine = [program for program in find_programs(context, job) if program.launch.step.component is component]
    return mine[0] if len(mine) == 1 else None


def _fills_auto(launch: Launch, program: Program | None) -> bool | None:
    """True if a library with an integration is used, False if DeepSpeed is used directly."""
    if any(launcher.name == "accelerate launch" for launcher in find_inner_launchers(launch)):
        return True
    if program is None:
        return None
    used = program.packages
    if used & _FILLS:
        return True
    others = used - program.names_beside - sys.stdlib_module_names
    other = {name for name in others if not _PLAIN.fullmatch(name)}
    return False if "deepspeed" in used and not other else None


def _add_program(around: Known, program: Program) -> Known:
    """Add whether the script makes its optimizer and schedule itself."""
    if program.imports("accelerate") and not program.says("Trainer", "DummyOptim"):
        builds_optimizer = any(
            name.startswith("torch.optim.") for module in program.modules for name, _ in module.calls
        )
        return around._replace(maker="", refuses=True) if builds_optimizer else around
    for module, call in program.called("initialize"):
        if module.name_of(call.func).partition(".")[0] == "deepspeed":
            maker = _maker(module, keyword_argument(call, "optimizer"))
            schedules = isinstance(keyword_argument(call, "lr_scheduler"), ast.Call)
            return around._replace(maker=maker, schedules=schedules)
    return around


def _maker(module: Module, value: ast.expr | None) -> str | None:
    """The name of the optimizer that is passed; "" if torch lacks it, None if there may be none."""
    made = open_variable(module, value)
    if not isinstance(made, ast.Call):
        return None
    name = module.name_of(made.func)
    return name.rpartition(".")[2] if name.startswith("torch.optim.") else ""


def _read(launch: Launch, name: str, kind: type[T]) -> T | None:
    """The value of an input, if it is of a type."""
    value = read_input(launch, name)
    return value if type(value) is kind else None
