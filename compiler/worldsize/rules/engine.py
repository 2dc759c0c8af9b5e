"""Runs rules over what was read, and gives problems their code, severity and confidence."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, islice
from typing import Any

from worldsize.azureml.fields import read_command
from worldsize.azureml.model import Binding, Component
from worldsize.azureml.tree import Tree
from worldsize.base import limits
from worldsize.base.problem import Finding, Problem
from worldsize.base.span import Span
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.rules import registry
from worldsize.rules.registry import Check, Rule

Subjects = Mapping[str, Sequence[tuple[Any, Span]]]
"""What is checked, by type name; the span is where a crash of a rule on it is reported."""
_Group = tuple[str, list[tuple[Any, Span]]]  # a file, and what of it is checked
_Work = tuple[Rule, Check, list[tuple[Any, Span]]]  # one check of what a file holds

_BETWEEN_LOOKS = 16  # subjects of one rule between two looks at the clock
_LONGEST_HELP = 600  # characters; an example of what to write may take some lines


def run(context: Tree, subjects: Subjects) -> Iterator[Problem]:
    """The problems of every rule that has a check for one of the subjects."""
    groups = {name: _group_by_file(fed) for name, fed in subjects.items()}
    work: dict[tuple[str, Check], Rule] = {}  # one that judges for several rules is that of the first
    is_met = cache(lambda name: CONDITIONS[name](context, subjects))
    for rule in registry.list_rules_on(frozenset(groups)):
        if rule.when is not None and not is_met(rule.when):
            continue
        for name in rule.on:
            if name in registry.PARTS and name not in groups:
                groups[name], problems = _list_parts(context, groups, registry.PARTS[name])
                yield from problems
        if any(groups.get(name) for name in rule.on):  # else its file need not be imported
            for check in registry.load_checks(rule):
                work.setdefault(check, rule)
    for path, checks in _sort_by_file(work, groups).items():
        if path not in context.budgets.exhausted:
            yield from _check_in_budget(context, path, checks)


def _sort_by_file(
    work: Mapping[tuple[str, Check], Rule], groups: Mapping[str, Sequence[_Group]]
) -> dict[str, list[_Work]]:
    by_file: dict[str, list[_Work]] = {}
    for (name, check), rule in work.items():
        for path, group in groups.get(name, ()):
            by_file.setdefault(path, []).append((rule, check, group))
    return by_file


def _list_parts(
    context: Tree, groups: Mapping[str, Sequence[_Group]], part: registry.Part
) -> tuple[list[_Group], list[Problem]]:
    """The parts in the subjects, by file, and the problems of finding them."""
    find_parts = registry.load_part(part)
    parts: list[_Group] = []
    problems: list[Problem] = []
    for path, group in (pair for fed in part.found_in for pair in groups.get(fed, ())):
        if path in context.budgets.exhausted:
            continue
        try:
            with context.budgets.charge(path):
                for subject, span in group:
                    limits.check_time()
                    try:
                        pieces = [(piece, span) for piece in find_parts(context, subject)]
                    except limits.OverBudgetError:
                        raise
                    except Exception as error:
                        problems.append(crash(f"reading for {part.function}", span, error))
                    else:
                        parts += [(path, pieces)] if pieces else []
        except limits.OverBudgetError:
            problems.append(context.budgets.give_up(path))
    return parts, problems


def _group_by_file(fed: Sequence[tuple[Any, Span]]) -> list[_Group]:
    """Subjects in their order, cut where the file changes."""
    return [(path, list(group)) for path, group in groupby(fed, lambda pair: pair[1].path)]


def _check_in_budget(context: Tree, path: str, checks: Sequence[_Work]) -> list[Problem]:
    """All checks on what one file holds, charged to the file.

    A crash becomes a problem, so that the other subjects and rules are still checked.
    """
    problems: list[Problem] = []
    try:
        with context.budgets.charge(path):
            for rule, check, group in checks:
                for number, (subject, span) in enumerate(group):
                    if number % _BETWEEN_LOOKS == 0:
                        limits.check_time()
                    try:
                        for problem in islice(check(context, subject), limits.FOUND):
                            problems.append(
                                problem.under(rule.slug) if isinstance(problem, Finding) else problem
                            )
                            limits.check_time()
                    except limits.OverBudgetError:
                        raise
                    except Exception as error:
                        problems.append(crash(f"rule `{rule.code} {rule.slug}`", span, error))
    except limits.OverBudgetError:
        problems.append(context.budgets.give_up(path))
    return problems


def crash(what: str, span: Span, error: BaseException) -> Problem:
    """The problem for a fault of this program; ``WORLDSIZE_TRACEBACK`` also prints its traceback."""
    if os.environ.get("WORLDSIZE_TRACEBACK"):
        import traceback  # only who asks for it pays for it

        traceback.print_exception(error)
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    message = f"{what} failed, which is a fault of worldsize: {reason}"
    help_ = "report it with the file and what WORLDSIZE_TRACEBACK=1 shows; the other rules were run"
    return Problem("internal-error", span, _bounded(message), help_)


def _bounded(text: str, width: int = 200) -> str:
    """A message in one line of bounded length, however long its quotations are."""
    flat = text if text.isprintable() else " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def diagnose(problems: Iterable[Problem]) -> Iterator[Diagnostic]:
    """Problems with the code, severity and confidence of their rule."""
    for problem in problems:
        rule = registry.find(problem.slug)
        if rule is None:
            error = LookupError(f"no rule declares `{problem.slug}` ({problem.message})")
            problem = crash("the catalogue", problem.span, error)  # noqa: PLW2901 - it takes the place of the first
            rule = registry.find(problem.slug)
            assert rule is not None
        yield Diagnostic(
            rule.code,
            rule.slug,
            rule.severity,
            _bounded(problem.message),
            problem.span,
            problem.help if problem.help is None else _bounded(problem.help, _LONGEST_HELP),
            problem.related,
            problem.fix,
            rule.docs,
            problem.confidence or rule.confidence,
        )


_STARTS_PYTHON = re.compile(r"python|torchrun|deepspeed|accelerate|horovodrun|mpirun|mpiexec|\.sh\b")
_NAMES_DEEPSPEED = re.compile(r"deepspeed|ds_config")


def _has_bound_input(_context: Tree, subjects: Subjects) -> bool:
    """Whether a step has an input that was bound by hand; what is wired by name cannot be wrong."""
    return any(
        isinstance(field.value, Binding) and field.span is not None
        for job, _ in subjects.get("Job", ())
        for step in job.steps.values()
        for field in step.inputs.values()
    )


def _has_bound_output(_context: Tree, subjects: Subjects) -> bool:
    """Whether a pipeline has outputs, or a step an output that is bound to one of the pipeline."""
    return any(
        job.interface is not None
        or job.outputs
        or any(
            field.value.binding is not None for step in job.steps.values() for field in step.outputs.values()
        )
        for job, _ in subjects.get("Job", ())
    )


def _has_script(context: Tree, subjects: Subjects) -> bool:
    """Whether a command, not of a built-in component, may start a Python script."""
    used = (step.component for job, _ in subjects.get("Job", ()) for step in job.steps.values())
    if any(_starts_python(component) and not context.is_built_in(component) for component in used):
        return True
    return any(_starts_python(component) for component, _ in subjects.get("Component", ()))


def _has_deepspeed(context: Tree, subjects: Subjects) -> bool:
    """Whether a step may name a configuration of DeepSpeed, in its command or script or as an input."""
    jobs = [job for job, _ in subjects.get("Job", ())]
    if any(
        "ds_config" in step.inputs or _NAMES_DEEPSPEED.search(read_command(step.component))
        for job in jobs
        for step in job.steps.values()
    ):
        return True
    if not _has_script(context, subjects):
        return False
    from worldsize.scripts.program import find_programs  # parses Python, once for all rules

    return any(program.says("deepspeed") for job in jobs for program in find_programs(context, job))


def _starts_python(component: Component | None) -> bool:
    return _STARTS_PYTHON.search(read_command(component)) is not None


def _has_entry(_context: Tree, subjects: Subjects) -> bool:
    """Whether a parallel task or a deployment may call the functions of a script."""
    kinds = ("parallel", "deployment")
    return any(component.type.lower() in kinds for component, _ in subjects.get("Component", ()))


# Conditions without which some rules have nothing to check; their modules are then not imported.
CONDITIONS: dict[str, Callable[[Tree, Subjects], bool]] = {
    "bound-input": _has_bound_input,
    "bound-output": _has_bound_output,
    "script": _has_script,
    "entry": _has_entry,
    "deepspeed": _has_deepspeed,
}
