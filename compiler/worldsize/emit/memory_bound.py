"""Which training steps are large enough for their memory to be worth working out.

A check of small examples need not load the formulas: the bound is coarse, and never too small.
"""

from __future__ import annotations

from worldsize.azureml import literals
from worldsize.azureml.model import Job, Step
from worldsize.emit.samples import of, values
from worldsize.planning.model import StepPlan

PREDICTION = "predicted_memory_bytes"  # the input by which a training step hears what was foreseen
HARMLESS = 2**30  # bytes that every size of the catalogue has for a process
_TRAINERS = ("train_ddp", "train_horovod", "train_deepspeed")  # known inside; Keras has not been measured
_SIZES = ("gpt_layers", "gpt_heads", "gpt_width")


def is_trainer(step: Step) -> bool:
    """Whether a step's component is one whose models are known inside."""
    name = step.component.name if step.component is not None else None
    return name is not None and name.value in _TRAINERS


def may_matter(job: Job, step: Step, plan: StepPlan) -> bool:
    """Whether a training step may need more than :data:`HARMLESS` bytes a process, and that can be known."""
    training = plan.training
    if training is None or not is_trainer(step):
        return False
    given = values(step, ("model", *_SIZES))
    samples = training.batch_size_per_device
    if plan.topology.pipeline_parallel_size > 1:
        samples *= training.gradient_accumulation_steps
    if given["model"] in ("mlp", "cnn"):
        return samples * 2**18 > HARMLESS  # the built-in pictures leave 0.1 MB each
    read = of(job, step, text=True) if given["model"] == "gpt" else None
    if read is None:
        return False
    sizes = [literals.number(given[name]) for name in _SIZES]
    layers, heads, width = (size or 1 for size in sizes)
    weights = layers * (13 * width * width + 20 * width) + 600 * width
    kept = read.shape[0] * (layers * (32 * width + heads + 8) + 6 * 256)
    return 40 * weights + 4 * samples * kept > HARMLESS
