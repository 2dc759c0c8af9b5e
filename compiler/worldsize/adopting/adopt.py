"""Adopt a script: read it, choose how, and give its new text."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import structs

from worldsize.adopting.distributing.plain_loop import adopt_plain
from worldsize.adopting.distributing.resuming import VARIABLE
from worldsize.adopting.libraries.keras import adopt_keras
from worldsize.adopting.libraries.notebooks import drop_magics, print_displays, refuse_magics
from worldsize.adopting.libraries.torch_libraries import adopt_accelerate, adopt_lightning, adopt_transformers
from worldsize.adopting.model import Adoption, Framework
from worldsize.adopting.options.configuration import read_replaced
from worldsize.adopting.options.declared import read_options
from worldsize.adopting.options.flags import list_flags
from worldsize.adopting.options.parsers import Parser
from worldsize.adopting.project.inputs import leave_files, leave_paths_behind
from worldsize.adopting.source.header import MARK
from worldsize.adopting.source.reading import list_direct, read_script
from worldsize.adopting.source.script import Script
from worldsize.adopting.training.profile import add_options, describe_script
from worldsize.adopting.training.refusals import list_fits, list_trainers, refuse_games, refuse_processes
from worldsize.scripts.module import Module, list_packages


def adopt_script(path: Path, arguments: Sequence[str] = ()) -> Adoption:
    """The script of one GPU for several processes; nothing is written, and nothing of it runs.

    Args:
        path: The script.
        arguments: The command line that it gets, which may name a file with its numbers.

    Raises:
        AdoptError: It cannot be read, or it is not a script that can be adopted safely.
    """
    module, encoding = read_script(path)
    return adopt_module(module, encoding, arguments)


def adopt_module(module: Module, encoding: str = "utf-8", arguments: Sequence[str] = ()) -> Adoption:
    """The same for a script that has been read."""
    script = Script(module, arguments)
    if MARK in module.text:  # adopted before
        options = read_options(module)
        flags = tuple(option.flag for option in options.declared)
        profile = add_options(
            describe_script(module, _find_framework(module) or "torch"), flags, read_replaced(script)
        )
        profile = structs.replace(
            profile, subcommand=options.subcommand, own_checkpoints=VARIABLE in module.text
        )
        return Adoption(profile, module.text, module.text, encoding=encoding)
    profile = describe_script(module, choose_framework(script))
    drop_magics(script)
    print_displays(script)
    if profile.framework == "torch":
        draws = profile.has_dropout or profile.random_augmentation or profile.draws_noise
        parser = adopt_plain(script, random=draws)
    else:
        parser = _OF_LIBRARIES[profile.framework](script)
    leave_files(script)
    leave_paths_behind(script, [option.flag.default for option in parser.options.declared])
    text, changes = script.finish()
    flags = list_flags(parser)
    defaults = {str(flag.role): flag.default for flag in flags if isinstance(flag.default, int | float)}
    profile = add_options(profile, flags, {**defaults, **parser.numbers})
    profile = structs.replace(profile, subcommand=parser.options.subcommand, own_checkpoints=VARIABLE in text)
    if "import mlflow" in text and "mlflow" not in profile.imports:
        needs = tuple(sorted({*profile.needs, ("azureml-mlflow",)}))
        profile = structs.replace(profile, imports=tuple(sorted({*profile.imports, "mlflow"})), needs=needs)
    return Adoption(profile, module.text, text, changes, tuple(script.obstacles), encoding)


_OF_LIBRARIES: dict[str, Callable[[Script], Parser]] = {
    "lightning": adopt_lightning,
    "transformers": adopt_transformers,
    "accelerate": adopt_accelerate,
    "keras": adopt_keras,
}


def _find_framework(module: Module) -> Framework | None:
    """The library whose loop trains; None where none does that is adopted."""
    tops = list_packages(module)
    if {"lightning", "pytorch_lightning"} & tops and module.called("Trainer"):
        return "lightning"
    if {"transformers", "trl"} & tops and list_trainers(module):
        return "transformers"
    if "accelerate" in tops and module.called("Accelerator"):
        return "accelerate"
    if {"tensorflow", "keras", "tf_keras"} & tops and list_fits(module):
        return "keras"
    return "torch" if "torch" in tops and module.callers.get("backward") else None


_DISTRIBUTED = (
    "init_process_group", "DistributedDataParallel", "FullyShardedDataParallel", "fully_shard",
    "init_device_mesh",
    "MultiWorkerMirroredStrategy", "ParameterServerStrategy", "TPUStrategy", "DistributedSampler",
    "Fabric", "init_rpc",
)  # fmt: skip
_PACKAGES = {
    "horovod": "Horovod",
    "deepspeed": "DeepSpeed",
    "torch_xla": "PyTorch/XLA",
    "ray": "Ray",
    "fairscale": "FairScale",
    "colossalai": "Colossal-AI",
}
_OTHERS = {
    "jax": "JAX",
    "flax": "JAX",
    "sklearn": "scikit-learn",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "mxnet": "MXNet",
    "paddle": "PaddlePaddle",
    "fastai": "fastai",
    "ignite": "Ignite",
}


def choose_framework(script: Script) -> Framework:
    """The library whose loop trains.

    Raises:
        AdoptError: The script is distributed already, or nothing here can train in several processes.
    """
    module = script.module
    tops: dict[str, ast.stmt] = {}
    for name, level, statement in module.imports:
        if not level:
            tops.setdefault(name.partition(".")[0], statement)
    _refuse_whole(script, tops)
    refuse_games(script, tops)
    if (framework := _find_framework(module)) is not None:
        return framework
    _refuse_other_loops(script, tops)
    for call in module.called("LightningCLI"):
        message = "`LightningCLI` makes the Trainer, and reads its options itself"
        help_ = "write a step for it: `fit --trainer.devices 4 --trainer.num_nodes 2` divides the rows"
        raise script.refuse(call, message, help_)
    beside = _find_trainer_beside(script)
    if beside is not None:
        statement, path = beside
        help_ = f"adopt reads one file: move the loop of `{path}` into this script, or adopt `{path}`"
        raise script.refuse(statement, f"the training loop is in another module, `{path}`", help_)
    message = "no training loop: nothing calls `backward()`, `Trainer(…).fit` or `model.fit`"
    raise script.refuse(None, message, "name the script that trains the model")


def _refuse_other_loops(script: Script, tops: dict[str, ast.stmt]) -> None:
    """Refuse the training loops of libraries that are not adopted."""
    module = script.module
    if "tensorflow" in tops and (tapes := module.called("GradientTape")):
        help_ = "override `train_step` of a `keras.Model` and call `fit`, which adopt reads"
        raise script.refuse(tapes[0], "this script trains in a loop of its own on `GradientTape`", help_)
    if "tensorflow" in tops and (
        sessions := module.called("Session", "InteractiveSession", "MonitoredSession")
    ):
        help_ = "move it to `tf.keras`: https://www.tensorflow.org/guide/migrate"
        raise script.refuse(sessions[0], "this script trains in a session of TensorFlow 1", help_)
    for name, shown in _OTHERS.items():
        if name in tops and "torch" not in tops:
            help_ = "PyTorch, Lightning, Hugging Face and Keras are; run this one as a step as it is"
            raise script.refuse(tops[name], f"this script trains with {shown}, which is not adopted", help_)


def _find_trainer_beside(script: Script) -> tuple[ast.stmt, str] | None:
    """The import of a module beside the script that calls `backward`, and its path."""
    for module, statement in list_direct(script.module).items():
        if module.called("backward", "GradientTape", "fit"):
            path = os.path.relpath(module.source.path, Path(script.module.source.path).parent)
            return statement, Path(path).as_posix()
    return None


def _refuse_whole(script: Script, tops: dict[str, ast.stmt]) -> None:
    module = script.module
    refuse_magics(script)
    help_ = "write a step for it as it is: `worldsize check` judges it there"
    for name, shown in _PACKAGES.items():
        if name in tops:
            raise script.refuse(tops[name], f"this script is distributed already, with {shown}", help_)
    for word in _DISTRIBUTED:
        for call in module.called(word):
            raise script.refuse(call, f"this script is distributed already: it uses `{word}`", help_)
    refuse_processes(script)
