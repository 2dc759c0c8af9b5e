"""Load what the first process has written, onto the device of each process."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from worldsize.adopting.distributing.written_files import opens_to_write, read_opened
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.facts.library_calls import find_call
from worldsize.scripts.module import keyword_argument, list_packages

_WAITS = "the other processes wait until the first has written the file"
_TESTS = re.compile(r"\b(?:exists|isfile|isdir|is_file|is_dir|listdir)\b")


def _gives_model(script: Script, call: ast.Call) -> bool:
    """Whether a call loads a whole model, which is used where it lies: ``model = torch.load(path)``."""
    above = script.module.parents.get(call)
    if not isinstance(above, ast.Assign) or not isinstance(above.targets[0], ast.Name):
        return False
    name, scope = above.targets[0].id, script.scope(above)
    used = {
        node.func.attr if isinstance(node.func, ast.Attribute) else "()"
        for node in script.nodes(ast.Call)
        if node.lineno > above.lineno and script.scope(node) is scope and _find_used(node) == name
    }
    trains = any(_find_used(call) == name for call in script.module.called("parameters"))
    return (trains or bool(used & {"()", "eval"})) and not used & {"to", "cuda", "items", "keys", "get"}


def _find_used(call: ast.Call) -> str | None:
    """The name that is called, or whose method is."""
    return getattr(call.func.value if isinstance(call.func, ast.Attribute) else call.func, "id", None)


def load_everywhere(script: Script, header: Header | None = None) -> None:
    """Load onto the CPU, and only what the first process has finished writing.

    ``header`` is given where a library has the loop, and joins the group itself.
    """
    saves = [call.lineno for call in script.module.called("torch.save")]
    for call in script.module.called("torch.load"):
        if keyword_argument(call, "map_location") is None and len(call.args) == 1:
            reason = "every process would load the weights onto the GPU that they were saved from"
            place = (
                '"cuda" if torch.cuda.is_available() else "cpu"' if _gives_model(script, call) else '"cpu"'
            )
            script.set_keyword(call, "map_location", place, "WS908", reason)
        if header is None and saves and min(saves) < call.lineno:
            statement = script.statement(call)
            if script.is_guarded(statement):
                continue
            script.insert_before(above_tests(script, statement), ["dist.barrier()"], None, _WAITS)
    if header is None:
        _wait_for_files(script)
    else:
        _wait_for_first(script, header)


def _wait_for_first(script: Script, header: Header) -> None:
    """Wait for a file of the first process, by what the library has for it; else say that nobody waits."""
    tops = list_packages(script.module)
    written: dict[tuple[str, ast.AST], ast.Call] = {}
    for name, call in script.module.calls:
        effect = find_call(name, "writes")
        position = effect.argument if effect is not None else None
        if position is not None and len(call.args) > position and script.is_guarded(script.statement(call)):
            written.setdefault((script.written(call.args[position]), script.scope(call)), call)
    waits: set[ast.stmt] = set()
    for _, call in script.module.calls if written else ():
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            writer = written.get((script.written(argument), script.scope(call)))
            statement = script.statement(call)
            if writer is None or writer.lineno >= call.lineno or script.is_guarded(statement):
                continue
            if script.has_own_line(statement) and (lines := _choose_wait(script, header, call, tops)):
                if statement not in waits:
                    script.insert_before(above_tests(script, statement), lines, None, _WAITS)
                waits.add(statement)
                continue
            message = "every process reads this file, perhaps before the first has written it"
            script.leave(argument, message, "write it before the job, or let each process write its own")


def _choose_wait(script: Script, header: Header, call: ast.Call, tops: Collection[str]) -> list[str]:
    """The lines that wait at a call; none where the processes do not know each other yet."""
    if not {"accelerate", "transformers", "trl"}.isdisjoint(tops):
        header.imports |= {"from accelerate import PartialState": None, "import torch": None}
        return ["PartialState(cpu=not torch.cuda.is_available()).wait_for_everyone()"]
    return ["if dist.is_initialized():", "    dist.barrier()"] if _has_joined(script, call) else []


def _has_joined(script: Script, call: ast.Call) -> bool:
    """Whether a library has trained before a call, so that its processes know each other."""
    return any(
        script.scope(training_call) is script.scope(call) and training_call.lineno < call.lineno
        for training_call in script.module.called("fit", "train")  # and not `tokenizer.train(…)`
        if script.called_name(script.owner(training_call)).endswith("Trainer")
    )


def _wait_for_files(script: Script) -> None:
    """Wait before a file is read that the first process has written in the same function."""
    written: dict[tuple[str, ast.AST], int] = {}
    for name, call in script.module.calls:
        last = name.rpartition(".")[2]
        path = read_opened(call).path if opens_to_write(call) else None
        if last in ("to_csv", "savetxt", "to_json") and call.args:
            path = call.args[0]
        if path is not None:
            written.setdefault((script.written(path), script.scope(call)), call.lineno)
    for name, call in script.module.calls if written else ():
        last = name.rpartition(".")[2]
        path = None if opens_to_write(call) else read_opened(call).path
        if last in ("read_csv", "read_json", "loadtxt") and call.args:
            path = call.args[0]
        first = written.get((script.written(path), script.scope(call))) if path is not None else None
        statement = script.statement(call)
        if first is not None and first < call.lineno and not script.is_guarded(statement):
            script.insert_before(above_tests(script, statement), ["dist.barrier()"], None, _WAITS)


def above_tests(script: Script, statement: ast.stmt) -> ast.stmt:
    """The statement, or the condition around it that asks for a file: processes may differ in it."""
    for above, child in script.module.ancestors(statement):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            break
        if isinstance(above, ast.If) and child is not above.test and _TESTS.search(ast.unparse(above.test)):
            statement = above
    while script.written(statement).startswith("elif"):
        above = script.module.parents[statement]
        assert isinstance(above, ast.stmt)
        statement = above
    return statement
