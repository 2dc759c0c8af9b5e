"""``deepspeed/<step>.json``: what DeepSpeed will be started with, to be read before it costs anything.

The training component makes the same from the same inputs when it starts; nothing reads this copy.
"""

from __future__ import annotations

from typing import Any

from worldsize.azureml.model import Literal, Step
from worldsize.planning.model import StepPlan
from wstrain import deepspeed_config

STAGE, OWN = "zero_stage", "ds_config"  # inputs by which a DeepSpeed component is known, and given a file
_INPUTS = (
    STAGE,
    "precision",
    "loss_scale",
    "max_gradient_norm",
    "optimizer",
    "offload_optimizer",
    "offload_parameters",
    "offload_path",
)


def config(step: Step, plan: StepPlan) -> str | None:
    """The text of the configuration, or None where the step has none, or one of its own.

    A combination that DeepSpeed would refuse has none either: the rules have reported it.
    """
    if step.component is None or STAGE not in step.component.inputs or OWN in step.inputs:
        return None
    training = plan.training
    if training is None:
        return None
    values = {name: _value(step, name) for name in _INPUTS}
    try:
        planned = deepspeed_config.Plan(
            micro_batch=training.batch_size_per_device,
            accumulation=training.gradient_accumulation_steps,
            world_size=plan.topology.world_size,
            **{name: value for name, value in values.items() if value is not None},
        )
        return deepspeed_config.to_json(deepspeed_config.build(planned))
    except (TypeError, ValueError):
        return None


def _value(step: Step, name: str) -> Any:
    """What the step gives to an input, or the component's default."""
    assert step.component is not None
    given = step.inputs.get(name)
    if given is not None:
        return given.value.value if isinstance(given.value, Literal) else None
    port = step.component.inputs.get(name)
    return port.default.value if port is not None and port.default is not None else None
