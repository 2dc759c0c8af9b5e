"""Resume a loop of Accelerate: `save_state` has all that is prepared, and knows the processes."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from worldsize.adopting.distributing.kept_numbers import list_kept, list_lost
from worldsize.adopting.distributing.resuming import find_range, insert_before_loop, start_from
from worldsize.adopting.libraries.accelerate_sums import is_bound
from worldsize.adopting.libraries.resuming_trainers import name_folder
from worldsize.adopting.options.parsers import Parser
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer, is_under
from worldsize.adopting.training.epoch_counter import name_epoch

_SCHEDULES = re.compile(r"sched|anneal|plateau|warm", re.IGNORECASE)
_REASON = "a job that is interrupted goes on from its last epoch"


def resume_accelerate(
    script: Script,
    tracer: Tracer,
    parser: Parser,
    header: Header,
    *,
    accelerator: str,
    prepared: Collection[str],
) -> None:
    """Save the state after each epoch of the loop in `--checkpoints`, and load the last one."""
    loop = find_epoch_loop(script, tracer)
    if _loads_always(script):
        return
    if loop is None or find_range(loop) is None or not is_bound(script, tracer, loop, accelerator):
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
    start, latest, state = (script.new_name(each) for each in ("start_epoch", "latest", "state"))
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
    script.insert_after(loop.body[-1], save, None, _REASON)


def find_epoch_loop(script: Script, tracer: Tracer) -> ast.For | None:
    """The loop over epochs around the loop in which `accelerator.backward` is called, or its function is."""
    for _, call in script.module.callers.get("backward", ()):
        loops = list(tracer.loops(call))
        scope = script.scope(call)
        if len(loops) == 1 and not isinstance(scope, ast.Module):
            calls = tracer.calls(scope)
            loops += list(tracer.loops(calls[0])) if len(calls) == 1 else []
        outer = loops[1] if len(loops) == 2 else None
        return outer if isinstance(outer, ast.For) else None
    return None


def _loads_always(script: Script) -> bool:
    """Whether the script loads a state itself without being asked, or names the folders of its states."""
    loads = script.module.called("load_state")
    asked = [any(isinstance(above, ast.If) for above, _ in script.module.ancestors(each)) for each in loads]
    return not all(asked) or "automatic_checkpoint_naming=True" in script.text


def _list_others(script: Script, loop: ast.For, prepared: Collection[str]) -> list[str]:
    """Schedules that are stepped, and not prepared: their state is not saved unless they are registered."""
    known = {
        script.written(each)
        for call in script.module.called("register_for_checkpointing")
        for each in call.args
    }
    names = {
        call.func.value.id
        for _, call in script.module.callers.get("step", ())
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
        if script.scope(call) is script.scope(loop) and _SCHEDULES.search(call.func.value.id)
    }
    made_inside = {
        each for each in names if any(is_under(script, node, loop) for node in script.module.stores(each))
    }
    return sorted(names - known - made_inside - set(prepared))
