"""Print, log and save on the first process only."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import TypeAlias

from worldsize.adopting.distributing.files import (
    FILE,
    SINK,
    log_on_first_rank,
    open_on_first_rank,
    opens_to_write,
    saves_beside,
)
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.facts.library_calls import find_call
from worldsize.scripts.module import constant_value, keyword_argument, last_name

_PATH_MOVES = frozenset({"replace", "rename"})  # methods of a path, which take one argument
_TRACKERS = ("wandb", "mlflow", "neptune", "comet_ml", "tensorboard_logger")
_WRITERS = ("SummaryWriter", "wandb.init")
_LIBRARY_TEST = re.compile(r"\bis_(?:local_)?main_process\b|\bis_world_process_zero\b|\bis_global_zero\b")
_LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
_OUTPUT = "the first process prints and logs for all"
_PURE = frozenset({"len", "isinstance", "hasattr", "int", "min", "max", "abs"})


def act_on_first_rank(script: Script, header: Header, together: Together = ()) -> None:
    """Put everything that prints, logs or writes under a test of the rank.

    ``together`` names what all processes have to do together: functions, or methods of a model.
    """
    test = header.names.is_first
    writers = _hold_writers(script, header)
    quiet = _quieten_logging(script, test)
    shared = _list_shared(script, together)
    open_on_first_rank(script, header, shared)
    log_on_first_rank(script, header)
    start_run_once(script, header)
    keep_run_of_job(script, header)
    chosen: dict[ast.stmt, str] = {}
    apart: set[ast.stmt] = set()  # above which all processes compute something
    for kind in (ast.Expr, ast.With, ast.Delete):
        for statement in script.nodes(kind):
            what = _classify(script, statement, writers, quiet)
            if what is None or statement in shared or _is_tested(script, statement):
                continue
            if is_together(script, statement, together):
                if not take_out(script, statement, together):
                    continue
                apart.add(statement)
            chosen[statement] = what
    inside = {s for s in chosen if any(up in chosen for up, _ in script.module.ancestors(s))}
    blocks: dict[int, list[ast.stmt]] = {}
    for statement in chosen:
        if statement not in inside:
            block = script.block(statement)
            blocks[id(block)] = block
    for block in blocks.values():
        _spare_shared_lines(script, block, chosen)
        _guard_block(script, block, chosen, test, apart)
    _disable_bars(script, header)
    _print_result_once(script, test)


def _print_result_once(script: Script, test: str) -> None:
    """Let fire print what its function returns on the first process."""
    functions = {function.name: function for function in script.nodes(ast.FunctionDef)}
    for call in script.module.called("fire.Fire"):
        function = functions.get(getattr(next(iter(call.args), None), "id", ""))
        returns = (statement for statement in script.nodes(ast.Return) if statement.value is not None)
        if keyword_argument(call, "serialize") is None and any(
            script.scope(statement) is function for statement in returns
        ):
            text = f"lambda result: result if {test} else None"
            script.set_keyword(call, "serialize", text, "WS904", _OUTPUT)


def _is_tested(script: Script, statement: ast.stmt) -> bool:
    """Whether the script itself does this on the first process only, as with Accelerate."""
    call = getattr(statement, "value", None)
    if isinstance(call, ast.Call):
        if script.written(call.func) in ("accelerator.save", "accelerator.print"):
            return True
        # All processes call `save_pretrained` with `is_main_process`.
        if _logs_for_all(script, call) or keyword_argument(call, "is_main_process") is not None:
            return True
    return any(
        isinstance(above, ast.If) and child in above.body and _LIBRARY_TEST.search(ast.unparse(above.test))
        for above, child in script.module.ancestors(statement)
    )


def _logs_for_all(script: Script, call: ast.Call) -> bool:
    """Whether a logger of Accelerate logs, which knows its process; with `in_order` all have to call it."""
    name = script.called_name(script.owner(call))
    return name.startswith("accelerate.") and name.endswith(".get_logger")


def _list_shared(script: Script, together: Together) -> list[ast.With]:
    """Each `with` that all processes have to enter: the training is in it, or what is edited for them."""
    names = {*together}
    names |= {
        function.name
        for function in script.nodes(ast.FunctionDef)
        if script.edits_between(script.start(function), script.end(function))
    }
    return [
        block
        for block in script.nodes(ast.With)
        if is_together(script, block, names)
        or script.edits_between(script.end(block.items[-1].context_expr), script.end(block))
    ]


def _classify(script: Script, statement: ast.stmt, writers: set[ast.Call], quiet: bool) -> str | None:
    """`print` or `write`, where a statement does only this."""
    if isinstance(statement, ast.With):
        own = script.scope(statement) in script.sampling_only
        return (
            "write"
            if not own and any(opens_to_write(item.context_expr) for item in statement.items)
            else None
        )
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call):
        return None
    name = script.module.name_of(call.func)
    last = name.rpartition(".")[2]
    base = script.written(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if find_call(name, "prints") or script.owner(call) in writers:
        return "print"
    if name.partition(".")[0] in _TRACKERS:
        of_all = last in ("autolog", "set_tracking_uri", "set_experiment") or call in script.module.memo.get(
            _mute_wandb, ()
        )
        return None if of_all else "print"
    if last in _LEVELS and "log" in base.lower() and not quiet:
        return "print"
    # Where workers make samples, each process has rows of its own.
    shared = script.scope(call) not in script.sampling_only
    return "write" if shared and (_writes_file(script, call, name) or saves_beside(script, call)) else None


def _writes_file(script: Script, call: ast.Call, name: str) -> bool:
    """Whether a call writes or makes a file; not a method of the script itself, which is edited inside."""
    owner, _, last = name.rpartition(".")
    if last in ("makedirs", "mkdir") and constant_value(keyword_argument(call, "exist_ok")) is True:
        return False
    moves = name == SINK or (last in _PATH_MOVES and len(call.args) == 1 and not call.keywords)
    acts = moves or find_call(name, "writes", "copies", "changes") is not None
    return acts and bool(owner) and not is_own_method(script, call, last)


def is_own_method(script: Script, call: ast.Call, last: str) -> bool:
    """Whether a call reaches a method of the script itself: `self.save(…)`, and not `torch.save(…)`."""
    return last in script.code.functions and not _is_imported(script, call)


def _is_imported(script: Script, call: ast.Call) -> bool:
    """Whether a call is of a module that the script imports, or of something in it."""
    root = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and root.id in script.module.names


def _guard_block(
    script: Script, block: list[ast.stmt], chosen: dict[ast.stmt, str], test: str, apart: set[ast.stmt]
) -> None:
    above = script.module.parents[block[0]]
    if isinstance(above, ast.If) and apart.isdisjoint(block) and _takes_test(script, block, chosen):
        loose = isinstance(above.test, ast.IfExp | ast.Lambda) or (
            isinstance(above.test, ast.BoolOp) and isinstance(above.test.op, ast.Or)
        )
        written = script.written(above.test)
        condition = f"{test} and ({written})" if loose else f"{test} and {written}"
        reason = FILE if "write" in (chosen[statement] for statement in block) else _OUTPUT
        script.replace(above.test, condition, "WS904", reason)
        return
    run: list[ast.stmt] = []
    for statement in [*block, None]:
        joins = statement in chosen and statement not in apart
        if run and not joins:
            why = FILE if any(chosen[statement] == "write" for statement in run) else _OUTPUT
            script.guard(run, test, "WS904", why)
            run = []
        if statement is not None and statement in chosen:
            run.append(statement)


def _spare_shared_lines(script: Script, block: list[ast.stmt], chosen: dict[ast.stmt, str]) -> None:
    """Let every process print what shares its line with more than the condition around it."""
    if _takes_test(script, block, chosen):
        return
    for statement in block:
        if chosen.get(statement) == "print" and not script.has_own_line(statement):
            del chosen[statement]


def _takes_test(script: Script, block: list[ast.stmt], chosen: Collection[ast.stmt]) -> bool:
    """Whether all of a block is chosen, and the condition around it can be extended."""
    above = script.module.parents[block[0]]
    if not isinstance(above, ast.If) or not all(statement in chosen for statement in block):
        return False
    alone = block is above.body and not above.orelse and above not in script.module.tree.body
    return alone and _is_pure(above.test) and not list_computed(script, above.test)


def _is_pure(test: ast.expr) -> bool:
    return all(
        isinstance(node.func, ast.Name) and node.func.id in _PURE
        for node in ast.walk(test)
        if isinstance(node, ast.Call)
    ) and not any(isinstance(node, ast.NamedExpr) for node in ast.walk(test))


def _hold_writers(script: Script, header: Header) -> set[ast.Call]:
    """Make trackers on the first process only; the calls that make them."""
    writers: set[ast.Call] = set()
    test = header.names.is_first
    muted = script.module.memo[_mute_wandb] = _mute_wandb(script, test)
    for call in script.module.called(*_WRITERS):
        if call in muted:
            continue
        above = script.module.parents.get(call)
        if isinstance(above, ast.Assign) and len(above.targets) == 1:
            writers.add(call)
            script.insert_behind(call, f" if {test} else None", "WS904", _OUTPUT)
        elif isinstance(above, ast.withitem) and above.optional_vars is not None:
            writers.add(call)
            header.imports["import contextlib"] = None
            script.insert_behind(call, f" if {test} else contextlib.nullcontext()", "WS904", _OUTPUT)
    return writers


def _mute_wandb(script: Script, test: str) -> list[ast.Call]:
    """Start runs that record nothing on the other processes, where the script reads from its run."""
    calls = script.module.called("wandb.init")
    held = {"wandb"}
    for call in calls:
        above = script.module.parents.get(call)
        target = above.targets[0] if isinstance(above, ast.Assign) else getattr(above, "optional_vars", None)
        held |= {script.written(target)} if target is not None else set()
    reads = [
        node
        for node in script.nodes(ast.Attribute)
        if node.attr in ("config", "dir", "use_artifact") and script.written(node.value) in held
    ]
    opened = any(isinstance(script.module.parents.get(call), ast.withitem) for call in calls)
    if not reads and not opened:
        return []
    for call in calls:
        if keyword_argument(call, "mode") is None and script.module.name_of(call.func) == "wandb.init":
            script.set_keyword(call, "mode", f'None if {test} else "disabled"', "WS904", _OUTPUT)
    return calls


def _quieten_logging(script: Script, test: str) -> bool:
    """Raise the level of logging on the other processes, where the script sets one."""
    for call in script.module.called("logging.basicConfig"):
        level = keyword_argument(call, "level")
        if level is not None:
            text = f"{script.written(level)} if {test} else logging.WARNING"
            script.replace(level, text, "WS904", _OUTPUT)
            if "logging" in script.module.names:
                return True
    return False


def _disable_bars(script: Script, header: Header) -> None:
    for name, call in script.module.calls:
        if name.rpartition(".")[2] not in ("tqdm", "trange") or keyword_argument(call, "disable") is not None:
            continue
        script.set_keyword(call, "disable", f"{header.names.rank} != 0", "WS904", _OUTPUT)


Together: TypeAlias = Collection[str]  # functions, or methods of a model
_TRAINING = ("tensorflow", "keras", "tf_keras", "lightning", "pytorch_lightning", "transformers", "trl")
_RESULTS = {
    "evaluate": "metrics",
    "validate": "metrics",
    "test": "metrics",
    "predict": "predictions",
    "compute": "result",
}
_TOGETHER = "all processes compute it, and the first one shows it"
_COMPUTED = ("callback_metrics", "logged_metrics", "progress_bar_metrics")
_UNSURE = (ast.Lambda, ast.BoolOp, ast.IfExp, ast.ListComp, ast.GeneratorExp, ast.DictComp)


def is_together(script: Script, statement: ast.AST, together: Together) -> bool:
    """Whether a statement calls what all processes have to call: `model.save(…)`, and not `np.save(…)`."""
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(_joins(script, call, together) for call in calls) or bool(list_computed(script, statement))


def list_computed(script: Script, node: ast.AST) -> list[ast.Attribute]:
    """Where a hook of Lightning reads the metrics of the trainer: all processes compute them then."""
    return [
        inner
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute)
        and inner.attr in _COMPUTED
        and isinstance(script.module.parents.get(script.scope(inner)), ast.ClassDef)
    ]


def _joins(script: Script, call: ast.Call, together: Together) -> bool:
    """Whether all processes have to make a call."""
    func = call.func
    last = last_name(call)
    if last == "compute" and isinstance(func, ast.Attribute):  # of torchmetrics, over all processes
        return any(name.partition(".")[0] == "torchmetrics" for name, _, _ in script.module.imports)
    return last in together and not _saves_alone(script, call)


def take_out(script: Script, statement: ast.stmt, together: Together) -> bool:
    """Compute above a statement what all processes have to: the first one prints or writes the result."""
    call = getattr(statement, "value", None)
    if not script.has_own_line(statement):
        return False
    if computed := list_computed(script, statement):
        return _compute_above(script, statement, computed)
    if not isinstance(call, ast.Call):
        return False
    all_ = [one for one in ast.walk(call) if isinstance(one, ast.Call) and _joins(script, one, together)]
    outer = [one for one in all_ if not any(up in all_ for up, _ in script.module.ancestors(one))]
    sure = {one for part in (*call.args, *(word.value for word in call.keywords)) for one in _walk_sure(part)}
    # The place of what is filled into a text is not always known.
    texts = [node for node in ast.walk(call) if isinstance(node, ast.JoinedStr)]
    filled = [one for one in outer if any(script.is_under(one, text) for text in texts)]
    is_as_written = all(script.written(one) == ast.unparse(one) for one in filled)
    if call in outer or not is_as_written or not sure.issuperset(outer):
        return False
    for node in outer:
        called = script.written(node.func).rpartition(".")[2]
        name = script.new_name(_RESULTS.get(called, f"{called}_result"))
        script.move_before(node, statement, name, _TOGETHER)
    return True


def _compute_above(script: Script, statement: ast.stmt, computed: list[ast.Attribute]) -> bool:
    """Read the metrics of the trainer once, by a name."""
    texts = {ast.unparse(node) for node in computed}
    if len(texts) > 1 or any(script.written(node) not in texts for node in computed):
        return False
    name = script.new_name("metrics")
    script.insert_before(statement, [f"{name} = {texts.pop()}"], None, _TOGETHER)
    for metric in computed:
        script.replace(metric, name, None, _TOGETHER)
    return True


def _walk_sure(part: ast.expr) -> Iterator[ast.Call]:
    """The calls in an expression that it makes once, and in any case."""
    if isinstance(part, _UNSURE):
        return
    if isinstance(part, ast.Call):
        yield part
    for child in ast.iter_child_nodes(part):
        if isinstance(child, ast.keyword):
            yield from _walk_sure(child.value)
        elif isinstance(child, ast.expr):
            yield from _walk_sure(child)


def _saves_alone(script: Script, call: ast.Call) -> bool:
    """Whether a function of a module saves something other than a model of the library that trains."""
    top, _, last = script.module.name_of(call.func).partition(".")
    saves = last.rpartition(".")[2] in ("save", "save_model")
    return saves and top not in _TRAINING and _is_imported(script, call)


_MLFLOW_OUTPUT = "the first process logs for all"
_JOB = "a job has a run already, in an experiment of its own"
_ALONE = '"MLFLOW_RUN_ID" not in os.environ'


def start_run_once(script: Script, header: Header) -> None:
    """Start a run of MLflow on the first process only: there would be one for each."""
    test = header.names.is_first
    for call in script.module.called("mlflow.start_run"):
        above = script.module.parents.get(call)
        target = above.targets[0] if isinstance(above, ast.Assign) else getattr(above, "optional_vars", None)
        if not isinstance(above, ast.withitem | ast.Assign):
            continue
        if target is not None and _reads_part(script, script.written(target)):
            help_ = f"start it only where `{test}`, and let the others do without it"
            script.leave(call, "every process starts a run of MLflow here", help_)
            continue
        other = "None"
        if isinstance(above, ast.withitem):
            header.imports["import contextlib"] = None
            other = "contextlib.nullcontext()"
        script.insert_behind(call, f" if {test} else {other}", "WS904", _MLFLOW_OUTPUT)


def _reads_part(script: Script, name: str) -> bool:
    """Whether a part of what has a name is kept, or given to what every process calls."""
    return any(
        script.written(node.value) == name and not isinstance(script.statement(node), ast.Expr)
        for node in script.nodes(ast.Attribute)
    )


def keep_run_of_job(script: Script, header: Header) -> None:
    """Leave the experiment and the server that a job has: its run is not found in others."""
    for call in script.module.called("mlflow.set_experiment", "mlflow.set_tracking_uri"):
        statement = script.module.parents.get(call)
        if isinstance(statement, ast.Expr) and script.has_own_line(statement):
            header.imports["import os"] = None
            makes = script.module.name_of(call.func).endswith("set_experiment")
            test = f"{header.names.is_first} and {_ALONE}" if makes else _ALONE
            script.enclose([statement], f"if {test}:", "WS904" if makes else None, _JOB)
