"""WS5: data, shards and rows."""

from __future__ import annotations

from worldsize.rules.rule import Rule

# One row a rule.
# fmt: off
RULES = (
    Rule("WS501", "data-missing", "warning", "a local path of data that does not exist", on=("Job",)),
    Rule("WS502", "code-missing", "error", "a code folder that does not exist"),
    Rule("WS503", "include-missing", "error", "an additional include that does not exist"),
    Rule("WS504", "include-clash", "error", "an include that the code folder contains already"),
    Rule("WS505", "user-model-missing", "error", "a model of your own that cannot be found"),
    Rule("WS506", "rows-disagree", "error", "a row count that differs from the data"),
    Rule("WS507", "environment-missing", "error", "an environment file that does not exist"),
    Rule("WS520", "data-without-version", "error", "a data asset without a version", on=("Job",)),
    Rule("WS521", "data-is-folder", "error", "a folder given as a file", on=("Job",)),
    Rule("WS522", "data-is-file", "warning", "a file given as a folder", on=("Job",)),
    Rule("WS523", "mltable-missing", "error", "a table without its `MLTable` file", on=("Job",)),
    Rule("WS524", "script-missing", "error", "a command that starts a script which the code folder lacks",
         on=("Component",)),
    Rule("WS525", "script-ignored", "error", "a script that the ignore file leaves out", on=("Component",)),
    Rule("WS526", "dockerfile-missing", "error", "a build folder without a Dockerfile", on=("Component",)),
    Rule("WS527", "conda-file-invalid", "error", "a conda file that is not valid YAML", on=("Component",)),
    Rule("WS528", "code-from-git", "error", "code given as the address of a repository", on=("Component",)),
)
