"""WS5: data, shards and rows."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS501", "data-missing", on=("Job",)),
    Entry("WS502", "code-missing"),
    Entry("WS503", "include-missing"),
    Entry("WS504", "include-clash"),
    Entry("WS505", "user-model-missing"),
    Entry("WS506", "rows-disagree"),
    Entry("WS507", "environment-missing"),
    Entry("WS520", "data-without-version", on=("Job",)),
    Entry("WS521", "data-is-folder", on=("Job",)),
    Entry("WS522", "data-is-file", on=("Job",)),
    Entry("WS523", "mltable-missing", on=("Job",)),
    Entry("WS524", "script-missing", on=("Component",)),
    Entry("WS525", "script-ignored", on=("Component",)),
    Entry("WS526", "dockerfile-missing", on=("Component",)),
    Entry("WS527", "conda-file-invalid", on=("Component",)),
    Entry("WS528", "code-from-git", on=("Component",)),
)
