"""WS5: data, code and environment files."""

from __future__ import annotations

from functools import partial

from worldsize.rules.registry import Rule

_argument_rule = partial(Rule, on=("Job", "Data"), checked_in="_arguments")
_late_argument_rule = partial(_argument_rule, since="0.2.0")
_component_rule = partial(Rule, on=("Component",))
_environment_rule = partial(_component_rule, checked_in="_environment_files")

# One row a rule.
# fmt: off
RULES = (
    _argument_rule("WS501", "data-missing", "warning", "a local data path that does not exist",
                   confidence="likely"),
    Rule("WS502", "code-missing", "error", "a code folder or file that does not exist"),
    Rule("WS503", "include-missing", "error", "an additional include that does not exist"),
    Rule("WS504", "include-clash", "error",
         "an additional include with the name of an entry of the code folder"),
    Rule("WS505", "user-model-missing", "error", "a model of your own that does not exist"),
    Rule("WS506", "rows-disagree", "error", "a row count that differs from the data"),
    Rule("WS507", "environment-missing", "error", "an environment file or folder that does not exist"),
    _argument_rule("WS520", "data-without-version", "error", "a registered data asset without a version"),
    _argument_rule("WS521", "data-is-folder", "error", "a folder as an input of type `uri_file`"),
    _argument_rule("WS522", "data-is-file", "warning", "a file as an input of type `uri_folder`",
                   confidence="likely"),
    _argument_rule("WS523", "mltable-missing", "error",
                   "an input of type `mltable` without its file `MLTable`"),
    Rule("WS524", "script-missing", "error", "a command that starts a script which is not in the code folder",
         on=("Component",), checked_in="_scripts", confidence="likely"),
    Rule("WS525", "script-ignored", "error", "a script that the ignore file excludes from the upload",
         on=("Component",), checked_in="_scripts"),
    _environment_rule("WS526", "dockerfile-missing", "error", "a build folder without a Dockerfile"),
    _environment_rule("WS527", "conda-file-invalid", "error", "a conda file that is not valid"),
    Rule("WS528", "code-from-git", "error", "the URL of a Git repository as `code`", on=("Component",),
         checked_in="_scripts"),
    Rule("WS529", "copied-file-missing", "error", "a Dockerfile that copies what the build folder lacks",
         on=("Component",), checked_in="_environment_files", confidence="likely", since="0.2.0"),
    _late_argument_rule("WS530", "data-source-missing", "error", "a `source` that is not in the data"),
    _late_argument_rule("WS531", "data-format-wrong", "error",
                        "data that is not in the format it is read in"),
    _late_argument_rule("WS532", "data-column-missing", "error", "a label or feature that is not a column"),
    _late_argument_rule("WS533", "data-row-invalid", "error", "a row of local data that cannot be read"),
    _late_argument_rule("WS534", "label-not-a-class", "error",
                        "a label that is not a class, or that has a single class"),
    _late_argument_rule("WS535", "label-not-categorical", "warning",
                        "a label that differs in nearly every row", confidence="likely"),
    _late_argument_rule("WS536", "picture-invalid", "error",
                        "local pictures of several sizes, outside class folders or damaged"),
    _late_argument_rule("WS537", "data-too-few-rows", "error",
                        "local data with no rows, or fewer than shards"),
    _late_argument_rule("WS538", "data-empty", "warning", "local data that is empty or not fetched",
                        confidence="likely"),
    _late_argument_rule("WS539", "mltable-path-missing", "error",
                        "an `MLTable` file that names missing files or columns"),
    Rule("WS540", "column-not-in-table", "error", "a column that a script reads and its table lacks",
         on=("Program",), when="script", confidence="likely", since="0.2.0"),
    _late_argument_rule("WS541", "data-without-path", "error", "a data input of a job without a path",
                        confidence="likely"),
    _environment_rule("WS542", "conda-line-reads-file", "warning",
                      "a conda file that installs from another file", since="0.2.0"),
    Rule("WS543", "user-hook-signature", "error", "a `loss`, `metrics` or `prepare` with other parameters",
         since="0.2.0"),
    Rule("WS545", "model-not-for-data", "error", "a built-in model that cannot learn from the data",
         on=("Job",), checked_in="_shard_steps", since="0.2.0"),
    _late_argument_rule("WS546", "class-doubtful", "warning", "a class that is probably misspelt",
                        confidence="likely"),
    _late_argument_rule("WS547", "column-tells-label", "warning", "a column that alone tells the label",
                        confidence="likely"),
    _late_argument_rule("WS548", "gate-constant-passes", "warning", "a gate that a constant answer passes",
                        confidence="likely"),
)
