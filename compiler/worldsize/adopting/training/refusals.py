"""What several processes cannot share: games, optimizers that take turns, trainings that repeat."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from worldsize.adopting.source.script import Script
from worldsize.facts.library_calls import list_last_names
from worldsize.scripts.module import Module, constant_value, keyword_argument

_GAMES = ("gym", "gymnasium", "gym_minigrid", "pettingzoo", "stable_baselines3")
_DIVIDING = ("FSDPStrategy", "DeepSpeedStrategy", "ModelParallelStrategy", "XLAStrategy")
_ALONE = {"auto", "dp", "single_device", None}
APART = "give each training a script of its own"


def refuse_games(script: Script, tops: Mapping[str, ast.stmt]) -> None:
    """Refuse reinforcement learning: no loader gives its rows, each process would play a game of its own.

    Raises:
        AdoptError: The script imports an environment.
    """
    for name in _GAMES:
        if name in tops:
            help_ = "run it as a step as it is, in one process"
            message = (
                f"this script learns from an environment, `{name}`, and not from rows that can be divided"
            )
            raise script.refuse(tops[name], message, help_)


_STARTERS = ("Process", "Thread", "spawn", "start_processes", "submit", "map", "starmap", "apply_async")


def refuse_processes(script: Script) -> None:
    """Refuse a training in processes that the script starts itself, as Hogwild! does.

    Raises:
        AdoptError: The script starts them.
    """
    module = script.module
    shares = module.called("share_memory", "share_memory_")
    trains = {script.scope(call) for call in module.called("backward")} - {module.tree}
    for call in module.called(*_STARTERS):
        target = (
            keyword_argument(call, "target") or keyword_argument(call, "fn") or next(iter(call.args), None)
        )
        functions = (
            [function for _, function in script.code.find(module, target)] if target is not None else []
        )
        if not trains.isdisjoint(script.reach(functions)):
            name = script.written(target) if target is not None else ""
            what = f"`{name}` trains in processes that the script starts itself"
            shared = ", which all change one shared model (Hogwild)" if shares else ""
            help_ = f"call `{name}` once, in the script's own process: then the launcher starts the others"
            more = ", and their gradients are averaged" if shares else ""
            raise script.refuse(call, what + shared, help_ + more)
    for call in module.called("mp.spawn", "multiprocessing.spawn"):
        raise script.refuse(call, "this script starts processes itself", "train in one process first")


def refuse_sparse(script: Script) -> None:
    """Refuse sparse gradients, which the processes on GPUs cannot add up.

    Raises:
        AdoptError: An embedding or the optimizer asks for them.
    """
    sparse = [
        call for _, call in script.module.calls if constant_value(keyword_argument(call, "sparse")) is True
    ]
    for call in (*script.module.called("SparseAdam"), *sparse):
        help_ = "take `sparse=False` and `Adam`: NCCL does not add up sparse gradients"
        raise script.refuse(call, "this script trains with sparse gradients", help_)


def refuse_savers(script: Script) -> None:
    """Refuse what writes its files in each process, and gives the best result back to all.

    Raises:
        AdoptError: The script makes one.
    """
    for call in script.module.called("timm.utils.CheckpointSaver"):
        help_ = "save by `torch.save`, which adopt leaves to the first process"
        raise script.refuse(call, "every process would write and move these checkpoints", help_)


def refuse_graphs(script: Script, loader: ast.Call) -> None:
    """Refuse the loaders of DGL that sample one graph: their third argument is no `shuffle`.

    Raises:
        AdoptError: It is one of them.
    """
    name = script.module.name_of(loader.func)
    if name.startswith("dgl.") and not name.endswith("GraphDataLoader"):
        help_ = "let it divide the nodes by hand: `use_ddp=True`, and its own `set_epoch`"
        raise script.refuse(loader, f"`{name}` samples from one graph, and takes no sampler of rows", help_)


def list_fits(module: Module) -> list[ast.Call]:
    """The calls of `fit` of Keras: not those of a class of the script, nor of other libraries."""
    defines = any(
        node.name == "fit" and isinstance(module.parents.get(node), ast.ClassDef)
        for node in module.kinds.get(ast.FunctionDef, ())
    )
    fits = [call for call in module.called("fit") if isinstance(call.func, ast.Attribute)]
    compiled = {_owner(call) for call in module.called("compile")}
    of_compiled = [call for call in fits if _owner(call) in compiled]
    return of_compiled if of_compiled or defines else fits


def list_trainers(module: Module) -> list[ast.Call]:
    """The Trainer of Hugging Face, those of TRL, and those of classes of the script that are made of them."""
    subclasses = [
        node.name
        for node in module.kinds.get(ast.ClassDef, ())
        if any(ast.unparse(base).endswith("Trainer") for base in node.bases)
    ]
    return module.called(*sorted(list_last_names("trains")), *subclasses)


def _owner(call: ast.Call) -> str:
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def refuse_turns(script: Script) -> None:
    """Refuse a module of Lightning whose optimizers take turns, as those of a GAN do.

    Raises:
        AdoptError: It calls `manual_backward` in several places.
    """
    calls = script.module.called("self.manual_backward")
    if len(calls) > 1:
        help_ = "choose `ddp_find_unused_parameters_true` by hand: each turn leaves weights without gradients"
        raise script.refuse(calls[1], "several optimizers take turns here, by `manual_backward`", help_)


def keeps_strategy(script: Script, strategy: ast.expr | None) -> bool:
    """Whether the strategy that a Trainer is given divides the rows already.

    Raises:
        AdoptError: It divides the model too.
    """
    if strategy is None:
        return False
    value = script.value(strategy)
    if isinstance(value, ast.Call):
        name = script.module.name_of(value.func).rpartition(".")[2]
        if name in _DIVIDING:
            help_ = "write a step for it as it is: `worldsize check` judges it there"
            raise script.refuse(value, f"this script is distributed already: it uses `{name}`", help_)
        return name == "DDPStrategy"
    return isinstance(value, ast.Constant) and value.value not in _ALONE


def refuse_repeated(script: Script, train: ast.Call) -> None:
    """Refuse a training in a loop, or in a function that is called again: it would resume from another.

    Raises:
        AdoptError: The script trains several times.
    """
    call: ast.Call | None = train
    for _ in range(4):
        if call is None:
            return
        loop = next(iter(script.loops(call)), None)
        if loop is not None:
            raise script.refuse(call, "this trains once in each turn of a loop", APART)
        function = script.scope(call)
        if isinstance(function, ast.Module):
            return
        calls = [call for call in script.calls(function) if _is_reached(script, call)]
        if len(calls) > 1:
            message = f"`{function.name}` trains, and is called here a second time"
            raise script.refuse(calls[1], message, APART)
        call = calls[0] if calls else None


def refuse_second_library(script: Script) -> None:
    """Refuse a script in which a loop of Accelerate trains beside a Trainer.

    Raises:
        AdoptError: It has both.
    """
    loops = script.module.called("backward") if script.module.called("Accelerator") else []
    if loops:
        raise script.refuse(loops[0], "a second training loop calls `backward()` here", APART)


def _is_reached(script: Script, call: ast.Call) -> bool:
    """Whether the script itself comes to a call; `_mp_fn` of Hugging Face is for a launcher of TPUs."""
    function = script.scope(call)
    return isinstance(function, ast.Module) or bool(script.calls(function))


def is_automatic(node: ast.expr | None) -> bool:
    """Whether a library chooses the GPUs of a model: ``device_map="auto"``."""
    return constant_value(node) in ("auto", "balanced", "balanced_low_0", "sequential")
