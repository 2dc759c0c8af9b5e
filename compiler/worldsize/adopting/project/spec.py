"""The spec of an adopted script, as plain values for :func:`worldsize.azureml.yaml_dump.dump`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from worldsize.adopting.model import Adoption, Flag, Role, ScriptProfile
from worldsize.adopting.options.arguments import find_given, write_arguments
from worldsize.adopting.project.environment import Environment
from worldsize.adopting.proving.prove import Measured
from worldsize.azureml.model import Field
from worldsize.azureml.yaml_dump import Flow
from worldsize.base.wording import drop_fraction
from worldsize.facts import optimizers, vm_sizes

CONDA_FILE = "conda.yml"
CLUSTER = "gpu-cluster"
TIMEOUT_SECONDS = 86_400  # of the job: what hangs does not cost more than a day
# Of the sizes that Azure still gives to new clusters, the cheapest with several GPUs,
INSTANCE_TYPE = "Standard_NC64as_T4_v3"
CONNECTED_INSTANCE_TYPE = "Standard_ND96asr_v4"  # and the cheapest whose instances InfiniBand connects.
MOST_INSTANCES = 4  # of a new cluster, so that it can grow; idle instances are released, and cost nothing
MOST_GROWTH = 8  # of the batch: with Adam the √ rule holds below 10 (Malladi et al. 2022)
STEP = "train"
_ACCUMULATION = "${{plan.gradient_accumulation_steps}}"
_WARM_UP_STEPS = re.compile(r"--[\w-]*warm[-_]?up[-_](?:steps|iter(?:ation)?s)")


class Target(Struct, frozen=True):
    """Where the job is to run."""

    instance_type: str = INSTANCE_TYPE
    instance_count: int = 1


class UnknownSizeError(ValueError):
    """A name is not that of a VM size."""


def find_size(name: str) -> str:
    """The VM size as the catalogue writes it.

    Raises:
        UnknownSizeError: There is no such size.
    """
    size = vm_sizes.lookup(name)
    if size is None:
        raise UnknownSizeError(": ".join(vm_sizes.explain_unknown_size(name)))
    return size.name


def choose_size(instance_count: int) -> str:
    """The VM size for a number of instances."""
    return INSTANCE_TYPE if instance_count == 1 else CONNECTED_INSTANCE_TYPE


def most_instances(instance_count: int) -> int:
    """``max_instances`` of a new cluster."""
    return max(instance_count, MOST_INSTANCES)


def count_processes(target: Target) -> int:
    """The processes of a job with one for each GPU, or for each instance without any."""
    size = vm_sizes.lookup(target.instance_type)
    return max(1, size.devices if size is not None else 1) * target.instance_count


def limit_batch(batch: int, target: Target) -> int | None:
    """The global batch up to which the √ rule holds, where each GPU of the job would train on ``batch``.

    None where the rule holds for that, or no whole number of samples for each GPU is below.
    """
    world_size = count_processes(target)
    whole = batch * MOST_GROWTH // world_size * world_size
    return whole if world_size > MOST_GROWTH and whole else None


class SpecInput(Struct, frozen=True):
    """An option that names something to read beside the data; without a name it is in the data's folder."""

    flag: Flag
    value: str  # in the command
    name: str = ""
    path: str = ""  # from the spec
    is_file: bool = True


class ProjectRequest(Struct, frozen=True):
    """What a project is made from."""

    adoption: Adoption
    script: Path
    target: Target = Target()
    data: Path | None = None
    arguments: tuple[str, ...] = ()  # of the user, for options that the plan does not set
    measured: Measured = Measured()
    name: str | None = None  # of the spec; else that of the script


class SpecRequest(Struct, frozen=True):
    """What the spec of a project is written from; paths are relative to the spec."""

    project: ProjectRequest
    name: str
    script: str  # its path in the folder of its code
    code: str
    environment: Environment
    data: str | None = None  # of the option that reads it
    inputs: tuple[SpecInput, ...] = ()


def describe_spec(request: SpecRequest) -> dict[str, Any]:
    """The spec of one training step."""
    profile, target, data = request.project.adoption.profile, request.project.target, request.project.data
    step: dict[str, Any] = {"compute": "gpu", "instance_count": target.instance_count}
    step["timeout"] = Field(TIMEOUT_SECONDS, comment="seconds")
    kind = "tensorflow" if profile.framework == "keras" else "pytorch"
    step["distribution"] = Flow(type=kind)
    step["command"] = " ".join(_command(request))
    step["code"] = request.code
    step["environment"] = {"image": request.environment.image, "conda_file": f"./{CONDA_FILE}"}
    read = {mounted.name: (mounted.path, mounted.is_file) for mounted in request.inputs if mounted.name}
    if request.data is not None:
        read = {"data": (request.data, data is not None and data.is_file()), **read}
    if read:
        step["with"] = {
            name: Flow(type="uri_file" if is_file else "uri_folder", path=path)
            for name, (path, is_file) in read.items()
        }
    written = {"model": profile.flag("output"), "checkpoints": profile.flag("checkpoints")}
    outputs = {name: "uri_folder" for name, flag in written.items() if flag is not None}
    if profile.own_checkpoints:
        outputs["checkpoints"] = "uri_folder"
    if outputs:
        step["outputs"] = Flow(outputs)
    if (scale := _describe_scale(request.project)) is not None:
        step["scale"] = scale
    return {
        "name": request.name,
        "experiment_name": request.name.replace("_", "-"),
        "compute": {
            "gpu": {
                "target": f"azureml:{CLUSTER}",
                "instance_type": target.instance_type,
                "max_instances": most_instances(target.instance_count),
            }
        },
        "steps": {STEP: step},
    }


def find_reference(profile: ScriptProfile, arguments: Sequence[str]) -> tuple[int, float] | None:
    """The batch size and learning rate with which the script trains on one GPU; None if one is unknown."""
    batch = _value(profile, "batch_size", profile.batch_size, arguments)
    rate = _value(profile, "learning_rate", profile.learning_rate, arguments)
    return None if batch is None or rate is None or rate <= 0 else (int(batch), rate)


def _value(
    profile: ScriptProfile, role: Role, number: float | None, arguments: Sequence[str]
) -> float | None:
    flag = profile.flag(role)
    argument = find_given(flag, profile.flags, arguments, profile.subcommand)
    default = flag.default if flag is not None and isinstance(flag.default, int | float) else None
    try:
        return float(argument) if argument is not None else default if default is not None else number
    except ValueError:
        return number


def _command(request: SpecRequest) -> Iterator[str]:
    """The words of the command: the script, what the plan and the job set, and the user's other options."""
    profile, arguments = request.project.adoption.profile, request.project.arguments
    is_planned = find_reference(profile, arguments) is not None
    values: dict[str, tuple[Flag | None, str]] = {
        "data": (profile.flag("data") if request.data is not None else None, "${{inputs.data}}"),
        "output": (flag := profile.flag("output"), _output_path(flag, "model")),
        "checkpoints": (flag := profile.flag("checkpoints"), _output_path(flag, "checkpoints")),
        "batch_size": (profile.flag("batch_size") if is_planned else None, "${{plan.batch_size_per_device}}"),
        "learning_rate": (profile.flag("learning_rate") if is_planned else None, "${{plan.learning_rate}}"),
        "accumulation": (profile.flag("accumulation") if is_planned else None, _ACCUMULATION),
        "epochs": (profile.flag("epochs") if _epochs(profile, arguments) else None, "${{plan.epochs}}"),
    }
    ours = [(flag, value) for flag, value in values.values() if flag is not None]
    if (warm_up := _find_warm_up(request.project)) is not None:
        ours.append((warm_up[0], "${{plan.warmup_steps}}"))
    ours += [(mounted.flag, mounted.value) for mounted in request.inputs]
    yield from ("python", "-m", profile.module) if profile.module else ("python", shlex.quote(request.script))
    yield from write_arguments(profile, arguments, ours)


def _find_warm_up(request: ProjectRequest) -> tuple[Flag, float] | None:
    """The option that counts the steps of the script's warm-up, and the epochs that they are on one GPU."""
    profile, rows = request.adoption.profile, request.measured.rows
    reference = find_reference(profile, request.arguments)
    if reference is None or not rows:
        return None
    for flag in profile.flags:
        argument = find_given(flag, profile.flags, request.arguments, profile.subcommand)
        steps = flag.default if argument is None else argument
        if _WARM_UP_STEPS.fullmatch(flag.option) and flag.type == "int" and str(steps).isdigit():
            accumulated = int(_value(profile, "accumulation", 1, request.arguments) or 1)
            return flag, round(int(str(steps)) * reference[0] * accumulated / rows, 3)
    return None


def _output_path(flag: Flag | None, output: str) -> str:
    """The output folder; a file in it where the script's own default is a file."""
    name = PurePosixPath(str(flag.default)).name if flag is not None and flag.default else ""
    return f"${{{{outputs.{output}}}}}" + f"/{name}" * ("." in name.strip("."))


def _epochs(profile: ScriptProfile, arguments: Sequence[str]) -> float | None:
    """The epochs, where the plan knows them."""
    if find_reference(profile, arguments) is None:
        return None
    epochs = _value(profile, "epochs", profile.epochs, arguments)
    return epochs if epochs and epochs > 0 else None


_WARM_UPS = {
    True: "of the plan; the script has its own",
    False: "the script has none",
    None: "of the plan; the script has a schedule of its own",
}


def _describe_scale(request: ProjectRequest) -> dict[str, Any] | None:
    profile, arguments = request.adoption.profile, request.arguments
    reference = find_reference(profile, arguments)
    if reference is None:
        return None
    batch, rate = reference
    steps = int(_value(profile, "accumulation", 1, arguments) or 1)
    scale: dict[str, Any] = {
        "reference": Field(
            Flow(batch_size=batch * steps, learning_rate=rate), comment="what worked on one GPU"
        )
    }
    optimizer = optimizers.lookup(profile.optimizer or "")
    limit = limit_batch(batch * steps, request.target) if optimizer and optimizer.rule == "sqrt" else None
    if limit is not None:
        scale["global_batch_size"] = Field(limit, comment="on more GPUs the √ rule would not hold")
    elif steps > 1:
        scale |= {"batch_size_per_device": batch, "gradient_accumulation_steps": steps}
    if profile.optimizer is not None:
        scale["optimizer"] = profile.optimizer
    if epochs := _epochs(profile, arguments):
        scale["epochs"] = drop_fraction(epochs)
    flag, warm_up = _find_warm_up(request) or (None, 0)
    if flag is not None or optimizer is None or optimizer.rule == "linear" or profile.warms_up:
        comment = f"`{flag.option}` on one GPU" if flag is not None else _WARM_UPS[profile.warms_up]
        scale["warmup_epochs"] = Field(warm_up, comment=comment)
    measured = request.measured
    if measured.rows:
        scale["rows"] = measured.rows
        if profile.keeps_last and (steps == 1 or profile.framework != "torch"):  # a loop drops the rest
            scale["drop_last"] = Field(False, comment="the script's loaders keep it")
    if measured.parameters and measured.forward_flops and not profile.has_attention:
        counted = Flow(
            kind="convolutional", parameters=measured.parameters, forward_flops=round(measured.forward_flops)
        )
        scale["workload"] = Field(counted, comment="this kind is for all models without attention")
    return scale
