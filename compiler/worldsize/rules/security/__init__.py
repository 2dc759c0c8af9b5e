"""WS8: secrets, shell quoting, unpinned versions and uploads."""

from __future__ import annotations

from functools import partial

from worldsize.rules.registry import Rule

_upload_rule = partial(Rule, on=("Upload",), checked_in="_uploads", since="0.2.0")
_variable_rule = partial(Rule, on=("Launch",), checked_in="_variables", confidence="likely", since="0.2.0")
_unpinned_rule = partial(Rule, checked_in="_unpinned")

# One row a rule.
# fmt: off
RULES = (
    Rule("WS801", "secret-in-text", "error", "a key, token or password in a file",
         on=("Document", "Upload", "Component"), checked_in="_secrets"),
    Rule("WS802", "secret-in-variable", "warning", "a secret as the value of a variable",
         on=("Document", "Upload", "Component"), checked_in="_secrets", confidence="likely"),
    Rule("WS803", "text-splits-in-shell", "warning", "a value with spaces or shell characters outside quotes",
         on=("Step", "Job"), checked_in="_shell", confidence="likely"),
    Rule("WS804", "text-runs-in-shell", "warning", "a value that the shell executes, even in quotes",
         on=("Step", "Job"), checked_in="_shell", confidence="likely"),
    Rule("WS805", "nul-in-text", "error", "a NUL character in a value", on=("Document",),
         checked_in="_shell"),
    Rule("WS806", "variable-name-impossible", "error", "a name that is not valid for an environment variable",
         on=("Component", "Step"), checked_in="_shell"),
    _unpinned_rule("WS807", "environment-without-version", "error",
                   "a registered environment without a version", on=("Step", "Component"), since="0.2.0"),
    _variable_rule("WS808", "variable-not-replaced", "error", "a variable that the shell does not replace"),
    _variable_rule("WS809", "variable-unset", "error",
                   "an address or a rank from a variable that nothing sets"),
    _unpinned_rule("WS810", "environment-unpinned", "info", "an environment without a fixed version",
                   on=("Step", "Component")),
    _unpinned_rule("WS811", "image-unpinned", "info", "an image without a fixed tag", on=("Component",)),
    _unpinned_rule("WS812", "component-unpinned", "info", "a registered component without a fixed version",
                   on=("Step",)),
    _unpinned_rule("WS813", "dependency-unpinned", "info", "packages without versions", on=("Component",)),
    _unpinned_rule("WS814", "install-unpinned", "warning", "`pip install` without versions in a command",
                   on=("Component",)),
    Rule("WS815", "code-outside-tree", "warning", "code outside the repository", on=("Component",),
         checked_in="_uploads"),
    Rule("WS816", "copy-outside-tree", "error", "a copy of a file from outside the project"),
    Rule("WS817", "file-name-not-text", "error", "a file name that is not UTF-8"),
    _upload_rule("WS835", "secret-in-snapshot", "warning", "a file with secrets uploaded as code",
                 confidence="likely"),
    _upload_rule("WS836", "repository-in-snapshot", "warning", "a repository uploaded as code"),
    _upload_rule("WS837", "environment-in-snapshot", "warning", "an environment uploaded as code",
                 confidence="likely"),
    _upload_rule("WS838", "snapshot-large", "warning", "more than 50 MB uploaded as code"),
    Rule("WS839", "too-many-files", "error", "a folder with too many files to copy", since="0.2.0"),
    _upload_rule("WS840", "entry-not-copied", "warning", "a pipe, device or broken link in code"),
)
