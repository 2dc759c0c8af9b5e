"""``deepspeed/<step>.json``: what DeepSpeed will be started with, to be read before it costs anything.

The training component makes the same from the same inputs when it starts; nothing reads this copy.
"""

from __future__ import annotations

from worldsize.azureml.model import Step
from worldsize.planning.memory.workload import literal_inputs
from worldsize.planning.model import StepPlan
from wstrain_deepspeed import config as deepspeed_config

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
    given = literal_inputs(step, _INPUTS)
    try:
        planned = deepspeed_config.Plan(
            micro_batch=training.batch_size_per_device,
            accumulation=training.gradient_accumulation_steps,
            world_size=plan.topology.world_size,
            **{name: value for name, value in given.items() if value is not None},
        )
        return deepspeed_config.to_json(deepspeed_config.build_config(planned))
    except (TypeError, ValueError):
        return None
