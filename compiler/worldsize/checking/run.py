"""One pass over the files: each is recognised and goes through the stages of its kind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from worldsize import yaml
from worldsize.base.limits import OverBudgetError
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.checking import discover, signs, stages
from worldsize.rules import engine
from worldsize.rules.context import Context

if TYPE_CHECKING:
    from worldsize.resolving.resolve import ResolvedSpec


class Run(Struct):
    """What one call collects on its way through the files."""

    context: Context
    problems: list[Problem] = field(default_factory=list)
    subjects: dict[str, list[tuple[Any, Span]]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    referred: list[tuple[str, str]] = field(default_factory=list)  # what else is in use: path and kind
    kinds: dict[str, str] = field(default_factory=dict)  # what each file was recognised as, by path
    resolved: list[ResolvedSpec] = field(default_factory=list)
    incomplete: set[str] = field(default_factory=set)  # files that some checks could not reach
    _met: dict[int, object] = field(default_factory=dict)  # keeps the objects alive, so that ids stay theirs

    def guarded(self, found: discover.Found, kind: str = "") -> None:
        """Check one file; where that crashes it is reported, and the other files are still checked."""
        try:
            with self.context.budgets.charge(found.path):
                self.file(found, kind)
        except OverBudgetError:
            self.incomplete.add(found.path)
            self.files += [] if found.path in self.files else [found.path]
            self.problems.append(self.context.budgets.give_up(found.path))
        except Exception as error:
            self.incomplete.add(found.path)
            self.files += [] if found.path in self.files else [found.path]
            self.problems.append(engine.crash("reading this file", Span(found.path, 1, 1, 1, 1), error))

    def follow(self) -> None:
        """Check the jobs of schedules and the components of steps that are not checked as files of their own.

        What they use in turn is added to the list on the way.
        """
        seen = {os.path.realpath(path) for path in self.files}
        for path, kind in self.referred:
            real = os.path.realpath(path)
            if real not in seen and self.context.inside(path):
                seen.add(real)
                self.guarded(discover.Found(os.path.normpath(path), named=False), kind)

    def feed(self, subject: Any, span: Span) -> None:
        """Hand something to the rules registered for its type."""
        self.subjects.setdefault(type(subject).__name__, []).append((subject, span))

    def first_time(self, subject: object) -> bool:
        """Whether this object was not asked about before."""
        new = id(subject) not in self._met
        self._met[id(subject)] = subject
        return new

    def file(self, found: discover.Found, kind: str = "") -> None:
        """Recognise one file, unless its use says what it is, and run the stages of its kind."""
        document = self.context.document(found.path)
        kind = kind or discover.kind_of(document, named=found.named) or ""
        if not kind:
            self._unrecognised(document, named=found.named)
            return
        self.files.append(found.path)
        self.kinds[document.path] = kind
        self.problems += document.problems
        if document.root is not None:
            self.feed(document, Span(document.path, 1, 1, 1, 1))
        stages.stage_of_kind(kind)(self, document)

    def _unrecognised(self, document: yaml.Document, *, named: bool) -> None:
        unreadable = any(problem.slug == "yaml-unreadable" for problem in document.problems)
        if named or unreadable or (document.root is None and signs.ours(document.path, document.text)):
            self.files.append(document.path)
            self.incomplete.add(document.path)
            self.problems += document.problems
            if document.root is not None:
                message = "this is neither a spec nor an Azure ML file, so nothing in it was checked"
                help_ = "a spec has `steps:`, a job has `$schema:` or `type:`"
                at_start = Span(document.path, 1, 1, 1, 1)
                self.problems.append(Problem("file-not-recognised", at_start, message, help_))
