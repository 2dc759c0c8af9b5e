"""The strategies of TensorFlow: when they are created, and what is built in their scope."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.azureml import environment
from worldsize.azureml.references import folder_of
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Related
from worldsize.facts.library_calls import list_last_names
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.loops import find_block
from worldsize.scripts.module import Module, find_mentions, name_variable
from worldsize.scripts.program import Program

_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_STARTS = re.compile(
    r"^tensorflow\.(?:constant|Variable|zeros|ones|range|cast|reshape|convert_to_tensor|stack|concat|eye|fill)$"
    r"|^tensorflow\.random\.(?:normal|uniform|shuffle)$|\.data\.Dataset\.|\.(?:Sequential|list_logical_devices)$"
    r"|\.layers\.|\.keras\.Model$"
)


def check_strategy_after_other_calls(context: Tree, program: Program) -> Iterator[Finding]:
    for module in program.modules:
        early_call = module.once(_too_late)
        if early_call is not None:
            call, early = early_call
            name = module.name_of(early.func).replace("tensorflow.", "tf.")
            message = f"`{name}` starts TensorFlow before `MultiWorkerMirroredStrategy` is created"
            line = module.span(call).line
            help_ = f"move the strategy of line {line} before it"
            yield Finding(module.span(early), message, help_, related=program.related)
            return


def _too_late(module: Module) -> tuple[ast.Call, ast.Call] | None:
    """The first strategy that is made behind a call that starts TensorFlow, and that call."""
    strategies = module.called("MultiWorkerMirroredStrategy")
    starting = {call for name, call in module.calls if _starts(name)} if strategies else set()
    holding = module.around(starting)
    # By a block's owner and statement, the first call before it.
    early: dict[ast.AST, dict[ast.AST, ast.stmt]] = {}
    for strategy in strategies if starting else ():
        for above, child in module.ancestors(strategy):
            if above not in early:
                early[above] = dict(_behind(above, holding))
            if child in early[above]:
                first = early[above][child]
                return strategy, next(node for node in ast.walk(first) if node in starting)
    return None


def _behind(above: ast.AST, holding: set[ast.AST]) -> Iterator[tuple[ast.AST, ast.stmt]]:
    """The statements of a block behind the first that starts TensorFlow, each with that one."""
    body = getattr(above, "body", None)
    first: ast.stmt | None = None
    for statement in body if isinstance(body, list) else ():
        if first is not None:
            yield statement, first
        elif statement in holding and not isinstance(statement, _DEFINES):
            first = statement


def _starts(name: str) -> bool:
    return name.startswith(("tensorflow.", "keras.")) and _STARTS.search(name) is not None


_VERSION = re.compile(r"tensorflow(?:-gpu|-cpu)?(?:\[[\w,-]{0,80}\])?\s*([-=<>~!]=?)\s*(\d+)\.(\d+)")


def check_keras_fit_multi_worker(context: Tree, program: Program) -> Iterator[Finding]:
    if program.processes < 2 or program.says("TF_USE_LEGACY_KERAS", "tf_keras"):
        return
    if _is_older(context, program) or not program.called("MultiWorkerMirroredStrategy"):
        return
    if any(variable.name == "TF_USE_LEGACY_KERAS" for variable in program.launch.list_variables()):
        return
    for module, call in program.called("fit"):
        if not isinstance(call.func, ast.Attribute):
            continue
        message = "`fit` under `MultiWorkerMirroredStrategy` fails from TensorFlow 2.16 (Keras 3) on"
        help_ = 'set `TF_USE_LEGACY_KERAS: "1"` and install `tf_keras`, or stay below TensorFlow 2.16'
        yield Finding(module.span(call), message, help_, related=program.related)
        return


def _is_older(context: Tree, program: Program) -> bool:
    """Whether the environment names a TensorFlow before 2.16."""
    component = program.launch.step.component
    field = component.environment if component is not None else None
    if field is None or field.node is None:
        return False
    texts = [str(field.value)]
    for reference in environment.list_references(field, folder_of(field.node)):
        source = context.text(reference.path)
        texts += [source.text] if source is not None else []
    for text in texts:
        for bound, major, minor in _VERSION.findall(text):
            version = (int(major), int(minor))
            if version < (2, 16) or (bound.startswith("<") and version == (2, 16)):
                return True
    return False


_HANDS_OVER = (
    "run", "scope", "experimental_set_strategy", "RunConfig", "Estimator", "ModelToEstimator",
    "ClusterCoordinator",
)  # fmt: skip


def check_model_outside_scope(context: Tree, program: Program) -> Iterator[Finding]:
    if not program.complete or not program.imports("tensorflow", "keras"):
        return
    runs = read_reached(program).runs
    if not program.refers(*_HANDS_OVER) and program.refers("fit", "compile"):
        for module, call in program.called(*list_last_names("has_scope")):
            if runs(module, call):
                message = "nothing enters `scope()` of this strategy: the model is trained on one device"
                help_ = "build and compile the model under `with strategy.scope():`"
                yield Finding(module.span(call), message, help_, related=program.related)
                return
    for module in program.modules:
        yield from _judge_mixed(program, module)


def _judge_mixed(program: Program, module: Module) -> Iterator[Finding]:
    """A model that is compiled in the scope but was built before it."""
    scopes = [
        block
        for block in module.kinds.get(ast.With, ())
        for item in block.items
        if isinstance(item.context_expr, ast.Call)
        and module.name_of(item.context_expr.func).endswith(".scope")
        and any("strategy" in word.lower() for word in find_mentions(item.context_expr))
    ]
    inside = {id(node) for block in scopes for node in ast.walk(block)}
    for _, call in module.callers.get("compile", ()) if scopes else ():
        if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
            continue
        name, scope = call.func.value.id, find_block(module, call)
        built = [
            node
            for node in module.kinds.get(ast.Assign, ())
            if find_block(module, node) is scope
            and name in [name_variable(target) for target in node.targets]
        ]
        arguments = {arg.arg for arg in module.kinds.get(ast.arg, ())}
        if (
            len(built) != 1
            or name in arguments
            or not isinstance(built[0].value, ast.Call)
            or id(built[0]) in inside
        ):
            continue
        makes = module.name_of(built[0].value.func)
        if id(call) in inside and ("keras" in makes or makes.rpartition(".")[2] in _functions(module)):
            message = f"`{name}` is built outside of `strategy.scope()`, but compiled in it: `compile` stops"
            related = (Related(module.span(call), "compiled here"), *program.related)
            help_ = "move this line into `with strategy.scope():`"
            yield Finding(module.span(built[0]), message, help_, related=related)


def _functions(module: Module) -> set[str]:
    """The functions of the file that enter no scope themselves."""
    entering = module.around(call for _, call in module.callers.get("scope", ()))
    return {node.name for node in module.kinds.get(ast.FunctionDef, ()) if node not in entering}
