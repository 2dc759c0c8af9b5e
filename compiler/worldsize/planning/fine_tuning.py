"""Reports inputs of fine-tuning that contradict each other and would stop the training at its start."""

from __future__ import annotations

from worldsize.azureml import literals
from worldsize.base.wording import show_number
from worldsize.planning import options
from worldsize.planning.model import Interface, Notes, Topology
from worldsize.spec.model import Step

HUGGING_FACE = "hf:"  # what the `model` of a Hugging Face folder begins with
_DIVIDING = ("tensor_parallel", "pipeline_parallel")
_SLUG = "strategy-option-refused"
_LORA = ("lora_targets", "lora_alpha", "lora_dropout")


def check_fine_tuning(step: Step, interface: Interface, topology: Topology, notes: Notes) -> None:
    """Report the inputs of fine-tuning that the trainer refuses."""
    model = options.read_option(step, interface, "model")
    known = isinstance(model, str) and "${{" not in model
    if known and model.startswith(HUGGING_FACE):
        _hugging_face(step, interface, topology, model, notes)
    for name in ("freeze", "lora_targets"):
        _check_patterns(step, name, notes)
    if "lora_rank" not in interface.inputs:
        return
    rank = literals.parse_number(options.read_option(step, interface, "lora_rank"))
    if rank and known and not model.startswith(HUGGING_FACE):
        message = (
            f"`lora_rank` is {show_number(rank)}, but LoRA adapts a Hugging Face model,"
            f" and `model` is `{model}`"
        )
        help_ = "write `model: hf:path/of/the/folder`, or remove `lora_rank`"
        notes.report(_SLUG, options.option_span(step, "lora_rank"), message, help_)
    for name in _LORA:
        if name in step.with_ and rank == 0:
            message = f"`{name}` has no effect, because `lora_rank` is 0"
            help_ = f"write `lora_rank: 8`, or remove `{name}`"
            notes.report("option-without-effect", step.with_[name].span, message, help_)
            return


def _hugging_face(step: Step, interface: Interface, topology: Topology, model: str, notes: Notes) -> None:
    span = options.option_span(step, "model")
    if "lora_rank" not in interface.inputs:
        message = f"`{model}` is a Hugging Face model, which only the PyTorch components train"
        notes.report(_SLUG, span, message, "write `uses: train_ddp`")
        return
    strategy = topology.strategy or options.read_option(step, interface, "strategy")
    if strategy in _DIVIDING and topology.world_size > 1:
        message = f"`strategy: {strategy}` cannot divide the Hugging Face model `{model}`"
        help_ = "write `strategy: fsdp`, which shards any model, or `strategy: ddp`"
        notes.report(_SLUG, options.option_span(step, "strategy"), message, help_)
    if model == HUGGING_FACE and "initial_model" not in step.with_:
        message = "`model` is `hf:`, the Hugging Face model of `initial_model`, which is not given"
        help_ = "bind `initial_model`, or name a folder: `hf:path/of/the/folder`"
        notes.report(_SLUG, span, message, help_)


def _check_patterns(step: Step, name: str, notes: Notes) -> None:
    setting = step.with_.get(name)
    if setting is None or not isinstance(setting.value, str) or "${{" in setting.value:
        return
    patterns = [part.strip() for part in setting.value.split(",")]
    spaced = next((pattern for pattern in patterns if len(pattern.split()) > 1), None)
    if spaced is not None:
        message = f"`{spaced}` in `{name}` has a blank in it"
        notes.report(_SLUG, setting.span, message, "separate patterns by commas")
    elif any(patterns) and not all(patterns):
        message = f"`{name}` is `{setting.value}`, with nothing between two commas"
        notes.report(_SLUG, setting.span, message, "remove one of the commas")
