"""What a rule is, which there are, and who checks them. CONTRIBUTING.md says how to add one.

A rule with ``on=("Job",)`` is checked by the function ``check_job(context, job)`` of its module, unless the
module has one that is named after the rule, such as ``check_input_missing(context, job)``. The types are
those that :mod:`worldsize.checking` feeds to the engine, and the parts listed in ``PARTS``. What a check
needs besides its subject (other files, VM sizes, clusters) comes from the
:class:`~worldsize.azureml.tree.Tree`; a check does not open files, so that each file is read once and
no file outside of the tree is read.
"""

from __future__ import annotations

import importlib
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base.problem import Confidence, Finding, Problem
from worldsize.documents.diagnostics.diagnostic import Severity

if TYPE_CHECKING:
    from worldsize.azureml.tree import Tree

Condition = Literal["bound-input", "bound-output", "script", "entry", "deepspeed"]
Check = Callable[["Tree", Any], Iterable[Finding | Problem]]

# The first ten by the digit of their codes; schedules share the graph's, as WS68x.
FAMILIES = (
    "yaml", "spec", "topology", "batch", "learning_rate", "data", "graph", "resilience", "security", "script",
    "schedule",
)  # fmt: skip


class Part(NamedTuple):
    """A type that is not fed to the engine but found in others, by a function of a module."""

    found_in: tuple[str, ...]
    module: str
    function: str


PARTS = {
    "Launch": Part(("Job",), "worldsize.azureml.launch", "read_launches"),
    "Program": Part(("Job", "Component"), "worldsize.scripts.program", "find_parts"),
    "Upload": Part(("Component", "Planned"), "worldsize.rules.security._uploads", "find_parts"),
}


@cache
def _by_name() -> dict[str, Rule]:
    """The rules by code and by slug."""
    by_name: dict[str, Rule] = {}
    for family in FAMILIES:
        for row in importlib.import_module(f"worldsize.rules.{family}").RULES:
            by_name[row.code] = by_name[row.slug] = replace(row, family=family)
    return by_name


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, by code."""
    by_name = _by_name()
    return tuple(by_name[name] for name in sorted(by_name) if name == by_name[name].code)


def families() -> Iterator[tuple[str, list[Rule]]]:
    """The titles of the families, the first lines of their docstrings, with the rules by code."""
    for family in FAMILIES:
        module = importlib.import_module(f"worldsize.rules.{family}")
        title = (module.__doc__ or family).splitlines()[0].rstrip(".")
        yield title, [rule for rule in rules() if rule.family == family]


def find(name: str) -> Rule | None:
    """The rule of a code (case aside) or slug."""
    by_name = _by_name()
    return by_name.get(name) or by_name.get(name.upper()) or by_name.get(name.lower())


@cache
def names() -> tuple[str, ...]:
    """Every code and slug."""
    return tuple(sorted(_by_name()))


def begins_code(text: str) -> bool:
    """Whether the code of a rule begins with the text."""
    position = bisect_left(rules(), text, key=lambda rule: rule.code)
    return position < len(rules()) and rules()[position].code.startswith(text)


@cache
def list_rules_on(fed: frozenset[str]) -> tuple[Rule, ...]:
    """The rules with a check for one of these types, or for a part that is found in one."""
    return tuple(
        rule
        for rule in rules()
        if any(
            name in fed or (name in PARTS and not fed.isdisjoint(PARTS[name].found_in)) for name in rule.on
        )
    )


def load_checks(rule: Rule) -> list[tuple[str, Check]]:
    """Import a rule's checks, each with the type that it is called with."""
    module = importlib.import_module(rule.module)  # and wait for another thread that imports it
    named = getattr(module, f"check_{rule.stem}", None)
    return [(name, named or getattr(module, function_name(name))) for name in rule.on]


def load_part(part: Part) -> Callable[[Tree, Any], Iterable[Any]]:
    """Import the function that finds a part."""
    find_parts: Callable[[Tree, Any], Iterable[Any]] = getattr(
        importlib.import_module(part.module), part.function
    )
    return find_parts


@cache
def function_name(type_name: str) -> str:
    """The function that checks a type: ``check_job_schedule`` for ``JobSchedule``."""
    return "check" + re.sub("([A-Z])", r"_\1", type_name).lower()


_REPOSITORY = "https://github.com/worldsize/worldsize/blob/main/compiler/worldsize/rules"


class Rule(Struct, frozen=True):
    """A fault that the checker knows: everything about it except its page and its checks.

    Args:
        code: ``WS203``. The third character is the digit of the family.
        slug: The name of the fault, which lower layers report it by.
        severity: ``error``, ``warning`` or ``info``.
        summary: What is wrong, in a few words, for lists.
        on: The types that the rule checks (``"Step"``). Empty where a lower layer reports the slug.
        when: What else must be there for the checks to find anything, see
            :data:`~worldsize.rules.engine.CONDITIONS`; without it their module is not imported.
        confidence: ``certain`` where the service or the client refuses the file, or its result is provably
            wrong; ``likely`` where it follows from facts that can have changed, or from what scripts usually
            do; ``possible`` where only the people who wrote it can know. A finding may lower it.
        since: The version that has the rule first.
        checked_in: The module of the family that holds the checks, where several rules share one.
            By default the checks are in the module named after the slug.
        family: The folder of the rule. The registry fills it in.
    """

    code: str
    slug: str
    severity: Severity
    summary: str
    on: tuple[str, ...] = ()
    when: Condition | None = None
    confidence: Confidence = "certain"
    since: str = "0.1.0"
    checked_in: str = ""
    family: str = ""

    @property
    def module(self) -> str:
        """The import path of the checks."""
        return f"worldsize.rules.{self.family}.{self.checked_in or self.stem}"

    @property
    def page(self) -> str:
        """The path of the page, relative to the folder of the rules."""
        return f"{self.family}/{self.stem}.md"

    @property
    def docs(self) -> str:
        """The address of the page."""
        return f"{_REPOSITORY}/{self.page}"

    @property
    def stem(self) -> str:
        """The slug as a name of Python."""
        return self.slug.replace("-", "_")
