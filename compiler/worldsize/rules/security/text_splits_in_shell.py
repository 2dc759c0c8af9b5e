"""The command uses a value with spaces or shell characters outside quotes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from worldsize.azureml.model import Component, Job, Step
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Finding, Related
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context
from worldsize.rules.security import _shell

_SIGN = compile_later(r"[;&|<>*?()'\"\[\n]|[^\S\n]+")
_CONTROL = compile_later(r"[;&|<>\n]")  # ends the command, or sends what it prints elsewhere
_OPTIONS = compile_later(r"--?[A-Za-z]")  # `--lr 0.1 --epochs 3` is meant to be split


_NUMBERS = compile_later(r"[-+.,\deE\s]+")  # `28 35` is a list
_FLAG = compile_later(r"(--?[A-Za-z][\w-]{0,80})[ \t]{0,9}$")


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    yield from _judge(context, ((step, use) for use in _shell.find_shell_uses(step)))


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    yield from _judge(context, _shell.find_bound_uses(job))


def _judge(context: Context, uses: Iterable[tuple[Step, _shell.ShellUse]]) -> Iterator[Finding]:
    for step, use in uses:
        sign = _sign(use)
        if use.quote or sign is None or "`" in use.value or "$(" in use.value:
            continue
        if not (sign.strip() or "\n" in sign) and _is_list(context, step.component, use):
            continue
        command = step.component.command if step.component else None
        what = f"`{sign}`" if sign.strip() else "a line break" if sign == "\n" else "a blank"
        message = f"`{use.name}` contains {what}, and the command uses it without quotation marks"
        help_ = f'write `"{use.expression}"` in the command'
        related: tuple[Related, ...] = ()
        if command is not None and isinstance(command.node, Scalar) and command.node.text == command.value:
            place = command.node.subspan(use.expression.start, use.expression.end)
            related = (Related(place, "pasted in here as it is"),)
        assert use.argument.span is not None
        yield Finding(use.argument.span, message, help_, related=related)


def _sign(use: _shell.ShellUse) -> str | None:
    """The first sign by which the shell makes something else of the text than was meant."""
    text = use.value.strip()
    if _OPTIONS.match(text):
        match = _CONTROL.search(text)
    elif use.echoed:  # it prints its words with blanks between them again
        match = next((sign for sign in _SIGN.finditer(text) if sign[0].strip() or sign[0] == "\n"), None)
    else:
        match = _SIGN.search(text)
    return None if match is None else match[0]


def _is_list(context: Context, component: Component | None, use: _shell.ShellUse) -> bool:
    """Whether the blanks are meant to split the text: between numbers, or as ``nargs="+"`` declares."""
    if _NUMBERS.fullmatch(use.value):
        return True
    command = component.command.value if component is not None and component.command is not None else None
    flag = _FLAG.search(str(command), 0, use.expression.start)
    if component is None or flag is None:
        return False
    from worldsize.scripts.interface.read import read_interface  # parse Python, which few such texts need
    from worldsize.scripts.program import find_programs, make_job

    for program in find_programs(context, context.once(make_job, component)):
        interface = read_interface(program)
        options = interface.options if interface is not None else []
        if any(flag[1] in option.flags and option.most != 1 for option in options):
            return True
    return False
