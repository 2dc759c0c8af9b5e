"""Which rules there are, found without importing them.

How to add a rule
-----------------
1. Take the next free code of the family (``WS2xx`` topology …) and a slug that names the fault:
   ``processes-exceed-gpus``.
2. Write ``rules/<family>/<slug_with_underscores>.py``. Its docstring is the rule's page, with the
   parts below in this order; the ``Bad`` example is cut out of the test's ``bad.yml``::

       \"\"\"A step starts more processes than its VM size has GPUs.

       What is wrong, in a sentence or two.

       Why: what it costs the user.

       Bad::

           process_count_per_instance: 16

       Good::

           process_count_per_instance: 4

       Fix: what to write.

       Source: the document that says so.
       \"\"\"

       RULE = Rule("WS203", "processes-exceed-gpus", "error", since="0.1.0", summary="too many processes")

       @RULE.checks(Step)
       def check(context: Context, step: Step) -> Iterator[Problem]:
           if ...:
               yield RULE.problem(span, "`process_count_per_instance` is 16 but …", "write `4`")

   A slug that a lower layer (yaml, spec, azureml, plan, emit) reports has no check here.
3. Add its line to ``RULES`` in ``rules/<family>/__init__.py``: ``Entry("WS203", "processes-exceed-gpus",
   on=("Step",))``. ``on`` names the types that its checks are registered for.
4. Make ``tests/rules/WS203-processes-exceed-gpus/`` with ``bad*.yml`` and ``good*.yml`` (or folders
   of these names, for faults that need several files), run ``pytest tests/rules --update-golden``
   and read the ``bad*.out`` it writes as a user would. Bad files must raise the code, good files must
   be silent under all rules.
5. Regenerate the pages: ``worldsize explain --write compiler/docs/rules``.

A check may look at: :class:`worldsize.yaml.Document` (any recognised file),
:class:`worldsize.spec.model.Spec`, :class:`worldsize.spec.model.Schedule`,
:class:`worldsize.azureml.model.Job`, its ``Step`` and ``Component`` (each component file once), and any
further type that ``worldsize.checking`` feeds to the engine. Everything else it needs (other files, VM sizes,
what is known of a named cluster) comes from the :class:`~worldsize.rules.context.Context`. It never opens
a file itself, so that each file is read once and none outside the tree.
"""

from __future__ import annotations

import importlib
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache

from worldsize.rules.rule import Entry, Rule

# The first ten by the digit of their codes; schedules share the graph's, as WS68x.
FAMILIES = (
    "yaml",
    "spec",
    "topology",
    "batch",
    "learning_rate",
    "data",
    "graph",
    "resilience",
    "security",
    "script",
    "schedule",
)


@cache
def _by_name() -> dict[str, tuple[str, Entry]]:
    """Family and entry by code and by slug."""
    named: dict[str, tuple[str, Entry]] = {}
    for family in FAMILIES:
        for entry in importlib.import_module(f"worldsize.rules.{family}").RULES:
            named[entry.code] = named[entry.slug] = (family, entry)
    return named


@cache
def entries() -> tuple[Entry, ...]:
    """All rules, by code."""
    return tuple(sorted({entry for _, entry in _by_name().values()}))


def begins_code(text: str) -> bool:
    """Whether the code of a rule begins with the text."""
    at = bisect_left(entries(), text, key=lambda entry: entry.code)
    return at < len(entries()) and entries()[at].code.startswith(text)


def families() -> Iterator[tuple[str, list[Entry]]]:
    """Each family's title, which is the first line of its docstring, and its rules by code."""
    for family in FAMILIES:
        module = importlib.import_module(f"worldsize.rules.{family}")
        yield (module.__doc__ or family).splitlines()[0].rstrip("."), sorted(module.RULES)


def find(name: str) -> Entry | None:
    """The entry of a code (case aside) or slug."""
    named = _by_name()
    found = named.get(name) or named.get(name.upper()) or named.get(name.lower())
    return None if found is None else found[1]


@cache
def names() -> tuple[str, ...]:
    """Every code and slug."""
    return tuple(sorted(_by_name()))


def module_name(entry: Entry) -> str:
    """The import path of a rule's file."""
    family, _ = _by_name()[entry.code]
    return f"worldsize.rules.{family}.{entry.slug.replace('-', '_')}"


@cache
def load(entry: Entry) -> Rule:
    """Import a rule's file and return its declaration."""
    rule: Rule = importlib.import_module(module_name(entry)).RULE
    return rule


def page(entry: Entry) -> str:
    """The page of a rule: its module's docstring."""
    return (importlib.import_module(module_name(entry)).__doc__ or "").strip()
