"""Scripts with Lightning, the Trainer of Hugging Face or Accelerate, which divide the rows themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from worldsize.adopting.distributing.files import load_everywhere
from worldsize.adopting.distributing.first_rank import act_on_first_rank, is_own_method
from worldsize.adopting.distributing.group import leave_group
from worldsize.adopting.distributing.kept_numbers import list_kept, list_lost
from worldsize.adopting.distributing.metrics import list_sums
from worldsize.adopting.distributing.numbers import (
    find_loader,
    find_optimizer,
    set_accumulation,
    set_epochs,
    set_loader,
    set_optimizer,
)
from worldsize.adopting.distributing.paths import place_files
from worldsize.adopting.distributing.randomness import agree_on_random_numbers
from worldsize.adopting.distributing.resuming import find_range, insert_before_loop, start_from
from worldsize.adopting.libraries.resuming_trainers import (
    is_trainer,
    name_folder,
    resume_lightning,
    resume_transformers,
)
from worldsize.adopting.options.flags import set_by_flag, write_flags
from worldsize.adopting.options.parsers import Parser, find_parser
from worldsize.adopting.source.header import MARK, Header, name_ranks, write_header
from worldsize.adopting.source.script import Script
from worldsize.adopting.training.loops import name_epoch
from worldsize.adopting.training.refusals import (
    APART,
    is_automatic,
    keeps_strategy,
    refuse_repeated,
    refuse_second_library,
    refuse_turns,
)
from worldsize.scripts.bindings import Scope, is_parameter
from worldsize.scripts.module import constant_value, find_passed, keyword_argument

_COUNTS = "the trainer takes the processes that the launcher starts"
_CONFIGS = ("SFTConfig", "DPOConfig", "ORPOConfig", "KTOConfig", "RewardConfig")  # of TRL
_ACCUMULATION = "gradient_accumulation_steps"
_AVERAGE = "average_tokens_across_devices"
_CLASSIFIES = re.compile(
    r"For(?:Sequence|Token|Image|Audio|Video)Classification|ForQuestionAnswering|ForMultipleChoice"
)
_CPU = "processes that see no GPU would each train alone"
_TOGETHER = frozenset(
    {"fit", "train", "test", "validate", "predict", "evaluate"}
    | {"save_model", "save_checkpoint", "save_state"}
)


def adopt_lightning(script: Script) -> Parser:
    """Let Lightning's Trainer read the processes of the launcher.

    Raises:
        AdoptError: The Trainer cannot be told.
    """
    parser, header = _start(script)
    trainers = script.module.called("Trainer")
    if len(trainers) > 1:
        raise script.refuse(trainers[1], "a second `Trainer` is made here", APART)
    trainer = trainers[0]
    refuse_turns(script)
    package = script.module.name_of(trainer.func).partition(".")[0]
    package = "pytorch_lightning" if package in ("pytorch_lightning", "pl") else "lightning.pytorch"
    nodes = script.new_name("NODES")
    header.constants.append(f'{nodes} = int(os.environ.get("AZUREML_NODE_COUNT", "1"))')
    header.imports[f"from {package}.plugins.environments import LightningEnvironment"] = None
    world = header.names.world_size
    chosen_strategy = keyword_argument(trainer, "strategy")
    strategy = script.written(chosen_strategy) if chosen_strategy is not None else '"auto"'
    keeps = keeps_strategy(script, chosen_strategy)
    script.set_keyword(trainer, "devices", f"{world} // {nodes}", "WS926", _COUNTS)
    script.set_keyword(trainer, "num_nodes", nodes, "WS926", _COUNTS)
    if not keeps:
        script.set_keyword(trainer, "strategy", f'"ddp" if {world} > 1 else {strategy}', "WS915", _COUNTS)
    if keyword_argument(trainer, "plugins") is None:
        script.set_keyword(trainer, "plugins", "[LightningEnvironment()]", "WS926", _COUNTS)
    sync_metrics(script)
    device = keyword_argument(trainer, "accelerator")
    if device is not None and constant_value(device) == "cpu":
        script.leave(
            device, "this script trains on the processor, also where there are GPUs", 'write `"auto"`'
        )
    set_accumulation(script, parser, keyword_argument(trainer, "accumulate_grad_batches"))
    epochs = keyword_argument(trainer, "max_epochs")
    if epochs is not None:
        set_by_flag(script, parser, "epochs", epochs)
    _set_rest(script, parser)
    resume_lightning(script, parser, header, trainer, package)
    leave_group(script, header)
    return _finish(script, parser, header)


def adopt_transformers(script: Script) -> Parser:
    """Let options set the training arguments; the Trainer does the rest."""
    parser, header = _start(script)
    calls = script.module.called("TrainingArguments", "Seq2SeqTrainingArguments", *_CONFIGS)
    made = [call for call in calls if call.keywords or call.args]
    roles = (
        ("per_device_train_batch_size", "batch_size"),
        ("learning_rate", "learning_rate"),
        ("num_train_epochs", "epochs"),
    )
    for call in made[:1]:
        for name, role in roles:
            value = keyword_argument(call, name)
            if value is not None:
                set_by_flag(script, parser, role, value)  # type: ignore[arg-type]
            else:
                message = f"`{name}` is the default of Transformers, and no option sets it"
                script.leave(call, message, f"write `{name}=`")
        set_accumulation(script, parser, keyword_argument(call, _ACCUMULATION))
        if _CLASSIFIES.search(script.text) and keyword_argument(call, _AVERAGE) is None:
            reason = "a classifier's loss is a mean over rows, not to be multiplied by the processes"
            script.set_keyword(call, _AVERAGE, "False", None, reason)
        if keyword_argument(call, "use_cpu") is None and keyword_argument(call, "no_cuda") is None:
            header.imports["import torch"] = None
            script.set_keyword(call, "use_cpu", "not torch.cuda.is_available()", None, _CPU)
    refuse_second_library(script)
    for call in script.module.called("train"):
        if is_trainer(script, call):
            refuse_repeated(script, call)
    _place_model(script, header)
    resume_transformers(script, parser, header, made[0] if made else None)
    leave_group(script, header)
    return _finish(script, parser, header)


def adopt_accelerate(script: Script) -> Parser:
    """Let options set the numbers, and the first process print and save.

    Raises:
        AdoptError: There is no loop of `accelerator.backward`.
    """
    parser, header = _start(script)
    module = script.module
    accelerator = module.called("Accelerator")[0]
    if not module.called("prepare"):
        help_ = "write `model, optimizer, loader = accelerator.prepare(model, optimizer, loader)`"
        raise script.refuse(accelerator, "nothing is given to `accelerator.prepare`", help_)
    header.imports["import torch"] = None
    if keyword_argument(accelerator, "cpu") is None:
        script.set_keyword(accelerator, "cpu", "not torch.cuda.is_available()", None, _CPU)
    set_accumulation(script, parser, keyword_argument(accelerator, _ACCUMULATION))
    statement = module.parents.get(accelerator)
    name = script.written(statement.targets[0]) if isinstance(statement, ast.Assign) else "accelerator"
    prepared = {script.written(argument) for call in module.called("prepare") for argument in call.args}
    for call in module.called("state_dict"):
        func = call.func
        if (
            isinstance(func, ast.Attribute)
            and script.written(func.value) in prepared
            and _is_saved(script, call)
        ):
            model = script.written(func.value)
            if "optim" not in model and "sched" not in model:
                script.replace(
                    func.value, f"{name}.unwrap_model({model})", "WS904", "the file has the model itself"
                )
    set_epochs(script, parser, find_epoch_loop(script))
    reduce_sums(script, name, prepared)
    _place_model(script, header)
    leave_group(script, header)
    _set_rest(script, parser)
    resume_accelerate(script, parser, header, accelerator=name, prepared=prepared)
    return _finish(script, parser, header)


def _is_saved(script: Script, call: ast.Call) -> bool:
    return any(
        isinstance(above, ast.Call) and script.module.name_of(above.func).rpartition(".")[2] == "save"
        for above, _ in script.module.ancestors(call)
    )


def _start(script: Script) -> tuple[Parser, Header]:
    return find_parser(script), Header(name_ranks(script), imports={"import os": None})


def _set_rest(script: Script, parser: Parser) -> None:
    loader, optimizer = find_loader(script), find_optimizer(script)
    if loader is not None:
        set_loader(script, parser, loader)
    if optimizer is not None:
        set_optimizer(script, parser, optimizer)


def _place_model(script: Script, header: Header) -> None:
    """Load the model onto the GPU of the process where the library would spread it over all of them."""
    for _, call in script.module.calls:
        devices = keyword_argument(call, "device_map")
        if devices is not None and is_automatic(devices) and call.args:
            header.imports |= {"import os": None, "import torch": None}
            device_map = '{"": int(os.environ.get("LOCAL_RANK", "0"))}'
            text = f"{device_map} if torch.cuda.is_available() else {script.written(devices)}"
            script.replace(devices, text, "WS905", "each process holds the whole model on a GPU of its own")
            script.leave(devices, "the whole model has to fit on one GPU, with its gradients", None)


def _finish(script: Script, parser: Parser, header: Header) -> Parser:
    place_files(script, parser, header)
    agree_on_random_numbers(script, header)
    act_on_first_rank(script, header, _TOGETHER)
    load_everywhere(script, header)
    words = set(re.findall(r"\w+", " ".join(script.list_inserted())))
    variables = {header.names.rank: ("RANK", "0"), header.names.world_size: ("WORLD_SIZE", "1")}
    constants = [
        f'{name} = int(os.environ.get("{variable}", "{usual}"))'
        for name, (variable, usual) in variables.items()
        if name in words
    ]
    if constants or header.constants:
        header.constants = [f"# {MARK}", *constants, *header.constants]
    if not any("os." in line for line in (*header.constants, *parser.then, *script.list_inserted())):
        header.imports.pop("import os", None)
    write_flags(script, parser, header)
    write_header(script, header)
    return parser


_EVALUATES = ("validation", "test", "on_validation", "on_test")
_TRAINS = ("training_step",)
_ENDS = ("on_train_epoch", "training_epoch_end")  # where Lightning logs the mean of an epoch too
_METRIC_REASON = "the metric is of the rows of all processes"


def sync_metrics(script: Script) -> None:
    """Let what is logged of an epoch be the mean over all processes: callbacks and schedules read it."""
    for call in script.module.called("log", "log_dict"):
        last = script.written(call.func).removeprefix("self.")
        choices = [keyword_argument(call, "sync_dist"), keyword_argument(call, "rank_zero_only")]
        is_another = last not in ("log", "log_dict") or is_own_method(script, call, last)
        if is_another or any(choices) or _is_synced(script, call):
            continue
        text = _choose(script, call)
        if text is not None:
            script.set_keyword(call, "sync_dist", text, None, _METRIC_REASON)


def _choose(script: Script, call: ast.Call) -> str | None:
    """What `sync_dist` is to be: where both steps log by one method, training goes on without a mean."""
    on_epoch = constant_value(keyword_argument(call, "on_epoch"))
    if on_epoch is not None:
        return "True" if on_epoch else None
    hooks = set(_list_hooks(script, script.scope(call), set()))
    if hooks and all(hook.startswith((*_EVALUATES, *_ENDS)) for hook in hooks):
        return "True"
    return "not self.training" if any(hook.startswith(_EVALUATES) for hook in hooks) else None


def _list_hooks(script: Script, scope: Scope, seen: set[Scope]) -> list[str]:
    """The methods that Lightning calls from which a method is reached."""
    if isinstance(scope, ast.Module) or scope in seen:
        return []
    seen.add(scope)
    if scope.name.startswith((*_EVALUATES, *_ENDS, *_TRAINS)):
        return [scope.name]
    callers = [script.scope(call) for call in script.calls(scope)]
    return [hook for caller in callers for hook in _list_hooks(script, caller, seen)]


def _is_synced(script: Script, call: ast.Call) -> bool:
    """Whether a metric of torchmetrics is logged, which is computed over all processes anyway."""
    at = 1 if script.written(call.func).endswith(".log") else 0
    value = find_passed(call, at, "value" if at else "dictionary")
    if value is None:
        return False
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "compute":
        return True
    made = script.value(value)
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr == "clone":
        made = script.value(made.func.value)
    return script.called_name(made).startswith("torchmetrics.")


_SCHEDULES = re.compile(r"sched|anneal|plateau|warm", re.IGNORECASE)
_ACCELERATE_REASON = "a job that is interrupted goes on from its last epoch"


def resume_accelerate(
    script: Script,
    parser: Parser,
    header: Header,
    *,
    accelerator: str,
    prepared: Collection[str],
) -> None:
    """Save the state after each epoch of the loop in `--checkpoints`, and load the last one."""
    loop = find_epoch_loop(script)
    if _loads_always(script):
        return
    if loop is None or find_range(loop) is None or not is_bound(script, loop, accelerator):
        for _, call in script.module.callers.get("backward", ())[:1]:
            help_ = f"call `{accelerator}.save_state` and `load_state` where the epochs are counted"
            message = "no checkpoints: the epochs of this loop are not counted here"
            script.leave(loop or call, message, help_)
        return
    folder = name_folder(script, parser, header, loop)
    kept = list_kept(script, loop)
    for name, place in list_lost(script, loop, kept).items():
        script.leave(
            place, f"`{name}` starts anew when a job resumes", "save and load it with the other state"
        )
    header.imports["import os"] = None
    start, latest, state = (script.new_name(word) for word in ("start_epoch", "latest", "state"))
    epoch = name_epoch(script, loop)
    load = [
        f"{start} = {start_from(script, loop, start)}",
        f'{latest} = os.path.join({folder}, "latest.pt") if {folder} else ""',
        *(
            f"{accelerator}.register_for_checkpointing({name})"
            for name in _list_others(script, loop, prepared)
        ),
        f"if os.path.exists({latest}):  # the run before this one was interrupted",
        f'    {state} = torch.load({latest}, map_location="cpu")',
        f'    {accelerator}.load_state(os.path.join({folder}, {state}["folder"]))',
        *(f'    {name} = {state}["{name}"]' for name in kept),
        f'    {start} = {state}["epoch"] + 1',
    ]
    entries = [f'"epoch": {epoch}', f'"folder": f"state_{{{epoch} % 2}}"']
    entries += [f'"{name}": {text}' for name, text in kept.items()]
    save = [
        f"if {latest}:  # two folders take turns: one of them is whole at any time",
        f"    {state} = {{",
        *(f"        {entry}," for entry in entries),
        "    }",
        f'    {accelerator}.save_state(os.path.join({folder}, {state}["folder"]))',
        f"    {accelerator}.wait_for_everyone()",
        f"    if {header.names.is_first}:",
        f'        torch.save({state}, {latest} + ".part")',
        f'        os.replace({latest} + ".part", {latest})',
    ]
    insert_before_loop(script, loop, load)
    script.insert_after(loop.body[-1], save, None, _ACCELERATE_REASON)


def find_epoch_loop(script: Script) -> ast.For | None:
    """The loop over epochs around the loop in which `accelerator.backward` is called, or its function is."""
    for _, call in script.module.callers.get("backward", ()):
        loops = list(script.loops(call))
        scope = script.scope(call)
        if len(loops) == 1 and not isinstance(scope, ast.Module):
            calls = script.calls(scope)
            loops += list(script.loops(calls[0])) if len(calls) == 1 else []
        outer = loops[1] if len(loops) == 2 else None
        return outer if isinstance(outer, ast.For) else None
    return None


def _loads_always(script: Script) -> bool:
    """Whether the script loads a state unconditionally, or names the folders of its states."""
    loads = script.module.called("load_state")
    tested = [any(isinstance(above, ast.If) for above, _ in script.module.ancestors(one)) for one in loads]
    return not all(tested) or "automatic_checkpoint_naming=True" in script.text


def _list_others(script: Script, loop: ast.For, prepared: Collection[str]) -> list[str]:
    """Schedules that are stepped, and not prepared: their state is not saved unless they are registered."""
    held = {
        script.written(argument)
        for call in script.module.called("register_for_checkpointing")
        for argument in call.args
    }
    names = {
        call.func.value.id
        for _, call in script.module.callers.get("step", ())
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
        if script.scope(call) is script.scope(loop) and _SCHEDULES.search(call.func.value.id)
    }
    made_inside = {
        word for word in names if any(script.is_under(node, loop) for node in script.module.stores(word))
    }
    return sorted(names - held - made_inside - set(prepared))


_GATHERS = frozenset({"gather", "gather_for_metrics", "reduce"})
_MAIN_ONLY = re.compile(r"\bis_(?:local_)?main_process\b")


def reduce_sums(script: Script, accelerator: str, prepared: Collection[str]) -> None:
    """Reduce sums behind the loop that adds them up, where what divides them tells how; else say it."""
    for loop in script.nodes(ast.For):
        loaders = {script.written(inner) for inner in ast.walk(loop.iter) if isinstance(inner, ast.Name)}
        calls = {getattr(node.func, "attr", "") for node in ast.walk(loop) if isinstance(node, ast.Call)}
        loaders &= set(prepared)
        if not loaders or calls & _GATHERS:
            continue
        nodes = list(ast.walk(loop))
        sums = [name for name in list_sums(nodes) if not _is_gathered(script, name)]
        hows = {name: _find_reduction(script, loop, name, loaders=loaders, sums=sums) for name in sums}
        can_reduce = _can_reduce(script, loop, accelerator)
        lines = []
        for name, how in hows.items():
            if can_reduce and how is not None:
                lines.append(_write(script, name, how, accelerator))
            elif "backward" not in calls:
                help_ = f"gather first: `{accelerator}.gather_for_metrics((predictions, labels))`"
                message = f"`{name}` adds up the rows of one process, of which each has a share"
                script.leave(loop, message, help_)
        if lines:
            script.insert_after(loop, lines, None, _METRIC_REASON)


def _is_gathered(script: Script, name: str) -> bool:
    return any(
        getattr(node, "id", "") == name
        for call in script.module.called("reduce", "gather")
        for node in ast.walk(call)
    )


def _can_reduce(script: Script, loop: ast.For, accelerator: str) -> bool:
    """Whether the accelerator has its name here, and all processes come here."""
    for above, _ in script.module.ancestors(loop):
        if isinstance(above, ast.If) and _MAIN_ONLY.search(ast.unparse(above.test)):
            return False
    return is_bound(script, loop, accelerator)


def is_bound(script: Script, node: ast.AST, accelerator: str) -> bool:
    """Whether the accelerator has its name at a node."""
    scope = script.scope(node)
    if not accelerator.isidentifier():
        return accelerator.startswith("self.") and is_parameter(scope, "self")
    bound = script.bindings(accelerator, scope) or script.bindings(accelerator, script.module.tree)
    return bool(bound) or is_parameter(scope, accelerator)


def _find_reduction(
    script: Script, loop: ast.For, name: str, *, loaders: set[str], sums: list[str]
) -> str | None:
    """`mean` of a sum over batches, `sum` of one over rows; what divides it tells which.

    Accelerate fills the last batches up, so that the rows of the dataset are fewer than those added up.
    """
    counted = {
        node.target.id
        for node in ast.walk(loop)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    for divided, by in _list_divisions(script, loop):
        value = script.value(by)
        if name in sums and name == getattr(by, "id", ""):
            return "sum"
        if not any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(divided)):
            continue
        if isinstance(by, ast.Name) and by.id in counted:
            return "sum" if by.id in sums else "mean"
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "len" and value.args:
            return "mean" if script.written(value.args[0]) in loaders else None
    return None


def _list_divisions(script: Script, loop: ast.For) -> list[tuple[ast.expr, ast.expr]]:
    """``total / count`` and ``total /= count`` in the function of a loop."""
    scope = script.scope(loop)
    statements = [
        (node.left, node.right)
        for node in script.nodes(ast.BinOp)
        if isinstance(node.op, ast.Div) and script.scope(node) is scope
    ]
    return statements + [
        (node.target, node.value)
        for node in script.nodes(ast.AugAssign)
        if isinstance(node.op, ast.Div) and script.scope(node) is scope
    ]


def _write(script: Script, name: str, how: str, accelerator: str) -> str:
    """The line that reduces; a tensor of which the script reads a part stays one."""
    if any(getattr(node.value, "id", "") == name for node in script.nodes(ast.Attribute)):
        return f'{name} = {accelerator}.reduce({name}, "{how}")'
    number = f"float({name})" if how == "mean" else name
    tensor = f"torch.tensor({number}, device={accelerator}.device)"
    return f'{name} = {accelerator}.reduce({tensor}, "{how}").item()'
